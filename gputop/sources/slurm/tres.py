"""GRES and TRES texts: how many GPUs, of which type, which indices."""

import re

from gputop.model.reading import Reading, Unknown, Why
from gputop.sources.slurm.values import absent

_GRES = re.compile(r"^(?:gres[:/])?gpu(?::([^:=(]*))?(?:[:=](\d+))?(?:\((.*)\))?$")
_INDICES = re.compile(r"IDX:([0-9,\-]+)")


def _items(text: str) -> list[str]:
    """Comma-separated items; commas inside parentheses belong to an item."""
    items, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth = max(0, depth - 1)
        elif char == "," and depth == 0:
            items.append(text[start:at])
            start = at + 1
    items.append(text[start:])
    return [item.strip() for item in items if item.strip()]


def _gpus(text: str) -> list[tuple[str, int]]:
    """(type, count) of each GPU item; `gres/gpu=8` beside `gres/gpu:h100=8` counts once."""
    found: list[tuple[str, int]] = []
    for item in _items(text):
        match = _GRES.match(item)
        if match is None:
            continue
        kind, count = match.group(1) or "", match.group(2)
        if count is None:
            kind, count = ("", kind) if kind.isascii() and kind.isdigit() else (kind, "1")
        found.append(("" if kind == "(null)" or kind == "null" else kind, int(count)))
    typed = [one for one in found if one[0]]
    untyped = [one for one in found if not one[0]]
    if typed and untyped and sum(n for _, n in typed) == sum(n for _, n in untyped):
        return typed
    return found


def gpu_count(text: str) -> int:
    """GPUs in a GRES or TRES text; 0 when it names none."""
    return sum(count for _, count in _gpus(text.replace("gpu:(null)", "gpu")))


def gpu_type(text: str) -> str:
    """The types named, joined by commas."""
    return ",".join(dict.fromkeys(kind for kind, _ in _gpus(text.replace("gpu:(null)", "gpu")) if kind))


def gpu_indices(text: str) -> tuple[int, ...]:
    """Indices in (IDX:0-2,5); empty when none are given."""
    indices: list[int] = []
    for listed in _INDICES.findall(text):
        for part in listed.strip(",-").split(","):
            low, _, high = part.partition("-")
            if low.isdigit() and (not high or high.isdigit()):
                indices.extend(range(int(low), min(int(high or low), int(low) + 1023) + 1))
    return tuple(sorted(set(indices)))


def job_gpus(allocated: str, per_node: str, per_job: str, nodes: int) -> Reading[int]:
    """GPUs of a job: allocated where Slurm counts them, else as asked for; Unknown where it cannot be told."""
    if "gpu" in allocated:
        return gpu_count(allocated)
    if "gpu" in per_job:
        return gpu_count(per_job)
    if "gpu" in per_node:
        return gpu_count(per_node) * nodes if nodes else Unknown(Why.NOT_READ, "number of nodes not known")
    if all(absent(text) or "gpu" not in text for text in (per_node, per_job)):
        return 0
    return Unknown(Why.ERROR)
