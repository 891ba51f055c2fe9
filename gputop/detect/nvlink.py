"""NET001: NVLinks that a GPU has and that are not active; NVLink fabric that is not up."""

import numpy as np

from gputop.detect.rule import Hit, Past, Rule, Sight, gpu_hit, shown
from gputop.model.findings import Hint, Need, Severity

COMPLETED = 3
"""NVML_GPU_FABRIC_STATE_COMPLETED."""


def check(sight: Sight, past: Past) -> tuple[list[Hit], Past]:
    table = sight.gpus
    up, all_links = table["nvlinks_up"], table["nvlinks"]
    with np.errstate(invalid="ignore"):
        missing = sight.gpus_fresh & up.known() & all_links.known() & (up.values < all_links.values)
    hits = {}
    for row in np.flatnonzero(missing):
        links = f"{shown(up, int(row))} of {shown(all_links, int(row))} NVLinks"
        hit = gpu_hit(sight, int(row), f"has {links}", "nvlinks_up", shown(all_links, int(row)))
        hits[hit.subject] = hit
    for row in sight.gpu_rows("fabric_state", lambda values: (values >= 1) & (values != COMPLETED)):
        hit = gpu_hit(sight, int(row), "is not in the NVLink fabric", "fabric_state", f"{COMPLETED} (completed)")
        hits.setdefault(hit.subject, hit)
    return list(hits.values()), past


RULE = Rule(
    code="NET001",
    name="NVLink down",
    severity=Severity.DEGRADED,
    hint=Hint.DRAIN,
    needs=(Need.GPUS,),
    check=check,
    sees="fewer active NVLinks than the GPU has, or a fabric registration that is not completed",
    why="traffic goes over PCIe at a tenth of the speed, or the job does not start at all",
)
