"""Partitions, reservations and topology, from scontrol; a site without the latter two has none, which is no error."""

import re

from gputop.model.site import Partition, Reservation, Switch
from gputop.model.text import clean
from gputop.sources.slurm.hostlist import expand
from gputop.sources.slurm.values import epoch

_PAIR = re.compile(r"(?:^| )([A-Za-z][A-Za-z0-9_/:-]*)=(\S*)")


def _records(output: bytes, first: str) -> list[dict[str, str]]:
    text = output.decode("utf-8", "replace")
    return [dict(_PAIR.findall(line.strip())) for line in text.splitlines() if line.strip().startswith(first + "=")]


def parse_partitions(output: bytes) -> tuple[Partition, ...]:
    return tuple(
        Partition(
            name=clean(record["PartitionName"], 200),
            state=clean(record.get("State", ""), 20),
            default=record.get("Default") == "YES",
            nodes=expand(record.get("Nodes", "")),
        )
        for record in _records(output, "PartitionName")
    )


def parse_reservations(output: bytes) -> tuple[Reservation, ...]:
    return tuple(
        Reservation(
            name=clean(record["ReservationName"], 200),
            start=epoch(record.get("StartTime", "")),
            end=epoch(record.get("EndTime", "")),
            nodes=expand(record.get("Nodes", "")),
            flags=frozenset(clean(record.get("Flags", ""), 300).lower().split(",")) - {""},
            users=clean(record.get("Users", "").replace("(null)", ""), 300),
        )
        for record in _records(output, "ReservationName")
    )


def parse_switches(output: bytes) -> tuple[Switch, ...]:
    return tuple(
        Switch(
            name=clean(record["SwitchName"], 200),
            level=int(record["Level"]) if record.get("Level", "").isdigit() else 0,
            nodes=expand(record.get("Nodes", "")),
        )
        for record in _records(output, "SwitchName")
    )
