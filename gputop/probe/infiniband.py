"""InfiniBand and RoCE ports from /sys/class/infiniband; a counter that cannot be read says why."""

import os

from .files import number, read_text, reason

ROOT = "/sys/class/infiniband"
COUNTERS = (
    "link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "port_xmit_discards",
    "excessive_buffer_overrun_errors", "local_link_integrity_errors", "port_rcv_data", "port_xmit_data",
)  # fmt: skip


def ports(root=ROOT):
    """One row a port; an empty list on a host without any; a reason when the folder cannot be read."""
    try:
        devices = sorted(os.listdir(root))
    except FileNotFoundError:
        return []
    except OSError as error:
        return reason(error)
    return [
        _row(device, port, os.path.join(root, device, "ports", str(port)))
        for device in devices
        for port in _numbers(os.path.join(root, device, "ports"))
    ]


def _numbers(folder):
    """Ports of a device; none for one without the folder."""
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    except OSError:
        return []


def _row(device, port, folder):
    layer, _ = read_text(os.path.join(folder, "link_layer"), 100)
    netdev, _ = read_text(os.path.join(folder, "gid_attrs", "ndevs", "0"), 100)
    cells = [number(os.path.join(folder, name)) for name in ("state", "phys_state", "rate")]
    cells.extend(number(os.path.join(folder, "counters", name)) for name in COUNTERS)
    return {"device": device, "port": port, "link_layer": layer.strip(), "netdev": netdev.strip(), "cells": cells}
