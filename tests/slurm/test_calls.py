"""What is sent to Slurm, and what its answer means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.model.calls import (
    Ability,
    AnswerKind,
    Call,
    CancelJob,
    DrainNode,
    HoldJob,
    MarkJob,
    ReleaseJob,
    RequeueJob,
    ResumeNode,
    UpdateJob,
)
from gputop.sources.commands import Completed
from gputop.sources.slurm.abilities import judge
from gputop.sources.slurm.answers import answer
from gputop.sources.slurm.calls import argv


@pytest.mark.parametrize(
    ("call", "command"),
    [
        (DrainNode("gpu1", "gputop[a]: x y"), "scontrol update nodename=gpu1 state=drain reason=gputop[a]: x y"),
        (ResumeNode("gpu1"), "scontrol update nodename=gpu1 state=resume"),
        (RequeueJob("7_3"), "scontrol requeue 7_3"),
        (RequeueJob("7", hold=True), "scontrol requeuehold 7"),
        (UpdateJob("7", excluded=("a", "b"), start_now=True), "scontrol update jobid=7 ExcNodeList=a,b StartTime=now"),
        (UpdateJob("7", start_now=True), "scontrol update jobid=7 StartTime=now"),
        (HoldJob("7"), "scontrol hold 7"),
        (ReleaseJob("30+1"), "scontrol release 30+1"),
        (CancelJob("7"), "scancel 7"),
        (MarkJob("7", "gputop[a]"), "scontrol update jobid=7 AdminComment=gputop[a]"),
    ],
)
def test_the_exact_command(call: Call, command: str) -> None:
    assert " ".join(argv(call)) == command


@given(st.text(max_size=40))
def test_no_target_but_one_plain_name_reaches_a_command(name: str) -> None:
    for call in (ResumeNode(name), RequeueJob(name), CancelJob(name)):
        try:
            command = argv(call)
        except ValueError:
            continue
        assert all(char.isalnum() or char in "_.+-=" for char in command[-1] if char != " ") or "state=" in command[-1]
        assert not name.startswith("-")


@given(st.text(max_size=60))
def test_no_text_brings_a_control_character_or_a_second_argument(text: str) -> None:
    command = argv(DrainNode("gpu1", text))
    assert len(command) == 5
    assert command[4].startswith("reason=")
    assert "\n" not in command[4]
    assert "\x1b" not in command[4]


def done(status: int, stderr: str = "") -> Completed:
    return Completed(status=status, stdout=b"", stderr=stderr.encode())


@pytest.mark.parametrize(
    ("completed", "kind"),
    [
        pytest.param(done(0), AnswerKind.ACCEPTED, id="0 is accepted and no more"),
        pytest.param(done(1, "slurm_update error: Invalid user id"), AnswerKind.REFUSED, id="a refusal in words"),
        pytest.param(done(1, "Unable to contact slurm controller (connect failure)"), AnswerKind.UNKNOWN, id="down"),
        pytest.param(done(1, "Socket timed out on send/recv operation"), AnswerKind.UNKNOWN, id="frozen"),
        pytest.param(done(1, "Unexpected message received for job 1"), AnswerKind.UNKNOWN, id="down, misleadingly"),
        pytest.param(done(-9), AnswerKind.UNKNOWN, id="killed"),
        pytest.param(
            done(210, "Kill job error on job id 34: Access/permission denied"), AnswerKind.REFUSED, id="scancel"
        ),
    ],
)
def test_an_answer_says_only_what_it_says(completed: Completed, kind: AnswerKind) -> None:
    assert answer(completed).kind is kind


CONFIG = "AccountingStorageType   = accounting_storage/none\nSlurmUser               = slurm(64030)\n"


@pytest.mark.parametrize(
    ("account", "level", "sudo", "nodes", "jobs"),
    [
        pytest.param("root", None, None, Ability.YES, Ability.YES, id="root"),
        pytest.param("slurm", None, None, Ability.YES, Ability.YES, id="SlurmUser"),
        pytest.param("ann", None, None, Ability.NO, Ability.NO, id="nobody where there is no accounting"),
        pytest.param("op", "Operator", None, Ability.NO, Ability.YES, id="operator"),
        pytest.param("op", "Administrator", None, Ability.YES, Ability.YES, id="administrator"),
        pytest.param("op", None, True, Ability.YES, Ability.YES, id="sudo allows it"),
        pytest.param("op", None, False, Ability.NO, Ability.NO, id="sudo does not"),
    ],
)
def test_what_an_account_may_do(
    account: str, level: str | None, sudo: bool | None, nodes: Ability, jobs: Ability
) -> None:
    found = judge(account, CONFIG, level, sudo)
    assert (found.nodes, found.jobs) == (nodes, jobs)
    assert found.detail


def test_rights_that_cannot_be_read_are_unknown() -> None:
    assert judge("op", CONFIG.replace("none", "slurmdbd"), None, None).nodes is Ability.UNKNOWN
