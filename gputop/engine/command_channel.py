"""What readers ask for, carried out: cards drawn, approvals run, each with who asked."""

from collections.abc import Coroutine
from typing import Any, Protocol, assert_never

import msgspec

from gputop.engine.events import ActionChanged, Event, JobsRead, NodesRead, ProposalChanged, TasksRead
from gputop.model.actions import Action, Intent, Outcome, Phase, Proposal, ProposalState, Refusal, Refused
from gputop.model.calls import Scheduler
from gputop.model.clock import Clock
from gputop.model.commands import Approve, Command, Dismiss, Goodbye, Propose
from gputop.model.errors import SourceError
from gputop.model.snapshot import Snapshot
from gputop.model.text import clean
from gputop.recover.executor import Executor
from gputop.recover.ledger import Ledger, LedgerError
from gputop.recover.proposals import propose, redraw
from gputop.recover.reconcile import reconcile

MAX_OPEN_PROPOSALS = 100


class Core(Protocol):
    """What the channel needs of the engine."""

    @property
    def snap(self) -> Snapshot: ...
    def post(self, event: Event) -> None: ...
    def step(self) -> None: ...
    def start(self, work: Coroutine[Any, Any, None]) -> None: ...


class CommandChannel:
    """One for an engine; every action of screen and shell goes through it."""

    def __init__(self, core: Core, *, scheduler: Scheduler, ledger: Ledger, clock: Clock) -> None:
        self._core = core
        self._scheduler = scheduler
        self._ledger = ledger
        self._clock = clock
        self._running: set[str] = set()
        self._executor = Executor(
            scheduler=scheduler,
            ledger=ledger,
            clock=clock,
            report=self._report,
            seen_nodes=lambda nodes: core.post(NodesRead(at=clock.now(), nodes=nodes)),
            seen_jobs=lambda jobs: core.post(TasksRead(at=clock.now(), jobs=jobs)),
        )

    @property
    def open_actions(self) -> int:
        """Actions under way."""
        return len(self._running)

    def take(self, by: str, command: Command) -> None:
        """Begins what a reader asks for; by names the peer for the ledger."""
        match command:
            case Propose(id=proposal_id, intent=intent):
                self._core.start(self._propose(proposal_id, intent, by))
            case Approve(proposal=proposal_id, typed=typed):
                self._approve(proposal_id, typed, by)
            case Dismiss(proposal=proposal_id):
                self._dismiss(proposal_id, by)
            case Goodbye():
                pass
            case _:
                assert_never(command)

    async def _propose(self, proposal_id: str, intent: Intent, by: str) -> None:
        """Draws a card on what Slurm says of its subject right now."""
        if len(proposal_id) > 64 or proposal_id in self._core.snap.proposals:
            return
        if sum(one.state is ProposalState.OPEN for one in self._core.snap.proposals.values()) >= MAX_OPEN_PROPOSALS:
            return
        intent = msgspec.structs.replace(intent, target=clean(intent.target, 200), note=clean(intent.note, 200))
        await self._refresh(intent)
        self._core.step()
        card = propose(
            proposal_id,
            intent,
            self._core.snap,
            self._clock.now(),
            by=by,
            argv=self._scheduler.argv,
            ledger_trouble=self._ledger.trouble,
        )
        self._core.post(ProposalChanged(card))
        self._core.step()

    async def _refresh(self, intent: Intent) -> None:
        """Reads the subject; when that fails the card is drawn on what is known, and says how old it is."""
        try:
            if intent.kind.on_node:
                self._core.post(NodesRead(at=self._clock.now(), nodes=await self._scheduler.nodes()))
                return
            if self._core.snap.sources["slurm.jobs"].stale(self._clock.now()):
                self._core.post(JobsRead(at=self._clock.now(), jobs=await self._scheduler.jobs()))
            job = self._core.snap.jobs.get(intent.target)
            if job is not None and not job.bundle:
                self._core.post(TasksRead(at=self._clock.now(), jobs=await self._scheduler.tasks((intent.target,))))
        except SourceError:
            return

    def _approve(self, proposal_id: str, typed: str, by: str) -> None:
        """The keypress: everything that can be checked without waiting is checked now."""
        card = self._core.snap.proposals.get(proposal_id)
        if card is None or card.state is not ProposalState.OPEN:
            return
        now = self._clock.now()
        card = msgspec.structs.replace(card, refusals=tuple(r for r in card.refusals if r.guard is not Refused.TYPED))
        card = redraw(card, self._core.snap, now, ledger_trouble=self._ledger.trouble)
        if card.state is ProposalState.OPEN and not card.refusals and card.typed and typed != card.typed:
            card = msgspec.structs.replace(
                card, refusals=(Refusal(Refused.TYPED, f"type {card.typed!r} to go on; got {clean(typed, 40)!r}"),)
            )
            self._core.post(ProposalChanged(card))
            self._core.step()
            return
        if card.state is not ProposalState.OPEN or card.refusals:
            self._note("refused", card, by, card.refusals[0].says if card.refusals else "the card is stale")
            self._core.post(ProposalChanged(card))
            self._core.step()
            return
        try:
            self._ledger.decide(now, "approved", card.id, card.intent, by, "")
            action = self._executor.reserve(card, by)
        except LedgerError as error:
            refused = Refusal(Refused.LEDGER, str(error))
            self._core.post(ProposalChanged(msgspec.structs.replace(card, refusals=(refused,))))
            self._core.step()
            return
        self._running.add(action.id)
        self._core.post(ProposalChanged(msgspec.structs.replace(card, state=ProposalState.APPROVED)))
        self._core.step()
        self._core.start(self._run(action, card))

    async def _run(self, action: Action, card: Proposal) -> None:
        try:
            await self._executor.run(action, card, self._core.snap)
        except Exception as error:  # noqa: BLE001 - one action's fault becomes its outcome; the engine goes on
            says = f"a fault of gputop's own: {type(error).__name__}: {error}"
            closed = msgspec.structs.replace(
                action, phase=Phase.CLOSED, outcome=Outcome.UNKNOWN, says=says, closed_at=self._clock.now()
            )
            self._report(closed)
        finally:
            self._running.discard(action.id)

    def _dismiss(self, proposal_id: str, by: str) -> None:
        card = self._core.snap.proposals.get(proposal_id)
        if card is None or card.state not in (ProposalState.OPEN, ProposalState.STALE):
            return
        self._note("dismissed", card, by, "")
        self._core.post(ProposalChanged(msgspec.structs.replace(card, state=ProposalState.DISMISSED)))
        self._core.step()

    def _note(self, what: str, card: Proposal, by: str, says: str) -> None:
        """A label in the ledger; one that cannot be written stops nothing."""
        try:
            self._ledger.decide(self._clock.now(), what, card.id, card.intent, by, says)
        except LedgerError:
            return

    def _report(self, action: Action) -> None:
        self._core.post(ActionChanged(action))
        self._core.step()

    def redrawn(self, snap: Snapshot, now: float) -> list[Event]:
        """Cards that look different after a fold."""
        changed: list[Event] = []
        for card in snap.proposals.values():
            if card.state is ProposalState.OPEN:
                fresh = redraw(card, snap, now, ledger_trouble=self._ledger.trouble)
                if fresh is not card:
                    changed.append(ProposalChanged(fresh))
        return changed

    async def settle(self) -> None:
        """At start-up: shows the recent past, and closes what the last engine left open."""
        for action in self._ledger.recent(50):
            self._core.post(ActionChanged(action))
        while self._ledger.open_actions():
            for action in await reconcile(self._ledger, self._scheduler, self._clock):
                self._core.post(ActionChanged(action))
            if self._ledger.open_actions():
                await self._clock.sleep(10.0)
