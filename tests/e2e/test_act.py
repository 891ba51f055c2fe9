"""Every action on a real Slurm, checked by asking Slurm itself."""

import asyncio

import pytest

from gputop.model.actions import Intent, Kind, Outcome, Refused
from gputop.model.snapshot import Snapshot
from tests.lab.accounts import OPERATOR
from tests.lab.follow import Follower, engine
from tests.lab.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]


async def running(follower: Follower, job: str) -> Snapshot:
    return await follower.until(f"job {job} to run", lambda s: job in s.jobs and s.jobs[job].running, 90)


async def slurm_read(follower: Follower) -> Snapshot:
    return await follower.until("Slurm", lambda s: len(s.nodes) == 16 and not s.sources["slurm.jobs"].stale(s.time))


async def test_drain_and_resume(lab: Lab) -> None:
    async with engine(lab) as follower:
        await slurm_read(follower)
        action = await follower.act(Intent(kind=Kind.DRAIN, target="gpu0002", note="smells"))
        assert action.outcome is Outcome.CONFIRMED, action.says
        assert lab.node_state("gpu0002") == "IDLE+DRAIN"
        assert f"Reason=gputop[{action.id}]: smells" in lab.ask("scontrol", "show", "node", "gpu0002")
        assert action.undo is not None
        action = await follower.act(action.undo)
        assert action.outcome is Outcome.CONFIRMED, action.says
        assert "DRAIN" not in lab.node_state("gpu0002")


async def test_a_drain_over_a_foreign_reason_is_refused_in_words_and_its_resume_needs_the_name(lab: Lab) -> None:
    lab.ask("scontrol", "update", "nodename=gpu0003", "state=drain", "reason=bad fan, ticket 4711")
    async with engine(lab) as follower:
        await slurm_read(follower)
        card = await follower.propose(Intent(kind=Kind.DRAIN, target="gpu0003"))
        assert [refusal.guard for refusal in card.refusals] == [Refused.FOREIGN]
        assert "bad fan, ticket 4711" in card.refusals[0].says
        await follower.approve(card)
        card = await follower.propose(Intent(kind=Kind.RESUME, target="gpu0003"))
        assert card.typed == "gpu0003"
        await follower.approve(card, "gpu0004")
        await follower.until("the refusal", lambda s: bool(s.proposals[card.id].refusals))
        assert "DRAIN" in lab.node_state("gpu0003")
        assert "ticket 4711" in lab.ask("scontrol", "show", "node", "gpu0003")
        action = await follower.act(Intent(kind=Kind.RESUME, target="gpu0003"), "gpu0003")
        assert action.outcome is Outcome.CONFIRMED


async def test_requeue(lab: Lab) -> None:
    job = lab.submit("--gpus-per-node=8")
    async with engine(lab) as follower:
        await running(follower, job)
        await follower.until("the account's rights", lambda s: s.abilities is not None)
        action = await follower.act(Intent(kind=Kind.REQUEUE, target=job))
        assert action.outcome is Outcome.CONFIRMED, action.says
        assert lab.job(job, "Restarts") == "1"
        assert lab.job(job, "AdminComment").startswith(f"gputop[{action.id}]")
        assert "refused by the node" in " ".join(step.says for step in action.steps)
        await running(follower, job)


async def test_requeue_excluding_lands_elsewhere(lab: Lab) -> None:
    job = lab.submit("--gpus-per-node=8", "--exclude=gpu0016")
    async with engine(lab) as follower:
        snap = await running(follower, job)
        bad = snap.jobs[job].nodes[0]
        action = await follower.act(Intent(kind=Kind.REQUEUE_EXCLUDING, target=job, exclude=(bad,)))
        assert action.outcome is Outcome.CONFIRMED, action.says
        excluded = lab.ask("scontrol", "show", "hostnames", lab.job(job, "ExcNodeList")).split()
        assert set(excluded) == {bad, "gpu0016"}
        snap = await running(follower, job)
        assert bad not in snap.jobs[job].nodes


async def test_one_task_of_an_array_is_requeued_and_no_other(lab: Lab) -> None:
    array = lab.submit("--gpus-per-node=8", "--array=0-2")
    async with engine(lab) as follower:
        await running(follower, f"{array}_1")
        action = await follower.act(Intent(kind=Kind.REQUEUE, target=f"{array}_1"))
        assert action.outcome is Outcome.CONFIRMED, action.says
        restarts = [lab.job(f"{array}_{task}", "Restarts") for task in range(3)]
        assert restarts == ["0", "1", "0"]
        card = await follower.propose(Intent(kind=Kind.REQUEUE, target=array))
        assert card.refusals


async def test_hold_release_and_cancel(lab: Lab) -> None:
    job = lab.submit("--gpus-per-node=8", "--begin=now+1hour")
    async with engine(lab) as follower:
        await follower.until("the job", lambda s: job in s.jobs)
        held = await follower.act(Intent(kind=Kind.HOLD, target=job))
        assert held.outcome is Outcome.CONFIRMED, held.says
        assert lab.job(job, "Reason") == "JobHeldAdmin"
        released = await follower.act(Intent(kind=Kind.RELEASE, target=job))
        assert released.outcome is Outcome.CONFIRMED, released.says
        assert lab.job(job, "Priority") != "0"
        card = await follower.propose(Intent(kind=Kind.CANCEL, target=job))
        await follower.approve(card)
        await follower.until("the word to be asked for", lambda s: bool(s.proposals[card.id].refusals))
        assert lab.job(job, "JobState") == "PENDING"
        cancelled = await follower.act(Intent(kind=Kind.CANCEL, target=job), "cancel")
        assert cancelled.outcome is Outcome.CONFIRMED, cancelled.says
        assert lab.job(job, "JobState") == "CANCELLED"


async def test_what_slurm_refuses_is_said_in_its_words(lab: Lab) -> None:
    async with engine(lab, OPERATOR) as follower:
        await slurm_read(follower)
        await follower.until("the account's rights", lambda s: s.abilities is not None)
        card = await follower.propose(Intent(kind=Kind.DRAIN, target="gpu0004"))
        assert card.refusals[0].guard is Refused.ABILITY
        assert "only root and SlurmUser" in card.refusals[0].says
        assert lab.node_state("gpu0004") == "IDLE"


async def test_slurm_stopped_between_send_and_read_back_ends_unknown_and_nothing_is_sent_twice(lab: Lab) -> None:
    job = lab.submit("--gpus-per-node=8", wrap="trap : TERM; while :; do sleep 1; done")
    async with engine(lab) as follower:
        await running(follower, job)
        card = await follower.propose(Intent(kind=Kind.REQUEUE, target=job))
        await follower.approve(card)
        await follower.until(
            "Slurm to accept", lambda s: card.id in s.actions and s.actions[card.id].phase == "accepted"
        )
        lab.slurm.freeze_controller()
        try:
            snap = await follower.until("its end", lambda s: not s.actions[card.id].open, 120)
        finally:
            lab.slurm.thaw_controller()
        action = snap.actions[card.id]
        assert action.outcome is Outcome.UNKNOWN, action.says
        await follower.until("the requeue", lambda s: s.jobs[job].pending and s.jobs[job].restarts > 0, 60)
        assert lab.job(job, "Restarts") == "1"


async def test_a_changed_subject_makes_the_card_stale_and_its_key_dead(lab: Lab) -> None:
    async with engine(lab) as follower:
        await slurm_read(follower)
        card = await follower.propose(Intent(kind=Kind.DRAIN, target="gpu0006"))
        lab.ask("scontrol", "update", "nodename=gpu0006", "state=drain", "reason=somebody was faster")
        await follower.until("the card to be stale", lambda s: s.proposals[card.id].state == "stale", 15)
        await follower.approve(card)
        await asyncio.sleep(1)
        assert card.id not in follower.snap.actions
        assert "somebody was faster" in lab.ask("scontrol", "show", "node", "gpu0006")


async def test_two_approvals_at_once_run_once(lab: Lab) -> None:
    async with engine(lab) as follower:
        await slurm_read(follower)
        card = await follower.propose(Intent(kind=Kind.DRAIN, target="gpu0012"))
        await follower.approve(card)
        await follower.approve(card)
        await follower.until("its end", lambda s: card.id in s.actions and not s.actions[card.id].open)
        assert sum(step.phase == "asked" for step in follower.snap.actions[card.id].steps) == 1
        assert follower.snap.actions[card.id].outcome is Outcome.CONFIRMED
