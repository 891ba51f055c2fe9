"""What each XID means for an operator: a class, and what it calls for. Classes are our reading of public catalogues."""

from enum import StrEnum

from gputop.model.findings import Hint, Severity


class XidClass(StrEnum):
    FATAL = "fatal"
    WARNING = "warning"
    APP = "app"
    """A program did it, or it tells that a program was stopped."""
    LINK5 = "NVLink 5"
    """144 to 150: the line itself says whether it is fatal."""
    INFO = "info"
    UNUSED = "unused"
    """No current driver writes it."""


_CODES: dict[XidClass, tuple[int | range, ...]] = {
    XidClass.FATAL: (
        46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158, 167, 169, 173,
    ),
    XidClass.APP: (11, 13, 25, 31, 32, 37, 43, 45, 69, 80, 108, 137),
    XidClass.LINK5: (range(144, 151),),
    XidClass.INFO: (14, 106, 107, 154, 162, 171, 172),
    XidClass.WARNING: (
        8, 38, 39, 40, 41, 44, 60, 63, 66, 67, 68, 70, 71, 72, range(75, 79), 82, 83, 84, 85, 86, 88, 89, 92, 93, 94,
        range(96, 106), 121, range(126, 136), 139, 141, 142, 152, 153, 157, 159, 160, 161, 163, 164, 165, 166, 168,
        170,
    ),
    XidClass.UNUSED: (
        range(1, 8), 9, 10, 12, range(15, 25), range(26, 31), range(33, 37), 42, 47, range(49, 54), range(55, 60), 61,
        65, 73, 81, 87, 90, 91, range(111, 119), range(122, 126), 138,
    ),
}  # fmt: skip
CLASS_OF: dict[int, XidClass] = {
    code: kind
    for kind, entries in _CODES.items()
    for entry in entries
    for code in (entry if isinstance(entry, range) else (entry,))
}
CONSEQUENCES = frozenset({43, 45})
"""They follow another error and are never its cause."""
NAMES = {
    13: "a program's kernel failed", 31: "a program touched memory that is not its own", 43: "a program was stopped",
    45: "a program's work was cleaned up", 48: "a memory error that ECC could not correct", 54: "a power plug is loose",
    62: "the internal controller halted", 63: "a memory row will be remapped", 64: "a memory row could not be remapped",
    74: "an NVLink error", 79: "the GPU fell off the bus", 92: "many single-bit errors", 94: "a contained memory error",
    95: "an uncontained memory error", 109: "a context switch timed out", 119: "the GSP does not answer",
    120: "the GSP failed", 140: "a memory error that was not recovered", 143: "the GPU did not start",
}  # fmt: skip
_HINTS = {54: Hint.PERSON, 74: Hint.DRAIN, 79: Hint.REBOOT, 151: Hint.REBOOT}
_BY_CLASS = {
    XidClass.FATAL: (Severity.FATAL, Hint.RESET),
    XidClass.LINK5: (Severity.WARN, Hint.WATCH),
    XidClass.WARNING: (Severity.WARN, Hint.WATCH),
    XidClass.APP: (Severity.INFO, Hint.NONE),
    XidClass.INFO: (Severity.INFO, Hint.NONE),
    XidClass.UNUSED: (Severity.INFO, Hint.NONE),
}


def judged(code: int, text: str) -> tuple[Severity, Hint]:
    """Severity and hint of one line; a code that nobody knows calls for a person, never for an action."""
    kind = CLASS_OF.get(code)
    if kind is None:
        return Severity.WARN, Hint.PERSON
    if kind is XidClass.LINK5 and "Fatal" in text.replace("Nonfatal", "").replace("Non-fatal", ""):
        return Severity.FATAL, Hint.PERSON
    severity, hint = _BY_CLASS[kind]
    return severity, _HINTS.get(code, hint)


def name_of(code: int) -> str:
    """A few words for a code."""
    return NAMES.get(code, str(CLASS_OF.get(code, "a code that is not known")))
