"""nvidia-smi's answers as the rows a probe would send; pure."""

import re

from msgspec import Struct

from gputop.model.columns import GPU
from gputop.model.sample import Cell, GpuRow

COLUMNS = tuple(spec.name for spec in GPU)
IDENTITY = ("index", "uuid", "pci.bus_id", "name", "serial", "vbios_version", "driver_version")
FIELDS: dict[str, str] = {
    "temperature.gpu": "temp",
    "temperature.gpu.tlimit": "temp_margin",
    "temperature.memory": "temp_mem",
    "power.draw": "power",
    "enforced.power.limit": "power_limit",
    "clocks.current.sm": "sm_clock",
    "clocks.max.sm": "sm_clock_max",
    "clocks.current.memory": "mem_clock",
    "utilization.gpu": "util",
    "utilization.memory": "mem_util",
    "memory.used": "mem_used",
    "memory.total": "mem_total",
    "pstate": "pstate",
    "persistence_mode": "persistence",
    "clocks_event_reasons.active": "clock_reasons",
    "clocks_throttle_reasons.active": "clock_reasons",
    "clocks_event_reasons_counters.hw_thermal_slowdown": "hw_thermal_us",
    "clocks_event_reasons_counters.hw_power_brake_slowdown": "power_brake_us",
    "clocks_event_reasons_counters.sw_thermal_slowdown": "sw_thermal_us",
    "clocks_event_reasons_counters.sw_power_cap": "sw_power_us",
    "pcie.link.gen.current": "pcie_gen",
    "pcie.link.gen.max": "pcie_gen_max",
    "pcie.link.width.current": "pcie_width",
    "pcie.link.width.max": "pcie_width_max",
    "ecc.mode.current": "ecc_mode",
    "ecc.errors.uncorrected.volatile.total": "ecc_unc",
    "ecc.errors.corrected.volatile.total": "ecc_cor",
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": "sram_threshold",
    "remapped_rows.correctable": "remap_cor",
    "remapped_rows.uncorrectable": "remap_unc",
    "remapped_rows.pending": "remap_pending",
    "remapped_rows.failure": "remap_failed",
    "retired_pages.pending": "retired_pending",
    "gpu_recovery_action": "recovery_action",
    "fabric.state": "fabric_state",
    "mig.mode.current": "mig",
}
"""nvidia-smi's field -> our column; a field that this release does not list is left out of the question."""

_NOT_SUPPORTED = frozenset({"[n/a]", "n/a", "[not supported]", "not supported", "[not found]"})
WORDS: dict[str, float] = {
    "yes": 1,
    "no": 0,
    "enabled": 1,
    "disabled": 0,
    "active": 1,
    "not active": 0,
    "none": 0,
    "reset": 1,
    "gpu reset": 1,
    "reboot": 2,
    "node reboot": 2,
    "drain p2p": 3,
    "drain and reset": 4,
    "not started": 1,
    "in progress": 2,
    "completed": 3,
}
_GONE = frozenset({"[gpu is lost]", "gpu is lost"})
_NUMBER = re.compile(r"^-?\d+(?:\.\d+)?$", re.ASCII)
_LEADING = re.compile(r"^\d+(?:\.\d+)?")
_HEX = re.compile(r"^0x[0-9a-f]{1,16}$")
_PSTATE = re.compile(r"^p(\d{1,2})$", re.ASCII)
_LOST = re.compile(r"Unable to determine the device handle|GPU is lost|fallen off the bus", re.IGNORECASE)


def supported_fields(help_text: str) -> tuple[str, ...]:
    """Which of our fields this nvidia-smi knows; one unknown field would fail the whole question."""
    offered = set(re.findall(r'"([A-Za-z0-9_.]+)"', help_text))
    return tuple(field for field in (*IDENTITY, *FIELDS) if field in offered)


def cell(text: str) -> Cell:
    """A number, or a reason; nothing that is not plainly a number or a known word ever becomes one."""
    word = text.strip().lower()
    if word in _NOT_SUPPORTED:
        return "~not_supported"
    if word in _GONE:
        return "~lost"
    if _NUMBER.match(word):
        return float(word)
    if _HEX.match(word):
        return float(int(word, 16))
    if found := _PSTATE.match(word):
        return float(found.group(1))
    if word in WORDS:
        return WORDS[word]
    if "permission" in word:
        return "~denied"
    return "~error"


def parse_rows(fields: tuple[str, ...], output: str) -> tuple[tuple[GpuRow, ...], str]:
    """(rows, driver release) of a csv,noheader,nounits answer; a line of another width is skipped as damaged."""
    rows: list[GpuRow] = []
    driver = ""
    for line in output.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != len(fields) or not parts[0].isdigit():
            continue
        said = dict(zip(fields, parts, strict=True))
        driver = said.get("driver_version", driver)
        cells: dict[str, Cell] = {"present": 1.0}
        for field, column in FIELDS.items():
            if field in said:
                cells[column] = cell(said[field])
        if "~lost" in cells.values():
            rows.append(lost_row(int(parts[0]), None, plain(said.get("uuid", "")), plain(said.get("pci.bus_id", ""))))
            continue
        rows.append(
            GpuRow(
                index=int(parts[0]),
                uuid=plain(said.get("uuid", "")),
                pci=bus_id(plain(said.get("pci.bus_id", ""))),
                name=plain(said.get("name", "")),
                serial=plain(said.get("serial", "")),
                vbios=plain(said.get("vbios_version", "")),
                cells=tuple(cells.get(name) for name in COLUMNS),
            )
        )
    return tuple(rows), driver


def lost_row(index: int, known: GpuRow | None, uuid: str = "", pci: str = "") -> GpuRow:
    """A GPU that nvidia-smi cannot reach: what we know of it, and that it is lost."""
    cells: tuple[Cell, ...] = (0.0, *("~lost",) * (len(COLUMNS) - 1))
    if known is None:
        return GpuRow(index=index, uuid=uuid, pci=bus_id(pci), cells=cells)
    return GpuRow(
        index=index,
        uuid=known.uuid,
        pci=known.pci,
        name=known.name,
        serial=known.serial,
        vbios=known.vbios,
        cells=cells,
    )


def says_lost(output: str) -> bool:
    """Whether an answer is about a GPU that cannot be reached."""
    return _LOST.search(output) is not None


def plain(text: str) -> str:
    """A name or number; "" where nvidia-smi says a word for nothing."""
    return "" if text.startswith("[") or text.lower() in _NOT_SUPPORTED or text.lower() == "err!" else text


def bus_id(text: str) -> str:
    """00000000:9B:00.0 as 0000:9b:00."""
    parts = text.lower().split(".")[0].split(":")
    return f"{parts[0][-4:]}:{parts[1]}:{parts[2]}" if len(parts) == 3 else text.lower()


class Beat(Struct, frozen=True, kw_only=True):
    """What a node without Python says about itself each period; None where it could not be read."""

    mono: float | None = None
    wall: float | None = None
    load: float | None = None
    cpus: float | None = None
    stuck: bool = False
    """An nvidia-smi, whoever's, waits in the driver and cannot be ended."""


def read_beat(text: str) -> Beat:
    """uptime, loadavg, the number of processors, the time, and any stuck nvidia-smi: a line each."""
    lines = [line.split() for line in text.splitlines()]
    if len(lines) < 4:
        return Beat()
    uptime, load, cpus, wall, *stuck = lines
    return Beat(
        mono=_first(uptime),
        wall=_first(wall),
        load=_first(load),
        cpus=_first(cpus),
        stuck=any(words[0].startswith("/proc/") for words in stuck if words),
    )


def split_answer(text: str) -> tuple[str, float | None]:
    """(what nvidia-smi printed, uptime when it was done) of an answer that ends in /proc/uptime's line."""
    answer, _, uptime = text.rstrip("\n").rpartition("\n")
    return answer.strip(), _first(uptime.split())


def _first(words: list[str]) -> float | None:
    found = _LEADING.match(words[0]) if words else None
    return float(found.group()) if found else None
