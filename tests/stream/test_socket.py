"""The socket: what a reader sees is what was recorded, a slow or hostile one harms nobody, and its door is ours."""

import asyncio
import os
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from gputop.model.actions import Intent, Kind
from gputop.model.commands import Command, Propose
from gputop.model.errors import EngineError
from gputop.model.nodes import Node
from gputop.model.snapshot import Snapshot
from gputop.model.states import State
from gputop.stream.frames import apply
from gputop.stream.log_reader import SessionReader
from gputop.stream.session_log import LogFile
from gputop.stream.socket import HELLO, SLOW_BYTES, Connection, Peer, Publisher, attach
from tests.stream.build import same, sessions


class Served:
    """A publisher and what it was told."""

    def __init__(self) -> None:
        self.commands: list[tuple[Peer, Command]] = []
        self.events: list[str] = []
        self.publisher = Publisher(
            on_command=lambda peer, command: self.commands.append((peer, command)),
            on_join=lambda _peer: self.events.append("joined"),
            on_leave=lambda _peer, clean: self.events.append("left" if clean else "vanished"),
        )


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    one = Served()
    await one.publisher.serve(tmp_path / "s")
    one.publisher.publish(Snapshot(time=1.0))
    yield one
    await one.publisher.close()
    await asyncio.sleep(0.05)


async def eventually(check: "object") -> None:
    for _ in range(200):
        if check():  # type: ignore[operator]
            return
        await asyncio.sleep(0.01)
    raise AssertionError("never")


async def states(connection: Connection, count: int) -> list[Snapshot]:
    seen: list[Snapshot] = []
    snap: Snapshot | None = None
    async for frame in connection.frames():
        snap = apply(snap, frame)
        seen.append(snap)
        if len(seen) == count:
            return seen
    return seen


@given(sessions(8))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_live_socket_and_the_recorded_file_agree_at_every_frame(tmp_path: Path, snaps: list[Snapshot]) -> None:
    async def scenario() -> None:
        for name in ("s", "log"):
            (tmp_path / name).unlink(missing_ok=True)
        one = Served()
        await one.publisher.serve(tmp_path / "s")
        log = LogFile(tmp_path / "log", "t", "0", 1.0)
        frame, payload = one.publisher.publish(snaps[0])
        log.append(payload, frame.time, key=frame.key)
        connection = await attach(tmp_path / "s")
        for snap in snaps[1:]:
            frame, payload = one.publisher.publish(snap)
            log.append(payload, frame.time, key=frame.key)
        live = await states(connection, len(snaps))
        log.close()
        recorded: Snapshot | None = None
        for number, frame in enumerate(SessionReader(tmp_path / "log").frames()):
            recorded = apply(recorded, frame)
            assert same(recorded, live[number])
            assert same(recorded, snaps[number])
        await connection.close()
        await one.publisher.close()
        await asyncio.sleep(0)

    asyncio.run(scenario())


async def test_a_reader_that_comes_late_gets_the_whole_picture_at_once(served: Served, tmp_path: Path) -> None:
    served.publisher.publish(Snapshot(time=2.0, nodes={"a": Node(name="a", state=State("idle"))}))
    connection = await attach(tmp_path / "s")
    (first,) = await states(connection, 1)
    assert list(first.nodes) == ["a"]
    await connection.close()


async def test_commands_carry_the_kernels_word_for_who_sent_them(served: Served, tmp_path: Path) -> None:
    connection = await attach(tmp_path / "s")
    await connection.send(Propose(id="c", intent=Intent(kind=Kind.DRAIN, target="a")))
    await eventually(lambda: served.commands)
    assert served.commands[0][0].uid == os.getuid()
    assert served.commands[0][0].pid == os.getpid()
    await connection.close()
    await eventually(lambda: served.events == ["joined", "left"])


async def test_a_reader_that_vanishes_is_told_from_one_that_says_goodbye(served: Served, tmp_path: Path) -> None:
    connection = await attach(tmp_path / "s")
    connection._writer.transport.abort()
    await eventually(lambda: served.events == ["joined", "vanished"])
    served.publisher.publish(Snapshot(time=3.0))


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        HELLO + struct.pack("<I", 2**31),
        HELLO + struct.pack("<I", 5) + b"\xff\xff\xff\xff\xff",
        HELLO + struct.pack("<I", 1) + b"\xc0",
    ],
)
async def test_a_hostile_client_is_dropped_and_the_others_go_on(served: Served, tmp_path: Path, data: bytes) -> None:
    good = await attach(tmp_path / "s")
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
    writer.write(data)
    while await asyncio.wait_for(reader.read(65536), 5):
        pass
    writer.close()
    served.publisher.publish(Snapshot(time=9.0))
    assert (await states(good, 2))[-1].time == 9.0
    assert served.commands == []
    await good.close()


async def test_a_reader_that_does_not_read_costs_no_memory_and_then_gets_the_whole(
    served: Served, tmp_path: Path
) -> None:
    connection = await attach(tmp_path / "s")
    await eventually(lambda: served.events == ["joined"])
    (client,) = served.publisher._clients.values()
    for number in range(60):
        nodes = {f"n{number}-{k}": Node(name=f"n{k}", state=State("idle"), version="x" * 200) for k in range(2000)}
        served.publisher.publish(Snapshot(time=2.0 + number, nodes=nodes))
    assert client.behind < 3 * SLOW_BYTES
    assert client.needs_key
    reading = asyncio.ensure_future(states(connection, 10_000))
    await eventually(lambda: client.behind == 0)
    last = Snapshot(time=99.0, nodes={"z": Node(name="z", state=State("idle"))})
    served.publisher.publish(last)
    await asyncio.sleep(0.2)
    reading.cancel()
    assert not client.needs_key
    await connection.close()


async def test_the_socket_is_for_its_owner_and_replaces_only_a_dead_one(served: Served, tmp_path: Path) -> None:
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
    with pytest.raises(EngineError, match="another engine answers"):
        await Served().publisher.serve(tmp_path / "s")
    served.publisher.stop_listening()
    other = Served()
    await other.publisher.serve(tmp_path / "s")
    await other.publisher.close()


async def test_where_no_engine_is_attaching_says_so(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no engine"):
        await attach(tmp_path / "none")
