"""XID lines in every form; the table knows every published code once."""

import pytest

from gputop.detect.xid_lines import XidLine, xids
from gputop.detect.xid_table import CLASS_OF, XidClass
from gputop.model.hosts import KernelLine

FORMS = [
    ("NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "0000:05:00", 79),
    ("NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.", "0000:05:00", 79),
    ("NVRM: Xid (0000:9b:00): 13", "0000:9b:00", 13),
    ("NVRM: Xid (PCI:0000:9B:00.0): 31, pid=12345, name=ray::Worker[1], Ch 8", "0000:9b:00", 31),
    ("NVRM: Xid (PCI:00000018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6)", "0018:01:00", 149),
    ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", "0000:18:00", 79),
]


@pytest.mark.parametrize(("text", "pci", "code"), FORMS)
def test_every_form_is_read(text: str, pci: str, code: int) -> None:
    assert xids((KernelLine(5.0, text),)) == (XidLine(pci, code, text, 5.0),)


@pytest.mark.parametrize("text", ["NVRM: GPU at PCI:0000:9b:00: GPU-0000", "Xid (PCI:0000:9b:00): x", "usb 1-1: reset"])
def test_other_lines_are_none(text: str) -> None:
    assert xids((KernelLine(5.0, text),)) == ()


def test_the_table_knows_every_published_code() -> None:
    assert set(range(1, 174)) - set(CLASS_OF) == set()
    assert CLASS_OF[79] is XidClass.FATAL
    assert sum(kind is XidClass.UNUSED for kind in CLASS_OF.values()) == 61
