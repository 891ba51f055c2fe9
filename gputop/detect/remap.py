"""GPU005: memory rows that could not be remapped, or wait for a reset to be."""

from gputop.detect.rule import Hit, Past, Rule, Sight, gpu_hit
from gputop.model.findings import Hint, Need, Severity


def check(sight: Sight, past: Past) -> tuple[list[Hit], Past]:
    hits: dict[str, Hit] = {}
    for column, says in (
        ("retired_pending", "has a page that waits to be retired"),
        ("remap_pending", "has a row that waits to be remapped"),
    ):
        for row in sight.gpu_rows(column, lambda values: values >= 1):
            hit = gpu_hit(sight, int(row), says, column, "0", severity=Severity.DEGRADED, hint=Hint.RESET)
            hits[hit.subject] = hit
    for row in sight.gpu_rows("remap_failed", lambda values: values >= 1):
        hit = gpu_hit(sight, int(row), "has a row that cannot be remapped", "remap_failed", "0")
        hits[hit.subject] = hit
    return list(hits.values()), past


RULE = Rule(
    code="GPU005",
    name="row remapping",
    severity=Severity.FATAL,
    hint=Hint.PERSON,
    needs=(Need.GPUS,),
    check=check,
    sees="row remaps that failed or are pending, and pages that wait to be retired",
    why="a failed remap means replacing the GPU; a pending one takes effect at the next reset, after the job",
)
