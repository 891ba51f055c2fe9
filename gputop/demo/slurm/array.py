"""Task sets of job arrays as Slurm writes them."""

from collections.abc import Iterable


def expand_tasks(text: str) -> tuple[tuple[int, ...], int]:
    """(task numbers, how many may run at once or 0) of a set such as 0-3,7,9-20:2%4."""
    listed, _, limit = text.partition("%")
    tasks: list[int] = []
    for part in listed.strip("[]").split(","):
        span, _, step = part.partition(":")
        low, _, high = span.partition("-")
        tasks.extend(range(int(low), int(high or low) + 1, int(step or 1)))
    return tuple(dict.fromkeys(tasks)), int(limit or 0)


def write_tasks(tasks: Iterable[int], limit: int = 0) -> str:
    """The shortest set of ranges, as squeue writes it."""
    parts: list[str] = []
    numbers = sorted(tasks)
    start = 0
    for k, number in enumerate(numbers):
        if k + 1 == len(numbers) or numbers[k + 1] != number + 1:
            first = numbers[start]
            parts.append(str(first) if first == number else f"{first}-{number}")
            start = k + 1
    return ",".join(parts) + (f"%{limit}" if limit else "")
