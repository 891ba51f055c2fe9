"""A node without Python, asked through a real shell: nvidia-smi stands in for the probe, and is never piled up."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from gputop.model.columns import GPU
from gputop.model.hosts import LinkState
from gputop.model.sample import Driver, GpuRow, Hello, KernelLines, Sample
from gputop.sources.ssh import fallback
from gputop.sources.ssh.nvidia_smi import Beat, lost_row, parse_rows, read_beat, split_answer
from tests.ssh.world import World, shell

TOOLS = ("uname", "id", "cat", "grep", "date", "timeout", "sleep", "sh")
_SMI = """#!/bin/sh
echo run >> {home}/runs
while [ -e {home}/hang ]; do sleep 0.1; done
case "$*" in
  *help-query*) printf '"%s"\\n' index uuid pci.bus_id driver_version temperature.gpu power.draw; exit;;
  *"-i 0"*) echo "0, GPU-a, 00000000:0A:00.0, 590.1, 41, 300.5"; exit;;
  *"-i 1"*) only=1;;
  *"-i "*) echo "No devices were found"; exit 6;;
esac
[ "$only" ] || echo "0, GPU-a, 00000000:0A:00.0, 590.1, 41, 300.5"
if [ -e {home}/lost ]; then echo "Unable to determine the device handle for GPU0000:18:00.0: Unknown Error"; exit 15; fi
echo "1, GPU-b, 00000000:18:00.0, 590.1, [N/A], ERR!"
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with what a small node has."""
    monkeypatch.setattr(fallback, "SHORTEST_PERIOD", 1.0)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"{name} is not installed")
        os.symlink(found, tools / name)
    smi = tools / "nvidia-smi"
    smi.write_text(_SMI.format(home=tmp_path))
    smi.chmod(0o755)
    return str(tools)


def cells(row: GpuRow) -> dict[str, object]:
    return dict(zip((spec.name for spec in GPU), row.cells, strict=True))


def last(world: World) -> Sample:
    message = world.samples("n1")[-1].message
    assert isinstance(message, Sample)
    return message


async def test_nvidia_smi_speaks_where_there_is_no_python(world: World, path: str) -> None:
    await world.node("n1", shell(path))
    world.follow()
    await world.until("two samples", lambda: len(world.samples("n1")) > 1, 30)
    messages = [fact.message for fact in world.heard("n1")]
    first = messages[0]
    assert isinstance(first, Hello)
    assert (first.mode, first.kernel) == ("nvidia-smi", os.uname().release)
    assert first.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert any(isinstance(m, KernelLines) and m.why == "~not_read" for m in messages)
    assert Driver(driver="590.1") in messages
    assert world.links["n1"].state is LinkState.UP
    assert world.links["n1"].mode == "nvidia-smi"
    one, other = (cells(row) for row in last(world).gpus or ())
    assert (one["temp"], one["power"]) == (41.0, 300.5)
    assert (other["temp"], other["power"]) == ("~not_supported", "~error")
    assert last(world).wall > 1e9


async def test_one_lost_gpu_does_not_hide_the_others(world: World, path: str) -> None:
    await world.node("n1", shell(path))
    world.follow()
    await world.until("a sample", lambda: bool(world.samples("n1")), 30)
    (world.home / "lost").touch()
    await world.until("the loss", lambda: [cells(r)["present"] for r in last(world).gpus or ()] == [1.0, 0.0], 30)
    one, other = last(world).gpus or ()
    assert cells(one)["temp"] == 41.0
    assert (other.uuid, other.pci, cells(other)["temp"]) == ("GPU-b", "0000:18:00", "~lost")


@pytest.mark.slow
async def test_a_hanging_nvidia_smi_is_unread_then_hung_and_never_has_company(world: World, path: str) -> None:
    await world.node("n1", shell(path))
    world.follow()
    await world.until("a sample", lambda: bool(world.samples("n1")), 30)
    (world.home / "hang").touch()
    await world.until("no reading", lambda: last(world).gpus is None, 30)
    runs = len((world.home / "runs").read_text().split())
    await world.until("the hang", lambda: last(world).hung_since is not None, 30)
    count = len(world.samples("n1"))
    await world.until("more samples", lambda: len(world.samples("n1")) > count + 1, 30)
    assert len((world.home / "runs").read_text().split()) <= runs + 1
    assert world.links["n1"].state is LinkState.UP
    (world.home / "hang").unlink()
    await world.until("an answer", lambda: last(world).gpus is not None and last(world).hung_since is None, 30)


async def test_a_node_with_neither_is_no_probe(world: World, path: str) -> None:
    (Path(path) / "nvidia-smi").unlink()
    await world.node("n1", shell(path))
    world.follow()
    assert "neither" in (await world.until_state("n1", LinkState.NO_PROBE)).detail


async def test_a_lost_connection_ends_the_fallback_as_it_ends_a_probe(world: World, path: str) -> None:
    node = await world.node("n1", shell(path))
    world.follow()
    await world.until("a sample", lambda: bool(world.samples("n1")), 30)
    node.drop_everyone()
    await world.until("the loss", lambda: LinkState.WAITING in world.seen["n1"])
    await asyncio.sleep(0)


def test_a_lost_gpu_is_lost_in_a_row_too() -> None:
    fields = ("index", "uuid", "pci.bus_id", "temperature.gpu", "power.draw")
    (row,), _ = parse_rows(fields, "3, GPU-x, 00000000:90:00.0, [GPU is lost], [GPU is lost]\n")
    assert row == lost_row(3, None, "GPU-x", "00000000:90:00.0")
    assert cells(row)["present"] == 0.0


def test_a_word_for_nothing_is_no_name() -> None:
    (row,), driver = parse_rows(("index", "uuid", "pci.bus_id", "name"), "0, [N/A], [Unknown Error], ERR!\n")
    assert (row.uuid, row.pci, row.name, driver) == ("", "", "", "")


@pytest.mark.parametrize("text", ["", "garbage", "a\nb\nc\nd\n", "cat: /proc/uptime: No such file\n0.1\n8\n+%s\n"])
def test_a_beat_that_cannot_be_read_is_not_zero(text: str) -> None:
    beat = read_beat(text)
    assert beat.mono is None
    assert beat.wall is None


def test_a_beat_is_read_with_and_without_nanoseconds_and_names_a_stuck_nvidia_smi() -> None:
    text = "100.25 3.1\n0.50 0.4 0.3 1/99 7\n8\n1790000000.%N\n"
    assert read_beat(text) == Beat(mono=100.25, wall=1790000000.0, load=0.5, cpus=8.0)
    assert read_beat(text + "/proc/77/stat\n").stuck


def test_an_answer_carries_its_own_time() -> None:
    assert split_answer("0, a\n1, b\n\n55.5 3.0\n") == ("0, a\n1, b", 55.5)
    assert split_answer("\n55.5 3.0\n") == ("", 55.5)
    assert split_answer("") == ("", None)
