"""NET003: errors of the NVSwitches (SXid) in the kernel log since the boot."""

import re
from collections.abc import Iterable

from msgspec import Struct

from gputop.detect.kernel_lines import counting, parsed
from gputop.detect.rule import Hit, Past, Rule, Sight, Threshold
from gputop.model.findings import Evidence, Hint, Need, Severity
from gputop.model.hosts import KernelLine
from gputop.model.reading import Unknown, Why, known

_SXID = re.compile(r"nvidia-nvswitch(\d+): SXid \((?:PCI:)?[0-9A-Fa-f:.]+\): (\d+),? ?(.*)$")
_CONTINUES = re.compile(r"^(?:Severity \d|Data \{)")
"""Lines that go on about the SXid before them, under the same code."""
ALWAYS_FATAL = frozenset({10003, 12020, 22003, 22011, *range(23001, 23018)})
"""Codes for which the fabric manager's guide knows no harmless case."""


class SxidLine(Struct, frozen=True):
    switch: int
    code: int
    text: str
    at: float | None

    @property
    def fatal(self) -> bool:
        """By the line's own word, else by the code."""
        said = re.search(r"\b(Non-?fatal|Fatal)\b", self.text, re.IGNORECASE)
        return said[1].lower() == "fatal" if said else self.code in ALWAYS_FATAL


def sxids(lines: tuple[KernelLine, ...]) -> tuple[SxidLine, ...]:
    """In the order of the lines; what only goes on about an error is left out."""
    found = []
    for line in lines:
        match = _SXID.search(line.text)
        if match and not _CONTINUES.match(match[3]):
            found.append(SxidLine(int(match[1]), int(match[2]), line.text, known(line.at)))
    return tuple(found)


def check(sight: Sight, past: Past) -> tuple[list[Hit], Past]:
    logs = parsed(sight, past, sxids)
    hits: list[Hit] = []
    for node, (_, lines) in logs.logs.items():
        if lines:
            hits += _of_node(sight, node, lines)
    return hits, logs


def _of_node(sight: Sight, node: str, lines: tuple[SxidLine, ...]) -> Iterable[Hit]:
    by_switch: dict[int, list[SxidLine]] = {}
    for line in counting(sight, node, lines):
        by_switch.setdefault(line.switch, []).append(line)
    for switch, found in by_switch.items():
        blamed = next((one for one in found if one.fatal), found[0])
        at = Unknown(Why.NOT_READ) if blamed.at is None else blamed.at
        yield Hit(
            subject=f"{node}/nvswitch{switch}",
            node=node,
            says=f"SXid {blamed.code} on NVSwitch {switch}{' (fatal)' if blamed.fatal else ''}",
            evidence=(Evidence(reading="kernel log", value=blamed.text[:200], limit="no SXid", at=at),),
            severity=Severity.FATAL if blamed.fatal else Severity.WARN,
            hint=Hint.REBOOT if blamed.fatal else Hint.WATCH,
            since=blamed.at,
        )


RULE = Rule(
    code="NET003",
    name="NVSwitch error",
    severity=Severity.FATAL,
    hint=Hint.REBOOT,
    needs=(Need.KERNEL_LOG,),
    check=check,
    sees="SXid lines of the NVSwitch driver, newer than the boot; the line's own word says whether it is fatal",
    why="a fatal one stops NVLink traffic of every GPU of the node; many others are harmless",
    tune="hours is how long a code counts when the node is not rebooted",
    thresholds=(Threshold(name="hours", value=24, unit="h", source="judgement"),),
)
