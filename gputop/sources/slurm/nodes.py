"""Nodes from one full `sinfo -N`: never a question about one node, whose answer Slurm gives from a stale copy."""

import re

from gputop.model.errors import SourceError
from gputop.model.nodes import Node, Reason
from gputop.model.reading import Unknown, Why
from gputop.model.text import clean
from gputop.sources.slurm.fields import split_rows
from gputop.sources.slurm.states import node_state
from gputop.sources.slurm.tres import gpu_count, gpu_type
from gputop.sources.slurm.values import absent, epoch

FIELDS = (
    "NodeList", "StateComplete", "Partition", "Gres", "GresUsed", "UserLong", "TimeStamp", "Version",
    "Reason",
)  # fmt: skip
_OWNER = re.compile(r"^(.*)\((\d+)\)$")
_SCONTROL_NODE = re.compile(r"^NodeName=(\S+) ", re.MULTILINE)
_BOOT_TIME = re.compile(r" BootTime=(\d+) ")


def parse_nodes(output: bytes, suffix: str) -> tuple[Node, ...]:
    """One Node for each name, with the partitions of all its rows; raises when there is none at all."""
    nodes: dict[str, Node] = {}
    partitions: dict[str, list[str]] = {}
    for row in split_rows(output, suffix, len(FIELDS), "sinfo"):
        name, state_text, partition, gres, used, owner, since, version, reason = row
        name = clean(name.strip(), 255)
        if not name:
            raise SourceError("sinfo", "a row without a node name")
        if (word := clean(partition.strip().rstrip("*"), 100)) and word != "n/a":
            partitions.setdefault(name, []).append(word)
        if name in nodes:
            continue
        state = node_state(state_text)
        nodes[name] = Node(
            name=name,
            state=state,
            gpus=gpu_count(gres),
            gpu_type=clean(gpu_type(gres), 60),
            gpus_allocated=Unknown(Why.NOT_READ) if not used.strip() else gpu_count(used),
            reason=_reason(reason, owner, since) if state.explains_reason else None,
            version=clean(version.strip(), 20),
        )
    if not nodes:
        raise SourceError("sinfo", "answered without a single node: not believed")
    return tuple(_in_partitions(node, partitions.get(name, ())) for name, node in nodes.items())


def _in_partitions(node: Node, partitions: list[str] | tuple[str, ...]) -> Node:
    return Node(
        name=node.name,
        state=node.state,
        partitions=tuple(sorted(set(partitions))),
        gpus=node.gpus,
        gpu_type=node.gpu_type,
        gpus_allocated=node.gpus_allocated,
        reason=node.reason,
        version=node.version,
    )


def _reason(text: str, owner: str, since: str) -> Reason | None:
    if absent(text):
        return None
    found = _OWNER.match(owner.strip())
    name = found.group(1) if found else owner.strip()
    return Reason(text=clean(text.strip(), 500), owner="" if absent(name) else clean(name, 64), at=epoch(since))


def parse_boot_times(output: bytes) -> dict[str, float]:
    """Node -> boot time from `scontrol show node -o`; BootTime stands before the free text of Reason."""
    text = output.decode("utf-8", "replace")
    starts = [(match.group(1), match.start()) for match in _SCONTROL_NODE.finditer(text)]
    times: dict[str, float] = {}
    for at, (name, start) in enumerate(starts):
        end = starts[at + 1][1] if at + 1 < len(starts) else len(text)
        line = text[start:end].split(" Reason=", 1)[0] + " "
        if found := _BOOT_TIME.search(line):
            times[name] = float(found.group(1))
    return times
