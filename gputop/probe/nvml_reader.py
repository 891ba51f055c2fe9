"""One pass over all GPUs through pynvml: every field a number or a reason, one GPU's trouble its own."""

import math
import os
import time

from . import columns
from .files import read_text
from .host_facts import user_name

SLOW_EVERY = 12
"""Passes between two reads of what hardly changes."""
PROCESSES_EVERY = 12
"""Passes between two reads of process lists, which hold the driver's lock."""
REINIT_SECONDS = 60
"""While a GPU is missing, the library is started anew so often: it keeps the set it began with."""

_FIELDS = (
    ("temp_mem", "NVML_FI_DEV_MEMORY_TEMP"),
    ("hw_thermal_us", "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN"),
    ("power_brake_us", "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN"),
    ("sw_thermal_us", "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN"),
    ("sw_power_us", "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP"),
    ("pcie_replay", "NVML_FI_DEV_PCIE_REPLAY_COUNTER"),
    ("ecc_mode", "NVML_FI_DEV_ECC_CURRENT"),
    ("ecc_unc", "NVML_FI_DEV_ECC_DBE_VOL_TOTAL"),
    ("ecc_cor", "NVML_FI_DEV_ECC_SBE_VOL_TOTAL"),
    ("remap_cor", "NVML_FI_DEV_REMAPPED_COR"),
    ("remap_unc", "NVML_FI_DEV_REMAPPED_UNC"),
    ("remap_pending", "NVML_FI_DEV_REMAPPED_PENDING"),
    ("remap_failed", "NVML_FI_DEV_REMAPPED_FAILURE"),
    ("retired_pending", "NVML_FI_DEV_RETIRED_PENDING"),
    ("recovery_action", "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"),
    ("nvlinks", "NVML_FI_DEV_NVLINK_LINK_COUNT"),
)
_LINK_ERRORS = (
    "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
)
_MIB = 1024.0 * 1024.0


class NvmlReader:
    """Holds identities between passes; never a handle, since a stale one can crash the driver's library."""

    def __init__(self, nvml):
        self._nvml = nvml
        self._started = False
        self._passes = 0
        self._calls = 0
        self._slow = {}
        self._known = {}
        self._begun = 0.0

    def driver(self):
        """The driver message: starts the library; its release, or why there is none."""
        try:
            self._start()
            driver = _text(self._nvml.nvmlSystemGetDriverVersion())
            cuda = self._or_reason(self._nvml.nvmlSystemGetCudaDriverVersion)
            nvml = self._or_reason(self._nvml.nvmlSystemGetNVMLVersion)
        except self._nvml.NVMLError as error:
            self._started = False
            return dict(_no_driver(self._nvml, error), type="driver")
        if not isinstance(cuda, str):
            cuda = "%d.%d" % (cuda // 1000, cuda % 1000 // 10)
        return {"type": "driver", "driver": driver, "cuda": cuda, "nvml": _text(nvml), "detail": ""}

    def _start(self):
        if not self._started:
            self._nvml.nvmlInit()
            self._started = True
            self._begun = time.monotonic()

    def _or_reason(self, function, *arguments):
        """A value, or the reason why not."""
        self._calls += 1
        try:
            return function(*arguments)
        except self._nvml.NVMLError as error:
            return why(self._nvml, error)
        except UnicodeDecodeError:
            return columns.ERROR

    def read(self):
        """{"gpus": rows, "nvml_ms", "nvml_calls", "processes"}; raises NVMLError when the library itself fails."""
        began = time.monotonic()
        self._calls = 0
        missing = any(row["why"] not in ("", columns.DENIED) for row in self._known.values())
        if missing and began - self._begun > REINIT_SECONDS and self._started:
            self._nvml.nvmlShutdown()
            self._started = False
        self._start()
        slow = self._passes % SLOW_EVERY == 0
        count = self._nvml.nvmlDeviceGetCount()
        for row in self._known.values():
            row["why"] = columns.LOST
        for index in range(count):
            handle = self._or_reason(self._nvml.nvmlDeviceGetHandleByIndex, index)
            if isinstance(handle, str):
                self._unanswered(index, handle)
                continue
            self._gpu(index, handle, slow)
        processes = self._processes(count) if self._passes % PROCESSES_EVERY == 0 else None
        self._passes += 1
        rows = [self._row(row) for row in sorted(self._known.values(), key=lambda row: row["index"])]
        return {
            "gpus": rows,
            "processes": processes,
            "nvml_ms": round((time.monotonic() - began) * 1000, 1),
            "nvml_calls": self._calls,
        }

    def _unanswered(self, index, reason):
        """A listed GPU that gives no handle: the one last seen in this slot, or one that nobody knows yet."""
        key = self._key_at(index)
        self._known.setdefault(key, {"index": index, "identity": {}, "cells": None})["why"] = reason

    def _key_at(self, index):
        """Key of the GPU last seen in this slot that has not answered in this pass, or that of a new one."""
        for key, row in self._known.items():
            if row["index"] == index and row["why"]:
                return key
        return "index %d" % index

    def _row(self, row):
        identity = dict(row["identity"], index=row["index"])
        if not row["why"]:
            return dict(identity, cells=row["cells"])
        # The driver also lists GPUs that this account may not open: those are there.
        present = int(row["why"] == columns.DENIED)
        return dict(identity, cells=[present] + [row["why"]] * (len(columns.GPU) - 1))

    def _gpu(self, index, handle, slow):
        nvml = self._nvml
        pci = self._or_reason(nvml.nvmlDeviceGetPciInfo, handle)
        if pci == columns.LOST:
            self._unanswered(index, pci)
            return
        bus = "" if isinstance(pci, str) else bus_id(_text(pci.busId))
        key = bus or self._key_at(index)
        if bus:
            self._known.pop("index %d" % index, None)
        cells = dict(self._slow.get(key, {}))
        if slow or not cells:
            self._slow[key] = cells = self._slow_cells(handle)
        cells = dict(cells, present=1)
        cells.update(self._quick_cells(handle))
        if cells["power"] == columns.LOST and cells["temp"] == columns.LOST:
            known = self._known.setdefault(key, {"identity": {"pci": bus}, "cells": None})
            known.update(index=index, why=columns.LOST)
            return
        identity = self._known[key]["identity"] if key in self._known else {}
        if slow or not identity.get("uuid"):
            identity = dict(identity, **self._identity(handle, bus))
        self._known[key] = {
            "index": index,
            "identity": identity,
            "cells": [cells.get(name) for name in columns.GPU],
            "why": "",
        }

    def _identity(self, handle, bus):
        """What can be read of it; what cannot is left out, so that it is remembered."""
        nvml = self._nvml
        asked = (
            ("uuid", nvml.nvmlDeviceGetUUID),
            ("name", nvml.nvmlDeviceGetName),
            ("serial", nvml.nvmlDeviceGetSerial),
            ("vbios", nvml.nvmlDeviceGetVbiosVersion),
        )
        found = {"pci": bus} if bus else {}
        for name, function in asked:
            text = _text(self._or_reason(function, handle))
            if not text.startswith("~"):
                found[name] = text
        return found

    def _slow_cells(self, handle):
        nvml, ask = self._nvml, self._or_reason
        mig = ask(nvml.nvmlDeviceGetMigMode, handle)
        fabric_state, fabric_status = self._fabric(handle)
        return {
            "power_limit": scaled(ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle), 1000.0),
            "sm_clock_max": ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
            "persistence": ask(nvml.nvmlDeviceGetPersistenceMode, handle),
            "pcie_gen_max": ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            "pcie_width_max": ask(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
            "sram_threshold": self._sram(handle),
            "mig": mig if isinstance(mig, str) else mig[0],
            "nvlinks_up": self._links_up(handle),
            "fabric_state": fabric_state,
            "fabric_status": fabric_status,
        }

    def _quick_cells(self, handle):
        nvml, ask = self._nvml, self._or_reason
        util = ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._memory(handle)
        cells = {
            "temp": ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            "temp_margin": ask(self._function("nvmlDeviceGetMarginTemperature"), handle),
            "power": scaled(ask(nvml.nvmlDeviceGetPowerUsage, handle), 1000.0),
            "sm_clock": ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "mem_clock": ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            "util": util if isinstance(util, str) else util.gpu,
            "mem_util": util if isinstance(util, str) else util.memory,
            "mem_used": memory if isinstance(memory, str) else round(memory.used / _MIB),
            "mem_total": memory if isinstance(memory, str) else round(memory.total / _MIB),
            "pstate": ask(nvml.nvmlDeviceGetPerformanceState, handle),
            "clock_reasons": self._clock_reasons(handle),
            "pcie_gen": ask(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            "pcie_width": ask(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        }
        if cells["pstate"] == 32:
            cells["pstate"] = columns.NOT_SUPPORTED
        cells.update(self._field_cells(handle))
        return cells

    def _function(self, name):
        """A binding that older pynvml may lack; then it is not supported."""
        return getattr(self._nvml, name, self._absent)

    def _absent(self, *_arguments):
        raise self._nvml.NVMLError(self._nvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    def _memory(self, handle):
        version = getattr(self._nvml, "nvmlMemory_v2", None)
        memory = self._or_reason(self._nvml.nvmlDeviceGetMemoryInfo, handle, version)
        if memory == columns.NOT_SUPPORTED:
            memory = self._or_reason(self._nvml.nvmlDeviceGetMemoryInfo, handle)
        return memory

    def _clock_reasons(self, handle):
        value = self._or_reason(self._function("nvmlDeviceGetCurrentClocksEventReasons"), handle)
        if value == columns.NOT_SUPPORTED:
            value = self._or_reason(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        return value

    def _field_cells(self, handle):
        """Many fields in one call."""
        nvml = self._nvml
        wanted = [(name, getattr(nvml, constant, None)) for name, constant in _FIELDS]
        links = [getattr(nvml, constant) for constant in _LINK_ERRORS]
        ids = [number for _, number in wanted if number is not None] + links
        values = self._or_reason(nvml.nvmlDeviceGetFieldValues, handle, ids)
        if isinstance(values, str):
            return dict([(name, values) for name, _ in wanted], nvlink_errors=values)
        by_id = dict((value.fieldId, value) for value in values)
        cells = {}
        for name, number in wanted:
            value = columns.NOT_SUPPORTED if number is None else field_value(nvml, by_id.get(number))
            cells[name] = microseconds(value) if name.endswith("_us") else value
        cells["nvlink_errors"] = total([field_value(nvml, by_id.get(number)) for number in links])
        return cells

    def _sram(self, handle):
        try:
            status = self._nvml.c_nvmlEccSramErrorStatus_v1_t()
            status.version = self._nvml.nvmlEccSramErrorStatus_v1
        except AttributeError:
            return columns.NOT_SUPPORTED
        done = self._or_reason(self._nvml.nvmlDeviceGetSramEccErrorStatus, handle, self._by_reference(status))
        return done if isinstance(done, str) else int(status.bThresholdExceeded)

    def _fabric(self, handle):
        try:
            info = self._nvml.c_nvmlGpuFabricInfo_t()
        except AttributeError:
            return columns.NOT_SUPPORTED, columns.NOT_SUPPORTED
        done = self._or_reason(self._function("nvmlDeviceGetGpuFabricInfo"), handle, self._by_reference(info))
        if isinstance(done, str):
            return done, done
        return int(info.state), int(info.status)

    @staticmethod
    def _by_reference(structure):
        import ctypes

        return ctypes.byref(structure)

    def _links_up(self, handle):
        """Active NVLinks; past the last one a link is not supported, and any other reason spoils the count."""
        up = 0
        for link in range(getattr(self._nvml, "NVML_NVLINK_MAX_LINKS", 18)):
            state = self._or_reason(self._nvml.nvmlDeviceGetNvLinkState, handle, link)
            if state == columns.NOT_SUPPORTED and link > 0:
                return up
            if isinstance(state, str):
                return state
            up += state == 1
        return up

    def _processes(self, count):
        """Of every GPU that answers; the reason of the last one when none does."""
        rows, answered, refused = [], False, ""
        for index in range(count):
            handle = self._or_reason(self._nvml.nvmlDeviceGetHandleByIndex, index)
            if isinstance(handle, str):
                refused = handle
                continue
            uuid = _text(self._or_reason(self._nvml.nvmlDeviceGetUUID, handle))
            found = self._or_reason(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
            if isinstance(found, str):
                refused = found
                continue
            answered = True
            for process in found:
                name, user = process_owner(process.pid)
                used = process.usedGpuMemory
                memory = columns.NOT_SUPPORTED if used is None else round(used / _MIB)
                rows.append({"gpu": uuid, "pid": process.pid, "name": name, "user": user, "memory_mib": memory})
        return rows if answered or not refused else refused


def process_owner(pid):
    """(command, user) of a process; "" where it cannot be told."""
    name, _ = read_text("/proc/%d/comm" % pid, 100)
    try:
        user = user_name(os.stat("/proc/%d" % pid).st_uid)
    except OSError:
        user = ""
    return name.strip(), user


def field_value(nvml, value):
    """A field's number, or the reason that NVML gives with it."""
    if value is None:
        return columns.NOT_SUPPORTED
    if value.nvmlReturn != nvml.NVML_SUCCESS:
        return why(nvml, nvml.NVMLError(value.nvmlReturn))
    kind = value.valueType
    if kind == nvml.NVML_VALUE_TYPE_DOUBLE:
        return value.value.dVal if math.isfinite(value.value.dVal) else columns.ERROR
    if kind == nvml.NVML_VALUE_TYPE_UNSIGNED_INT:
        return value.value.uiVal
    if kind == nvml.NVML_VALUE_TYPE_UNSIGNED_LONG:
        return value.value.ulVal
    if kind == nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG:
        return value.value.sllVal
    if kind == getattr(nvml, "NVML_VALUE_TYPE_SIGNED_INT", 5):
        return value.value.siVal
    return value.value.ullVal


def why(nvml, error):
    """An NVML error as one of our reasons."""
    code = error.value
    if code in (
        nvml.NVML_ERROR_NOT_SUPPORTED,
        nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        nvml.NVML_ERROR_INVALID_ARGUMENT,
        getattr(nvml, "NVML_ERROR_ARGUMENT_VERSION_MISMATCH", 25),
        getattr(nvml, "NVML_ERROR_DEPRECATED", 26),
    ):
        return columns.NOT_SUPPORTED
    if code == nvml.NVML_ERROR_NO_PERMISSION:
        return columns.DENIED
    if code in (nvml.NVML_ERROR_GPU_IS_LOST, getattr(nvml, "NVML_ERROR_GPU_NOT_FOUND", 28)):
        return columns.LOST
    if code == nvml.NVML_ERROR_TIMEOUT:
        return columns.TIMED_OUT
    return columns.ERROR


def _no_driver(nvml, error):
    """Why the library cannot be used at all, in words."""
    words = {
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND: (columns.NOT_SUPPORTED, "no NVIDIA driver library on this node"),
        nvml.NVML_ERROR_DRIVER_NOT_LOADED: (columns.NOT_SUPPORTED, "the NVIDIA driver is not loaded"),
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
            columns.ERROR,
            "driver and library versions differ: the node needs a reboot",
        ),
        nvml.NVML_ERROR_NO_PERMISSION: (columns.DENIED, "this account may not use the NVIDIA driver"),
    }
    reason, detail = words.get(error.value, (columns.ERROR, "NVML: %s" % error))
    return {"driver": reason, "cuda": None, "nvml": None, "detail": detail}


def microseconds(value):
    """NVML counts slowed time in nanoseconds, nvidia-smi in microseconds."""
    return value if isinstance(value, str) else int(value) // 1000


def total(values):
    """The sum of those that are supported; any other reason spoils it."""
    numbers = [value for value in values if value != columns.NOT_SUPPORTED]
    reasons = [value for value in numbers if isinstance(value, str)]
    if reasons or not numbers:
        return reasons[0] if reasons else columns.NOT_SUPPORTED
    return sum(numbers)


def scaled(value, by):
    return value if isinstance(value, str) else value / by


def bus_id(text):
    """00000000:9B:00.0 and 0000:9b:00 alike as 0000:9b:00."""
    parts = text.lower().split(".")[0].split(":")
    if len(parts) != 3:
        return text.lower()
    return "%s:%s:%s" % (parts[0][-4:].rjust(4, "0"), parts[1], parts[2])


def _text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
