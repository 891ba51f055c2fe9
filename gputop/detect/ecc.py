"""GPU004: memory errors that ECC could not correct since the driver was loaded."""

from gputop.detect.rule import Hit, Past, Rule, Sight, Threshold, gpu_hit
from gputop.model.findings import Hint, Need, Severity


def check(sight: Sight, past: Past) -> tuple[list[Hit], Past]:
    limit = sight.limits["errors"]
    rows = sight.gpu_rows("ecc_unc", lambda values: values >= limit)
    hits = [gpu_hit(sight, int(row), "has uncorrected ECC errors", "ecc_unc", f"below {limit:.0f}") for row in rows]
    for row in sight.gpu_rows("sram_threshold", lambda values: values >= 1):
        says = "passed the vendor's limit of SRAM errors"
        hits.append(gpu_hit(sight, int(row), says, "sram_threshold", "0", hint=Hint.PERSON))
    by_subject = {hit.subject: hit for hit in hits}
    return list(by_subject.values()), past


RULE = Rule(
    code="GPU004",
    name="uncorrected ECC",
    severity=Severity.FATAL,
    hint=Hint.RESET,
    needs=(Need.GPUS,),
    check=check,
    sees="the volatile uncorrected ECC count, and the flag for too many SRAM errors",
    why="the job that met one computed with wrong data or died; the next one will too until the GPU is reset",
    tune="raise errors where single ones are common and jobs checkpoint often",
    thresholds=(Threshold(name="errors", value=1, unit="errors", source="what most health checks use"),),
)
