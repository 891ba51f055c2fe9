"""XIDs in kernel lines, in every form that drivers have written them."""

import re

from msgspec import Struct

from gputop.model.hosts import KernelLine
from gputop.model.reading import known

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.\d)?\): (\d+)(?:, ?(.*))?$"
)
_OFF_BUS = re.compile(
    r"NVRM: GPU (?:at PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\S*: GPU has fallen off the bus"
)


class XidLine(Struct, frozen=True):
    """One XID."""

    pci: str
    """dddd:bb:dd, lower case."""
    code: int
    text: str
    at: float | None
    """Epoch seconds by the node's clock; None where the line has no time."""


def xids(lines: tuple[KernelLine, ...]) -> tuple[XidLine, ...]:
    """In the order of the lines; a GPU off the bus without a code counts as 79."""
    found = []
    for line in lines:
        if match := _XID.search(line.text):
            found.append(XidLine(pci_of(match[1]), int(match[2]), line.text, known(line.at)))
        elif match := _OFF_BUS.search(line.text):
            found.append(XidLine(pci_of(match[1]), 79, line.text, known(line.at)))
    return tuple(found)


def pci_of(text: str) -> str:
    """The last four digits of the domain, bus and device, as columns name a GPU."""
    domain, bus, device = text.lower().split(":")
    return f"{domain[-4:]}:{bus}:{device}"
