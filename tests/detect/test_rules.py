"""Each rule: silent on a healthy node, says what it sees with its reading, and is off where a site wants it off."""

from pathlib import Path

import pytest

from gputop.detect.explain import explain, listing, table
from gputop.detect.registry import RULES, choose
from gputop.model.errors import ConfigError
from gputop.model.findings import Hint, Need, Severity
from gputop.model.hosts import LinkState
from tests.detect.build import BOOT, NOW, codes, passes, snap

README = Path(__file__).parents[2] / "README.md"
XID = "NVRM: Xid (PCI:0000:03:00): {}, pid='<unknown>', name=<unknown>, text"


def test_a_healthy_node_has_no_finding_and_no_blind_spot() -> None:
    passed = passes(snap(), snap(now=NOW + 5))
    assert (dict(passed.findings), dict(passed.blinds)) == ({}, {})


@pytest.mark.parametrize(
    ("readings", "rule", "severity", "hint", "says"),
    [
        ({"present": 0}, "GPU001", Severity.FATAL, Hint.REBOOT, "GPU 3 is lost"),
        ({"recovery_action": 1}, "GPU002", Severity.FATAL, Hint.RESET, "GPU 3 asks for a reset"),
        ({"recovery_action": 2}, "GPU002", Severity.FATAL, Hint.REBOOT, "GPU 3 asks for a reboot of its node"),
        (
            {"recovery_action": 9},
            "GPU002",
            Severity.FATAL,
            Hint.PERSON,
            "GPU 3 asks for a repair of an unknown kind (9)",
        ),
        ({"ecc_unc": 1}, "GPU004", Severity.FATAL, Hint.RESET, "GPU 3 has uncorrected ECC errors"),
        (
            {"sram_threshold": 1},
            "GPU004",
            Severity.FATAL,
            Hint.PERSON,
            "GPU 3 passed the vendor's limit of SRAM errors",
        ),
        ({"remap_failed": 1}, "GPU005", Severity.FATAL, Hint.PERSON, "GPU 3 has a row that cannot be remapped"),
        ({"remap_pending": 1}, "GPU005", Severity.DEGRADED, Hint.RESET, "GPU 3 has a row that waits to be remapped"),
        ({"retired_pending": 1}, "GPU005", Severity.DEGRADED, Hint.RESET, "GPU 3 has a page that waits to be retired"),
        ({"pcie_width": 4}, "GPU007", Severity.DEGRADED, Hint.DRAIN, "GPU 3 runs on PCIe lanes 4 of 16"),
        ({"nvlinks_up": 16}, "NET001", Severity.DEGRADED, Hint.DRAIN, "GPU 3 has 16 of 18 NVLinks"),
        ({"fabric_state": 2}, "NET001", Severity.DEGRADED, Hint.DRAIN, "GPU 3 is not in the NVLink fabric"),
    ],
)
def test_a_gpu_that_is_not_well(
    readings: dict[str, float], rule: str, severity: Severity, hint: Hint, says: str
) -> None:
    (one,) = passes(snap({3: readings})).findings.values()
    assert (one.rule, one.severity, one.hint, one.says) == (rule, severity, hint, says)
    assert (one.node, one.subject, one.since) == ("n1", "n1/0000:03:00", NOW)
    (column, value), *_ = readings.items()
    assert (one.evidence[0].reading, one.evidence[0].value) == (column, f"{value:.0f}")
    assert not passes(snap({3: readings}), rules={rule: {"off": True}}).findings


def test_pcie_counts_only_under_load() -> None:
    assert not passes(snap({3: {"pcie_width": 4, "util": 5}})).findings


def test_a_slowdown_is_a_counter_that_rises_in_three_readings_in_a_row() -> None:
    readings = [snap({2: {"hw_thermal_us": 1000.0 * k}}, now=NOW + 5 * k) for k in range(4)]
    assert not passes(*readings[:3]).findings
    (one,) = passes(*readings).findings.values()
    assert (one.rule, one.says, one.severity) == ("GPU006", "GPU 2 is slowed by heat", Severity.DEGRADED)
    # Looked at again between two readings, nothing is counted twice.
    again = [snap({2: {"hw_thermal_us": 1000.0 * (k // 3)}}, now=NOW + k, read_at=NOW + 5 * (k // 3)) for k in range(9)]
    assert not passes(*again).findings
    standing = snap({2: {"hw_thermal_us": 3000.0}}, now=NOW + 20)
    assert not passes(*readings, standing).findings


def test_a_port_is_down_for_longer_than_a_flap() -> None:
    down = [snap(now=NOW + 5 * k, port_state=1) for k in range(50)]
    assert not passes(*down[:40]).findings
    (one,) = passes(*down).findings.values()
    assert (one.rule, one.says, one.since) == ("NET002", "port mlx5_0 is down", NOW)
    flap = [snap(now=NOW + 5 * k, port_state=4 if k == 30 else 1) for k in range(50)]
    assert not passes(*flap).findings


@pytest.mark.parametrize(
    ("host", "rule", "says"),
    [
        ({"disk_used": 99.0}, "HOST001", "the root file system is 99 % full"),
        ({"clock_skew": -95.0}, "HOST002", "its clock is 95 s behind"),
        ({"blocked": 6.0}, "HOST003", "6 processes wait in the kernel"),
    ],
)
def test_a_host_that_is_not_well(host: dict[str, float], rule: str, says: str) -> None:
    (one,) = passes(snap(host=host)).findings.values()
    assert (one.rule, one.says) == (rule, says)


def test_thresholds_are_the_sites_own() -> None:
    full = snap(host={"disk_used": 90.0})
    assert not passes(full).findings
    assert codes(passes(full, rules={"HOST001": {"percent": 85}})) == ["HOST001"]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"GPU999": {}}, "rules.GPU999: no such rule; there is: GPU001"),
        ({"GPU006": {"passess": 3}}, "rules.GPU006.passess: expected off, passes"),
        ({"GPU006": {"off": 1}}, "rules.GPU006.off: expected true or false"),
        ({"GPU006": {"passes": True}}, "rules.GPU006.passes: expected a number"),
    ],
)
def test_a_wrong_override_is_said(rules: dict[str, dict[str, float | bool]], said: str) -> None:
    with pytest.raises(ConfigError, match="^" + said.replace(".", r"\.")):
        choose(rules)


def test_the_cause_is_the_first_xid_that_is_no_consequence() -> None:
    lines = tuple(XID.format(code) for code in (45, 43, 79, 119))
    (one,) = passes(snap(lines=lines)).findings.values()
    assert (one.rule, one.severity, one.hint) == ("GPU003", Severity.FATAL, Hint.REBOOT)
    assert one.says == "XID 79 on 0000:03:00: the GPU fell off the bus"
    assert (one.subject, one.since) == ("n1/0000:03:00", NOW - 60)


@pytest.mark.parametrize(
    ("code", "text", "severity", "hint"),
    [
        (48, "", Severity.FATAL, Hint.RESET),
        (31, "", Severity.INFO, Hint.NONE),
        (43, "", Severity.INFO, Hint.NONE),
        (63, "", Severity.WARN, Hint.WATCH),
        (149, " NETIR_LINK_EVT  Fatal   XC0", Severity.FATAL, Hint.PERSON),
        (149, " NETIR_LINK_EVT  Nonfatal XC0", Severity.WARN, Hint.WATCH),
        (999, "", Severity.WARN, Hint.PERSON),
    ],
)
def test_what_a_code_calls_for(code: int, text: str, severity: Severity, hint: Hint) -> None:
    (one,) = passes(snap(lines=(XID.format(code) + text,))).findings.values()
    assert (one.severity, one.hint) == (severity, hint)


@pytest.mark.parametrize(
    ("text", "severity", "hint"),
    [
        ("12028, Non-fatal, Link 32 egress timeout", Severity.WARN, Hint.WATCH),
        ("20034, Fatal, Link 12 LTSSM fault", Severity.FATAL, Hint.REBOOT),
        ("23005, Link 3", Severity.FATAL, Hint.REBOOT),
        ("12028, Link 3", Severity.WARN, Hint.WATCH),
    ],
)
def test_an_nvswitch_error_is_as_bad_as_its_line_says(text: str, severity: Severity, hint: Hint) -> None:
    more = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Severity 1 Engine instance 32"
    lines = (f"nvidia-nvswitch3: SXid (PCI:0000:05:00.0): {text}", more)
    (one,) = passes(snap(lines=lines)).findings.values()
    assert (one.rule, one.subject, one.severity, one.hint) == ("NET003", "n1/nvswitch3", severity, hint)


def test_events_of_an_earlier_boot_count_for_nothing() -> None:
    from dataclasses import replace

    from gputop.model.hosts import KernelLine, KernelLog

    old = KernelLog(source="journalctl", lines=(KernelLine(BOOT - 100, XID.format(79)),))
    assert not passes(replace(snap(), klogs={"n1": old})).findings


def test_a_node_that_is_not_read_is_blind_and_what_was_found_is_stale_and_never_healthy() -> None:
    lost = snap({3: {"present": 0}})
    silent = snap({3: {"present": 0}}, now=NOW + 60, read_at=NOW, link=LinkState.TIMEOUT)
    passed = passes(lost, silent)
    (one,) = passed.findings.values()
    assert (one.rule, one.stale) == ("GPU001", True)
    assert {blind.need for blind in passed.blinds.values()} == set(Need)
    assert passed.blinds["GPUs/n1"].because == "ssh timeout"
    back = passes(lost, silent, snap(now=NOW + 90))
    assert (dict(back.findings), dict(back.blinds)) == ({}, {})


def test_a_finding_keeps_its_beginning_and_is_the_same_record_while_nothing_changes() -> None:
    first = passes(snap({3: {"ecc_unc": 1}}))
    later = passes(snap({3: {"ecc_unc": 1}}), snap({3: {"ecc_unc": 1}}, now=NOW + 5))
    assert first.findings == later.findings


def test_every_rule_explains_itself_and_stands_in_the_readme() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    for rule in RULES:
        words = explain(rule.code.lower())
        assert rule.name in words
        assert rule.code in listing()
        for threshold in rule.thresholds:
            assert f"[rules.{rule.code}] {threshold.name}" in words
    assert table() in README.read_text()
    with pytest.raises(ConfigError, match="no rule 'X1'; there is: GPU001"):
        explain("X1")
