"""GPU001: a GPU that was there, or that Slurm expects, and that the driver no longer lists."""

import numpy as np

from gputop.detect.rule import Hit, Past, Rule, Sight
from gputop.model.findings import Evidence, Hint, Need, Severity


def check(sight: Sight, past: Past) -> tuple[list[Hit], Past]:
    hits = []
    for row in sight.gpu_rows("present", lambda values: np.equal(values, 0)):
        one = sight.gpus.ids[row]
        name = f"GPU {one.index} is lost" if one.index >= 0 else "a GPU that Slurm expects was never seen"
        evidence = Evidence(reading="present", value="0", limit="1", at=sight.read_at(one.node))
        hits.append(Hit(subject=one.key, node=one.node, says=name, evidence=(evidence,)))
    return hits, past


RULE = Rule(
    code="GPU001",
    name="GPU lost",
    severity=Severity.FATAL,
    hint=Hint.REBOOT,
    needs=(Need.GPUS,),
    check=check,
    sees="fewer GPUs than Slurm's GRES and the probe's own history by PCI address and UUID name",
    why="a GPU that fell off the bus takes every job on the node with it, and comes back by a reboot at best",
)
