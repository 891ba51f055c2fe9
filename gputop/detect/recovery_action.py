"""GPU002: the GPU itself prescribes its repair, which overrides every table of codes."""

from gputop.detect.rule import Hit, Past, Rule, Sight, gpu_hit
from gputop.model.findings import Hint, Need, Severity

PRESCRIBED = {
    1: ("asks for a reset", Hint.RESET),
    2: ("asks for a reboot of its node", Hint.REBOOT),
    3: ("asks to be drained of peer-to-peer work", Hint.DRAIN),
    4: ("asks for a drain and a reset", Hint.RESET),
}
"""NVML's nvmlDeviceGetFieldValues, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION."""


def check(sight: Sight, past: Past) -> tuple[list[Hit], Past]:
    hits = []
    for row in sight.gpu_rows("recovery_action", lambda values: values >= 1):
        code = int(sight.gpus["recovery_action"].values[row])
        says, hint = PRESCRIBED.get(code, (f"asks for a repair of an unknown kind ({code})", Hint.PERSON))
        hits.append(gpu_hit(sight, int(row), says, "recovery_action", "0", hint=hint))
    return hits, past


RULE = Rule(
    code="GPU002",
    name="recovery action",
    severity=Severity.FATAL,
    hint=Hint.RESET,
    needs=(Need.GPUS,),
    check=check,
    sees="NVML's recovery action, which a driver from R565 on sets (XID 154 in the kernel log says the same)",
    why="it is the vendor's own verdict on this GPU; a code that we do not know is for a person, never an action",
)
