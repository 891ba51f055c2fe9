"""Slow and quick facts of the host from /proc and the file systems."""

import os
import pwd
import socket
import sys

from . import columns
from .files import read_text, reason

SCAN_EVERY = 6
"""Samples between two looks at every process, which is the one costly read."""


def hello(options):
    """The first message: who and what this host is, and the order of columns to come."""
    boot_id, _ = read_text("/proc/sys/kernel/random/boot_id", 100)
    return {
        "type": "hello",
        "version": 1,
        "hostname": socket.gethostname(),
        "user": user_name(os.getuid()),
        "python": "%d.%d.%d" % sys.version_info[:3],
        "kernel": os.uname().release,
        "boot_id": boot_id.strip() or None,
        "boot_time": boot_time(),
        "gpu_columns": columns.GPU,
        "port_columns": columns.PORT,
        "host_columns": columns.HOST,
        "mode": "probe",
    }


def user_name(uid):
    """The account's name, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def boot_time():
    """Epoch seconds of the boot, by this host's clock; None when the kernel does not say."""
    text, _ = read_text("/proc/stat", 1 << 20)
    for line in text.splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return None


class HostFacts:
    """Reads the host columns, and remembers what a difference needs."""

    def __init__(self):
        self._cpu = None
        self._scan = (columns.ERROR, columns.ERROR)
        self._samples = 0

    def cells(self, nvml_ms, nvml_calls, child_cpu_ms):
        """In the order of columns.HOST; nvml_* and child_cpu_ms are numbers or None."""
        if self._samples % SCAN_EVERY == 0:
            self._scan = process_states()
        self._samples += 1
        memory = meminfo()
        times = os.times()
        return [
            load(),
            cpus(),
            self._cpu_busy(),
            memory.get("MemTotal", columns.ERROR),
            memory.get("MemAvailable", columns.ERROR),
            swap(memory),
            self._scan[0],
            self._scan[1],
            used_percent("/"),
            used_percent("/tmp"),
            nvml_ms,
            nvml_calls,
            round((times.user + times.system) * 1000 + child_cpu_ms, 1),
        ]

    def _cpu_busy(self):
        text, why = read_text("/proc/stat", 4096)
        if why:
            return why
        parts = [int(word) for word in text.split("\n", 1)[0].split()[1:9]]
        total, idle = sum(parts), parts[3] + parts[4]
        before, self._cpu = self._cpu, (total, idle)
        if before is None or total <= before[0]:
            return None
        return round(100.0 * (1 - (idle - before[1]) / float(total - before[0])), 1)


def load():
    try:
        return round(os.getloadavg()[0], 2)
    except OSError as error:
        return reason(error)


def cpus():
    return os.cpu_count() or columns.ERROR


def meminfo():
    """Key -> MiB."""
    text, _ = read_text("/proc/meminfo", 16384)
    found = {}
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[key] = int(words[0]) // 1024
    return found


def swap(memory):
    if "SwapTotal" not in memory or "SwapFree" not in memory:
        return columns.ERROR
    return memory["SwapTotal"] - memory["SwapFree"]


def used_percent(path):
    """As df counts: of what an ordinary user can have."""
    try:
        stat = os.statvfs(path)
    except OSError as error:
        return reason(error)
    used = stat.f_blocks - stat.f_bfree
    room = used + stat.f_bavail
    return round(100.0 * used / room, 1) if room else columns.ERROR


def process_states():
    """(processes in D, zombies); a process that ends meanwhile is nobody's."""
    blocked = zombies = 0
    try:
        names = os.listdir("/proc")
    except OSError as error:
        return reason(error), reason(error)
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open("/proc/" + name + "/stat", "rb") as source:
                line = source.read(512)
        except OSError:
            continue
        state = line[line.rfind(b")") + 2 : line.rfind(b")") + 3]
        blocked += state == b"D"
        zombies += state == b"Z"
    return blocked, zombies
