"""The jobs of a simulated cluster beside those of its scenario: names, sizes and times drawn from the seed."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gputop.demo.slurm.records import JobSpec

USERS = ("alice", "bodhi", "chen", "dana", "emeka", "farah", "goran", "hana", "ines", "jonas", "kofi", "lena")
_KINDS = (
    ("pretrain", (8, 16, 32), 60.0),
    ("finetune", (2, 4, 8), 14.0),
    ("sft", (1, 2, 4), 8.0),
    ("reward", (1, 2), 6.0),
    ("ablation", (1, 1, 2), 5.0),
)
"""(name, node counts, typical hours)."""
_MODELS = ("7b", "13b", "70b", "moe", "vit", "asr", "code")
DAY_LIMIT = 7 * 86_400.0


def background(nodes: int, busy: float, random: np.random.Generator) -> Iterator[JobSpec]:
    """Jobs that run already: so many that the share `busy` of the nodes is theirs."""
    room = int(nodes * busy)
    while room > 0:
        spec = draw(random, largest=max(1, min(room, nodes // 4)))
        age = float(random.uniform(0.05, 0.8)) * spec.seconds
        room -= spec.nodes
        yield replace(spec, age=age)


def draw(random: np.random.Generator, *, largest: int) -> JobSpec:
    """One job of at most so many nodes."""
    kind, sizes, hours = _KINDS[int(random.integers(len(_KINDS)))]
    size = min(largest, int(random.choice(sizes)))
    seconds = float(random.lognormal(0.0, 0.5)) * hours * 3600
    return JobSpec(
        name=f"{kind}-{_MODELS[int(random.integers(len(_MODELS)))]}-{int(random.integers(100, 999))}",
        user=USERS[int(random.integers(len(USERS)))],
        nodes=size,
        gpus=8,
        cpus=192,
        seconds=seconds,
        time_limit=min(DAY_LIMIT, 2 * seconds),
        requeue=bool(random.random() < 0.8),
    )


def arrivals(nodes: int, random: np.random.Generator) -> Iterator[tuple[float, JobSpec]]:
    """(seconds until it is submitted, job) for ever: about one an hour for each eight nodes."""
    mean = 3600.0 * 8 / nodes
    while True:
        yield float(random.exponential(mean)), draw(random, largest=max(1, nodes // 8))
