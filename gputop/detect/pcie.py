"""GPU007: a GPU under load on fewer PCIe lanes, or a lower generation, than GPU and slot can do."""

import numpy as np

from gputop.detect.rule import Hit, Past, Rule, Sight, Threshold, gpu_hit, shown
from gputop.model.findings import Hint, Need, Severity


def check(sight: Sight, past: Past) -> tuple[list[Hit], Past]:
    table = sight.gpus
    util = table["util"]
    with np.errstate(invalid="ignore"):
        loaded = sight.gpus_fresh & util.known() & (util.values >= sight.limits["util"])
    hits = {}
    for column, most, words in (
        ("pcie_gen", "pcie_gen_max", "PCIe generation"),
        ("pcie_width", "pcie_width_max", "PCIe lanes"),
    ):
        now, best = table[column], table[most]
        with np.errstate(invalid="ignore"):
            lower = loaded & now.known() & best.known() & (now.values < best.values)
        for row in np.flatnonzero(lower):
            says = f"runs on {words} {shown(now, int(row))} of {shown(best, int(row))}"
            hit = gpu_hit(sight, int(row), says, column, shown(best, int(row)))
            hits[hit.subject] = hit
    return list(hits.values()), past


RULE = Rule(
    code="GPU007",
    name="PCIe below its best",
    severity=Severity.DEGRADED,
    hint=Hint.DRAIN,
    needs=(Need.GPUS,),
    check=check,
    sees="PCIe width and generation now, against the best of GPU and slot, on GPUs under load",
    why="data loading and network traffic pass through it; the straggler of a job is often on fewer lanes",
    tune="some cards go down to a lower generation when idle: only loaded ones are looked at",
    thresholds=(Threshold(name="util", value=50, unit="%", source="judgement: a load that keeps links awake"),),
)
