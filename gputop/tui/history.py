"""The screen's short memory for sparklines: utilisation of each GPU, one point a reading."""

from collections import deque

import numpy as np

from gputop.model.snapshot import Snapshot

KEEP = 32


def record(history: dict[str, deque[float | None]], before: Snapshot, after: Snapshot) -> None:
    """Adds a point for each GPU whose node was read anew between two snapshots."""
    hosts = after.host_table
    if hosts is before.host_table or not len(hosts):
        return
    new = hosts["gpus_read_at"].values
    old = np.full(len(new), np.nan)
    if len(before.host_table):
        old[: len(before.host_table)] = before.host_table["gpus_read_at"].values
    util = after.gpu_table["util"]
    for row in np.flatnonzero((new != old) & ~np.isnan(new)):
        for gpu in after.gpu_table.rows_of(hosts.ids[row].node):
            value = None if util.why[gpu] else float(util.values[gpu])
            history.setdefault(after.gpu_table.ids[gpu].key, deque(maxlen=KEEP)).append(value)
