"""What the driver says of each GPU: a number it gave, or the reason why there is none."""

from typing import Any

import pynvml
import pytest

from gputop.probe import columns
from gputop.probe.nvml_reader import NvmlReader, field_value
from tests.probe.build import FakeNvml

ERRORS = sorted(
    {value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_") and isinstance(value, int)}
)
CALLS = sorted(name for name in dir(pynvml) if name.startswith("nvmlDeviceGet") and name != "nvmlDeviceGetCount")
FIELDS = {
    "temp_mem": pynvml.NVML_FI_DEV_MEMORY_TEMP,
    "hw_thermal_us": pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
    "pcie_replay": pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER,
    "ecc_unc": pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL,
    "remap_failed": pynvml.NVML_FI_DEV_REMAPPED_FAILURE,
    "recovery_action": pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
    "nvlink_errors": pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
}


def only_row(reader: NvmlReader) -> dict[str, Any]:
    (row,) = reader.read()["gpus"]
    return {**row, **dict(zip(columns.GPU, row["cells"], strict=True))}


def cells(fake: FakeNvml) -> dict[str, Any]:
    row = only_row(NvmlReader(fake))
    return {name: row[name] for name in columns.GPU}


HEALTHY = cells(FakeNvml({}))


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_leaves_the_true_value_or_a_reason(call: str) -> None:
    for code in ERRORS:
        found = cells(FakeNvml({call: code}))
        wrong = {
            name: cell
            for name, cell in found.items()
            if name != "present" and cell != HEALTHY[name] and not str(cell).startswith("~")
        }
        assert wrong == {}, pynvml.NVMLError(code)


@pytest.mark.parametrize("code", ERRORS)
def test_a_driver_that_fails_at_everything_gives_no_number_at_all(code: int) -> None:
    found = cells(FakeNvml(dict.fromkeys(CALLS, code)))
    assert {name for name, cell in found.items() if not isinstance(cell, str)} == {"present"}


@pytest.mark.parametrize("column", FIELDS)
@pytest.mark.parametrize("code", ERRORS)
def test_a_field_that_fails_says_why_and_leaves_the_others(column: str, code: int) -> None:
    fake = FakeNvml({})
    fake.failing_fields[FIELDS[column]] = code
    found = cells(fake)
    unsupported = column == "nvlink_errors" and found[column] == 3 * 6000
    assert str(found[column]).startswith("~") or unsupported
    assert {**found, column: None} == {**HEALTHY, column: None}


def test_slowdown_counters_are_in_microseconds_though_the_driver_counts_nanoseconds() -> None:
    assert [HEALTHY[name] for name in ("hw_thermal_us", "power_brake_us", "sw_thermal_us", "sw_power_us")] == [6] * 4


def test_a_gpu_that_this_account_may_not_open_is_denied_and_not_lost() -> None:
    found = cells(FakeNvml({"nvmlDeviceGetHandleByIndex": pynvml.NVML_ERROR_NO_PERMISSION}))
    assert found["present"] == 1
    assert set(found.values()) == {1, "~denied"}


def test_a_gpu_that_fell_off_the_bus_is_not_present_whatever_the_driver_calls_it() -> None:
    for code in (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_IRQ_ISSUE):
        assert cells(FakeNvml({"nvmlDeviceGetHandleByIndex": code}))["present"] == 0


def test_a_passing_failure_to_name_a_gpu_makes_no_second_row_and_forgets_nothing() -> None:
    fake = FakeNvml({})
    reader = NvmlReader(fake)
    reader.read()
    for call in ("nvmlDeviceGetPciInfo", "nvmlDeviceGetUUID", "nvmlDeviceGetSerial"):
        fake._failing[call] = pynvml.NVML_ERROR_UNKNOWN
    for _ in range(13):
        row = only_row(reader)
        assert (row["uuid"], row["pci"], row["present"], row["temp"]) == ("GPU-1", "0000:0a:00", 1, 7)


class Counting(FakeNvml):
    """Some GPUs, told apart by their handles, of which some cannot be counted any more or fail by themselves."""

    def __init__(self, slots: list[int]) -> None:
        super().__init__({})
        self.slots = slots
        self.dead: set[int] = set()
        self.started = 0

    def __getattr__(self, name: str) -> Any:
        own = {
            "nvmlInit": self._init,
            "nvmlDeviceGetCount": lambda: len(self.slots),
            "nvmlDeviceGetHandleByIndex": lambda index: self.slots[index],
            "nvmlDeviceGetPciInfo": lambda card: self._answer(card, f"00000000:{card:02X}:00.0"),
            "nvmlDeviceGetUUID": lambda card: f"GPU-{card}",
            "nvmlDeviceGetComputeRunningProcesses": lambda card: self._answer(card, ""),
        }
        return own[name] if name in own else super().__getattr__(name)

    def _init(self) -> None:
        self.started += 1

    def _answer(self, card: int, bus: str) -> Any:
        if card in self.dead:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        process = type("Process", (), {"pid": 1, "usedGpuMemory": None})
        return type("Pci", (), {"busId": bus}) if bus else [process]


def present(reader: NvmlReader) -> dict[str, int]:
    return {row["uuid"]: row["cells"][0] for row in reader.read()["gpus"]}


def test_a_gpu_that_left_the_list_is_its_own_row_while_the_others_move_up() -> None:
    fake = Counting([1, 2, 3])
    reader = NvmlReader(fake)
    reader.read()
    fake.slots = [1, 3]
    assert present(reader) == {"GPU-1": 1, "GPU-2": 0, "GPU-3": 1}
    fake.slots = [1, 2, 3]
    assert present(reader) == {"GPU-1": 1, "GPU-2": 1, "GPU-3": 1}


def test_one_lost_gpu_leaves_its_peers_and_their_processes() -> None:
    fake = Counting([1, 2, 3])
    reader = NvmlReader(fake)
    fake.dead = {2}
    found = reader.read()
    assert [row["cells"][0] for row in found["gpus"]] == [1, 0, 1]
    assert [(row["gpu"], row["memory_mib"]) for row in found["processes"]] == [
        ("GPU-1", "~not_supported"),
        ("GPU-3", "~not_supported"),
    ]


def test_processes_that_no_gpu_tells_are_not_an_empty_list() -> None:
    fake = FakeNvml({"nvmlDeviceGetComputeRunningProcesses": pynvml.NVML_ERROR_NO_PERMISSION})
    assert NvmlReader(fake).read()["processes"] == "~denied"


def test_a_link_that_cannot_be_asked_spoils_the_count_of_links() -> None:
    class Links(FakeNvml):
        code = pynvml.NVML_ERROR_TIMEOUT

        def __getattr__(self, name: str) -> Any:
            return self._link if name == "nvmlDeviceGetNvLinkState" else super().__getattr__(name)

        def _link(self, _handle: object, link: int) -> int:
            if link == 12:
                raise pynvml.NVMLError(self.code)
            return 1

    fake = Links({})
    assert cells(fake)["nvlinks_up"] == "~timed_out"
    fake.code = pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert cells(fake)["nvlinks_up"] == 12


def test_text_that_cannot_be_decoded_and_no_number_are_errors() -> None:
    class Garbled(FakeNvml):
        def __getattr__(self, name: str) -> Any:
            if name == "nvmlDeviceGetName":
                return lambda _handle: b"\xff".decode()
            return super().__getattr__(name)

    assert only_row(NvmlReader(Garbled({})))["temp"] == 7
    value = type("Value", (), {"dVal": float("nan")})
    kind = {"nvmlReturn": 0, "valueType": pynvml.NVML_VALUE_TYPE_DOUBLE, "value": value}
    assert field_value(pynvml, type("Field", (), kind)) == "~error"
