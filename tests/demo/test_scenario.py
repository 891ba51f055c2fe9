"""Scenario files: all that ship are valid, and whatever is wrong with one is said with file, key and expectation."""

from pathlib import Path

import pytest

from gputop.demo.faults import KINDS
from gputop.demo.scenario import load_scenario, parse_scenario, shipped
from gputop.model.errors import ConfigError
from tests.demo.build import HEAD, fault, scenario

README = Path(__file__).parents[2] / "gputop/demo/scenarios/README.md"


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_scenario_is_valid_and_fits_its_own_cluster(name: str) -> None:
    one = load_scenario(name)
    assert one.name == name
    assert one.nodes >= one.least_nodes
    assert all(fault.at < one.seconds for fault in one.faults)


def test_a_file_from_outside_is_taken_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + fault("gpu-lost", "gpu0001/3", reaction=("drain",)))
    one = load_scenario(str(path))
    assert (one.name, one.faults[0].reaction) == ("mine", ("drain",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seconds = ", "test.toml: not valid TOML"),
        ('about = "x"\n', "missing required field `seconds`"),
        (HEAD + "speed = 3\n", "unknown field `speed`"),
        (HEAD + "[[faults]]\nat = -1\nkind = 'xid'\nsubject = 'all'\n", "faults[0].at: expected `float` >= 0.0"),
        (HEAD + fault("gpu-gone", "all"), "test.toml: faults[0].kind: no kind 'gpu-gone'; there is: clock-skew"),
        (HEAD + fault("gpu-lost", "gpu/0/1"), "faults[0].subject: expected a node, node/GPU"),
        (HEAD + fault("node-dead", "gpu0001/2"), "node-dead happens to a node; got 'gpu0001/2'"),
        (HEAD + fault("job-hang", "gpu0001"), "job-hang happens to a job"),
        (HEAD + fault("slurmctld-down", "gpu0001"), "slurmctld-down happens to a slurmctld"),
        (HEAD + fault("job-crash", "job:x", text="bad luck"), "expected one of hardware, nccl"),
        (HEAD + fault("xid", "all", reaction=("pray",)), "invalid enum value 'pray'"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_scenario(text, "test.toml")
    assert said in str(caught.value)


def test_a_scenario_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ConfigError, match=r"no scenario 'nope': give a file, or one of .*guided"):
        load_scenario("nope")


def test_each_kind_is_documented_with_what_it_is_about() -> None:
    text = README.read_text()
    for name, kind in KINDS.items():
        assert f"| `{name}` | {kind.about} | {kind.says} |" in text, name


def test_defaults_are_a_scenario_without_anything() -> None:
    assert scenario().faults == ()
