"""GPU003: XIDs in the kernel log since the boot; the first that is no consequence of another is to blame."""

from collections.abc import Iterable

from gputop.detect.kernel_lines import counting, parsed
from gputop.detect.rule import Hit, Past, Rule, Sight, Threshold
from gputop.detect.xid_lines import XidLine, xids
from gputop.detect.xid_table import CONSEQUENCES, judged, name_of
from gputop.model.findings import Evidence, Hint, Need, Severity


def check(sight: Sight, past: Past) -> tuple[list[Hit], Past]:
    logs = parsed(sight, past, xids)
    hits: list[Hit] = []
    for node, (_, lines) in logs.logs.items():
        if lines:
            hits += _of_node(sight, node, lines)
    return hits, logs


def _of_node(sight: Sight, node: str, lines: tuple[XidLine, ...]) -> Iterable[Hit]:
    by_gpu: dict[str, list[XidLine]] = {}
    for line in counting(sight, node, lines):
        by_gpu.setdefault(line.pci, []).append(line)
    for pci, found in by_gpu.items():
        blamed = next((one for one in found if one.code not in CONSEQUENCES), found[0])
        worst = min(found, key=lambda one: judged(one.code, one.text)[0])
        if judged(worst.code, worst.text)[0] < judged(blamed.code, blamed.text)[0]:
            blamed = worst
        severity, hint = judged(blamed.code, blamed.text)
        evidence = tuple(
            Evidence(reading="kernel log", value=one.text[:200], limit="no XID", **({"at": one.at} if one.at else {}))
            for one in (blamed, *[other for other in found if other is not blamed][:3])
        )
        yield Hit(
            subject=f"{node}/{pci}",
            node=node,
            says=f"XID {blamed.code} on {pci}: {name_of(blamed.code)}",
            evidence=evidence,
            severity=severity,
            hint=hint,
            since=blamed.at,
        )


RULE = Rule(
    code="GPU003",
    name="XID",
    severity=Severity.FATAL,
    hint=Hint.RESET,
    needs=(Need.KERNEL_LOG,),
    check=check,
    sees="NVIDIA's error codes in the kernel log, newer than the boot; those that only follow another are not blamed",
    why="it is the first and often the only sign of a broken GPU; the code says how bad it is",
    tune="hours is how long a code counts when the node is not rebooted",
    thresholds=(Threshold(name="hours", value=24, unit="h", source="judgement"),),
)
