"""Slurm's text as facts: real shapes read right, hostile ones harmless, unreadable ones never a number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.model.errors import SourceError
from gputop.model.reading import Unknown
from gputop.sources.slurm import jobs as job_rows
from gputop.sources.slurm import nodes as node_rows
from gputop.sources.slurm.fields import format_argument, new_suffix, split_rows
from gputop.sources.slurm.hostlist import expand
from gputop.sources.slurm.jobs import count_tasks, parse_excluded, parse_jobs
from gputop.sources.slurm.layout import parse_layout
from gputop.sources.slurm.nodes import parse_boot_times, parse_nodes
from gputop.sources.slurm.site import parse_partitions, parse_reservations, parse_switches
from gputop.sources.slurm.states import job_state, node_state
from gputop.sources.slurm.tres import gpu_count, gpu_indices, gpu_type, job_gpus
from gputop.sources.slurm.values import duration, epoch, exit_code

S = "\x1fkabc\x1e"


def answer(*rows: dict[str, str], fields: tuple[str, ...], defaults: dict[str, str]) -> bytes:
    """What sinfo or squeue would print: each field with the suffix, each row with a newline."""
    lines = ["".join({**defaults, **row}[field] + S for field in fields) + "\n" for row in rows]
    return "".join(lines).encode("utf-8", "surrogateescape")


NODE = {
    "NodeList": "gpu0001",
    "StateComplete": "idle",
    "Partition": "train*",
    "Gres": "gpu:h100:8",
    "GresUsed": "gpu:h100:0(IDX:N/A)",
    "UserLong": "Unknown",
    "TimeStamp": "Unknown",
    "Version": "22.05.8",
    "Reason": "none",
}
JOB = {
    **dict.fromkeys(job_rows.FIELDS, ""),
    "JobID": "7",
    "ArrayJobID": "7",
    "ArrayTaskID": "N/A",
    "HetJobID": "0",
    "HetJobOffset": "0",
    "State": "RUNNING",
    "UserName": "ann",
    "NodeList": "gpu0001",
    "NumNodes": "1",
    "tres-alloc": "cpu=1,node=1,billing=1",
    "tres-per-node": "gres:gpu:h100:8",
    "tres-per-job": "N/A",
    "RestartCnt": "0",
    "Requeue": "1",
    "BatchFlag": "1",
    "SubmitTime": "1796111065",
    "TimeLimit": "1-00:00:00",
    "PriorityLong": "4294901757",
    "exit_code": "0",
    "Name": "train",
}


def nodes(*rows: dict[str, str]) -> bytes:
    return answer(*rows, fields=node_rows.FIELDS, defaults=NODE)


def jobs(*rows: dict[str, str]) -> bytes:
    return answer(*rows, fields=job_rows.FIELDS, defaults=JOB)


def test_a_node_in_two_partitions_is_one_node() -> None:
    (node,) = parse_nodes(nodes({}, {"Partition": "debug"}), S)
    assert node.partitions == ("debug", "train")
    assert (node.gpus, node.gpu_type, node.gpus_allocated) == (8, "h100", 0)


def test_no_node_at_all_is_not_believed() -> None:
    with pytest.raises(SourceError, match="not believed"):
        parse_nodes(b"", S)


def test_a_reason_counts_only_with_a_state_that_has_use_for_one() -> None:
    said = {"Reason": "old", "UserLong": "root(0)", "TimeStamp": "1796111068"}
    idle, drained = parse_nodes(nodes(said, {**said, "NodeList": "gpu0002", "StateComplete": "idle+drain"}), S)
    assert idle.reason is None
    assert drained.reason is not None
    assert (drained.reason.owner, drained.reason.at) == ("root", 1796111068.0)


def test_a_name_with_separators_and_newlines_makes_no_second_job() -> None:
    name = "nl\nJobId=999 JobState=FAILED|\x1f\x1ek\x1b[31m"
    (job,) = parse_jobs(jobs({"Name": name}), S, excludes=False)
    assert job.id == "7"
    assert "\n" not in job.name
    assert "\x1b" not in job.name


def test_array_tasks_bundles_and_het_components_have_the_ids_that_commands_take() -> None:
    rows = (
        {"JobID": "23", "ArrayJobID": "23", "ArrayTaskID": "6"},
        {"JobID": "24", "ArrayJobID": "24", "ArrayTaskID": "2-9%2", "State": "PENDING"},
        {"JobID": "31", "HetJobID": "30", "HetJobOffset": "1"},
    )
    task, bundle, het = parse_jobs(jobs(*rows), S, excludes=False)
    assert (task.id, task.bundle) == ("23_6", False)
    assert (bundle.id, bundle.tasks, bundle.bundle) == ("24_[2-9%2]", 8, True)
    assert het.id == "30+1"


def test_a_release_that_does_not_show_exclude_lists_leaves_them_unknown() -> None:
    (old,) = parse_jobs(jobs({}), S, excludes=False)
    (new,) = parse_jobs(jobs({"ExcNodes": "gpu[0002-0003]"}), S, excludes=True)
    assert isinstance(old.excluded, Unknown)
    assert new.excluded == ("gpu0002", "gpu0003")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpu:a100:4(S:0-1)", 4),
        ("gpu:(null):4(IDX:0-3)", 4),
        ("gpu:a100:2(IDX:0,4),gpu:v100:1(IDX:5)", 3),
        ("gpu:a100:4,shard:32", 4),
        ("cpu=64,mem=1T,node=1,gres/gpu=8,gres/gpu:h100=8", 8),
        ("gres:gpu:4", 4),
        ("gres/gpu:h100:8", 8),
        ("gpu:8", 8),
        ("(null)", 0),
        ("N/A", 0),
    ],
)
def test_gpus_are_counted(text: str, count: int) -> None:
    assert gpu_count(text) == count


def test_gpu_types_and_indices() -> None:
    assert gpu_type("gpu:a100:2(IDX:0,4),gpu:v100:1(IDX:5)") == "a100,v100"
    assert gpu_indices("gpu:h100:4(IDX:0-2,5)") == (0, 1, 2, 5)


def test_a_jobs_gpus_are_as_allocated_else_as_asked_for_else_unknown() -> None:
    assert job_gpus("cpu=1,gres/gpu=16", "gres:gpu:8", "N/A", 2) == 16
    assert job_gpus("cpu=1", "gres:gpu:h100:8", "N/A", 2) == 16
    assert job_gpus("cpu=1", "N/A", "gres/gpu:4", 2) == 4
    assert job_gpus("cpu=1", "N/A", "N/A", 1) == 0
    assert isinstance(job_gpus("", "gres:gpu:8", "N/A", 0), Unknown)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu[001-003]", ("gpu001", "gpu002", "gpu003")),
        ("a1,b[2,4]", ("a1", "b2", "b4")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("gpu[1-2]-ib", ("gpu1-ib", "gpu2-ib")),
        ("(null)", ()),
        ("None assigned", ()),
    ],
)
def test_hostlists(text: str, names: tuple[str, ...]) -> None:
    assert sorted(expand(text)) == sorted(names)


@pytest.mark.parametrize("text", ["gpu[1-99999999]", "a[1-9999][1-9999]", "$(reboot)", "a;b", "@group", "a b"])
def test_a_hostlist_that_is_none_or_too_long_is_refused(text: str) -> None:
    with pytest.raises(SourceError):
        expand(text)


@pytest.mark.parametrize(
    ("text", "base", "flags"),
    [
        ("idle", "idle", set()),
        ("mixed+drain", "mixed", {"drain"}),
        ("DOWN+DRAIN+REBOOT_ISSUED", "down", {"drain", "reboot_issued"}),
        ("idle+power_up+powered_down", "idle", {"power_up", "powered_down"}),
    ],
)
def test_node_states_are_base_and_flags(text: str, base: str, flags: set[str]) -> None:
    state = node_state(text)
    assert (state.base, set(state.flags)) == (base, flags)


def test_a_job_held_by_requeue_is_pending() -> None:
    assert job_state("REQUEUE_HOLD").base == "pending"
    assert job_state("COMPLETING").base == "completing"


def test_times_durations_and_exit_codes() -> None:
    assert epoch("1796111065") == 1796111065.0
    assert isinstance(epoch("Unknown"), Unknown)
    assert isinstance(epoch("0"), Unknown)
    assert duration("1-02:03:04") == 93784.0
    assert duration("UNLIMITED") == float("inf")
    assert isinstance(duration("Partition_Limit"), Unknown)
    assert (exit_code("768"), exit_code("9"), exit_code("3:0")) == ("3:0", "0:9", "3:0")


def test_tasks_of_a_bundle_are_counted() -> None:
    assert [count_tasks(text) for text in ("2-9%2", "0,9-50000", "1-9:2", "7", "0-3,...")] == [8, 49993, 5, 1, 4]


def test_the_real_exclude_list_is_found_behind_a_forged_one() -> None:
    line = b"JobId=9 JobName=x ExcNodeList=gpu0009 UserId=a ReqNodeList=(null) ExcNodeList=gpu[0001-0002] NodeList=gpu0003 "  # noqa: E501 - as scontrol prints it
    assert parse_excluded(line) == ("gpu0001", "gpu0002")
    assert isinstance(parse_excluded(b"garbage"), Unknown)


def test_gpu_indices_of_a_job_on_parts_of_nodes() -> None:
    text = b"JobId=3 StartTime=1796111065 EndTime=1 JOB_GRES=gpu:h100:3 Nodes=gpu[0001-0002] CPU_IDs=0 Mem=0 GRES=gpu:h100:2(IDX:0-1) Nodes=gpu0003 CPU_IDs=0 Mem=0 GRES=gpu:h100:1(IDX:7) "  # noqa: E501 - a line of scontrol
    layout = parse_layout("3", text)
    assert layout is not None
    assert dict(layout.gpus) == {"gpu0001": (0, 1), "gpu0002": (0, 1), "gpu0003": (7,)}
    assert parse_layout("3", b"JobId=3 ") is None


def test_partitions_reservations_and_switches() -> None:
    (partition,) = parse_partitions(b"PartitionName=train AllowGroups=ALL Default=YES Nodes=gpu[1-2] State=UP TRES=x\n")
    assert (partition.default, partition.nodes, partition.state) == (True, ("gpu1", "gpu2"), "UP")
    text = b"ReservationName=m StartTime=1796111065 EndTime=1796119999 Nodes=gpu1 Flags=MAINT,SPEC_NODES Users=root\n"
    (reservation,) = parse_reservations(text)
    assert reservation.maintenance
    assert parse_reservations(b"No reservations in the system\n") == ()
    (leaf, spine) = parse_switches(
        b"SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[1-2]\nSwitchName=spine Level=1 LinkSpeed=1 Nodes=gpu[1-2] Switches=leaf1\n"  # noqa: E501 - as scontrol prints it
    )
    assert (leaf.level, spine.level) == (0, 1)


def test_boot_times_are_read_before_the_free_text() -> None:
    text = b"NodeName=a Arch=x BootTime=1796106620 SlurmdStartTime=2 Reason=x BootTime=5 \n   nl [root@1]\nNodeName=b BootTime=None Reason=y\n"  # noqa: E501 - as scontrol prints it
    assert parse_boot_times(text) == {"a": 1796106620.0}


@given(st.binary(max_size=400))
def test_no_answer_whatever_crashes_a_parser(data: bytes) -> None:
    for parse in (lambda: parse_nodes(data, S), lambda: parse_jobs(data, S, excludes=True)):
        try:
            parse()
        except SourceError:
            continue
    parse_boot_times(data)


@given(st.dictionaries(st.sampled_from(job_rows.FIELDS), st.text(max_size=30), max_size=6))
def test_no_field_whatever_becomes_a_zero_it_was_not(row: dict[str, str]) -> None:
    try:
        found = parse_jobs(jobs({**row, "JobID": "7"}), S, excludes=True)
    except SourceError:
        return
    for job in found:
        for value in (job.start_time, job.end_time, job.time_limit):
            assert isinstance(value, Unknown) or value > 0 or "00:00" in row.get("TimeLimit", "")


@given(
    st.lists(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=8), min_size=3, max_size=3), max_size=5)
)
def test_rows_come_back_as_they_were_whatever_is_in_them(rows: list[list[str]]) -> None:
    suffix = new_suffix()
    text = "".join("".join(field + suffix for field in row) + "\n" for row in rows)
    back = split_rows(text.encode(), suffix, 3, "test")
    assert [[row[0].lstrip("\n"), *row[1:]] for row in back] == [[row[0].lstrip("\n"), *row[1:]] for row in rows]


def test_the_suffix_is_new_each_time_and_ends_every_field() -> None:
    one, other = new_suffix(), new_suffix()
    assert one != other
    assert format_argument(("A", "B"), one) == f"A:{one},B:{one}"
