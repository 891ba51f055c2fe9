"""Commands on a login node: argv lists arrive as they are, and nothing that went wrong looks like an answer."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputop.model.errors import SourceDown, SourceError
from gputop.sources.local import LocalCommands
from gputop.sources.ssh.login import LoginNode
from tests.ssh.world import LoopClock, World, shell

HOSTILE = ("a b", "$(reboot)", "`id`", "';id;'", '"', "\\", "!x", "*", "ü", "", "-n", "x\x1ey\x1f")


async def begin(world: World, kind: str) -> LoginNode:
    """A login node with a real shell; without Python there, it is "bare"."""
    path = os.environ["PATH"]
    if kind == "bare":
        tools = world.home / "bin"
        tools.mkdir()
        for name in ("env", "printf", "sleep", "sh", "printenv"):
            os.symlink(shutil.which(name) or "/missing", tools / name)
        path = str(tools)
    await world.node("login", shell(path))
    return LoginNode(world.settings(), "login", LoopClock())


@pytest.fixture
async def login(world: World) -> AsyncIterator[LoginNode]:
    node = await begin(world, "python")
    yield node
    await node.close()


@pytest.fixture
async def bare(world: World) -> AsyncIterator[LoginNode]:
    node = await begin(world, "bare")
    yield node
    await node.close()


@pytest.fixture(params=["python", "bare"])
async def either(world: World, request: pytest.FixtureRequest) -> AsyncIterator[LoginNode]:
    node = await begin(world, request.param)
    yield node
    await node.close()


async def test_hostile_arguments_arrive_as_they_are(either: LoginNode) -> None:
    done = await either.run(("printf", "%s|", *HOSTILE), timeout=10)
    assert done.stdout.decode() == "".join(f"{text}|" for text in HOSTILE)


async def test_status_and_both_outputs_come_back(login: LoginNode) -> None:
    done = await login.run(("sh", "-c", "echo out; echo err >&2; exit 3"), timeout=10)
    assert (done.status, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


async def test_many_commands_share_one_connection(login: LoginNode, world: World) -> None:
    done = await asyncio.gather(*(login.run(("printf", str(k)), timeout=10) for k in range(20)))
    assert [int(one.stdout) for one in done] == list(range(20))
    assert len(world.nodes["login"].connections) == 1
    assert len(world.nodes["login"].commands) == 1


async def test_slurms_own_environment_is_clean(either: LoginNode) -> None:
    assert (await either.run(("printenv", "SLURM_TIME_FORMAT"), timeout=10)).stdout == b"%s\n"
    assert (await either.run(("printenv", "SQUEUE_FORMAT"), timeout=10)).status == 1


async def test_a_timeout_is_source_down_and_the_next_command_works(either: LoginNode) -> None:
    with pytest.raises(SourceDown):
        await either.run(("sleep", "30"), timeout=0.3)
    assert (await either.run(("printf", "ok"), timeout=10)).stdout == b"ok"


@pytest.mark.slow
async def test_a_timeout_is_told_even_when_a_child_left_the_group(login: LoginNode, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ > {pid}; exec sleep 100' & wait"
    try:
        with pytest.raises(SourceDown, match="within 1 s"):
            await login.run(("sh", "-c", script), timeout=1.0)
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


async def test_a_missing_program_is_said_and_is_no_answer(either: LoginNode) -> None:
    with pytest.raises(SourceError, match="cannot be started on login"):
        await either.run(("sinfo-of-nowhere",), timeout=10)


async def test_a_newline_is_refused_where_only_a_shell_is(bare: LoginNode, world: World) -> None:
    await bare.run(("printf", "x"), timeout=10)
    before = len(world.nodes["login"].commands)
    with pytest.raises(SourceError, match="control character"):
        await bare.run(("printf", "a\nreboot"), timeout=10)
    assert len(world.nodes["login"].commands) == before


async def test_a_connection_lost_under_a_command_is_source_down(login: LoginNode, world: World) -> None:
    running = asyncio.ensure_future(login.run(("sleep", "5"), timeout=20))
    while not login_busy(login):
        await asyncio.sleep(0.01)
    world.nodes["login"].drop_everyone()
    with pytest.raises(SourceDown):
        await running
    assert (await login.run(("printf", "ok"), timeout=10)).stdout == b"ok"


def login_busy(login: LoginNode) -> bool:
    session = login._session
    return session is not None and bool(session.waiting)


async def test_an_unreachable_login_node_says_its_state(world: World) -> None:
    node = await world.node("login", shell(os.environ["PATH"]))
    world.configure(known=False)
    login = LoginNode(world.settings(), "login", LoopClock())
    with pytest.raises(SourceDown, match="host-key"):
        await login.run(("true",), timeout=5)
    world.configure()
    await node.close()
    with pytest.raises(SourceDown, match="refused"):
        await login.run(("true",), timeout=5)
    await login.close()


async def test_a_runner_that_cannot_start_is_not_taken_for_a_shell_without_python(world: World) -> None:
    async def handler(process: "asyncssh.SSHServerProcess[bytes]") -> None:
        process.stderr.write(b"This account may not run commands.\n")
        process.exit(1)

    node = await world.node("login", handler)
    login = LoginNode(world.settings(), "login", LoopClock())
    for _ in range(2):
        with pytest.raises(SourceDown, match="may not run commands"):
            await login.run(("scancel", "1"), timeout=5)
    assert all("scancel" not in command for command in node.commands)
    await login.close()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    argv=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12), max_size=4)
)
async def test_local_arguments_arrive_as_they_are(argv: list[str]) -> None:
    done = await LocalCommands({}).run(("printf", "%s\x1e", *argv), timeout=10)
    assert done.stdout.decode() == "".join(f"{text}\x1e" for text in argv or [""])


async def test_local_commands_have_slurms_clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_FORMAT", "SINFO_SORT", "SACCT_FORMAT", "SLURM_CLUSTERS", "SLURM_BITSTR_LEN"):
        monkeypatch.setenv(name, "bad")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    done = await LocalCommands({"SLURM_CONF": "/x"}).run(("env",), timeout=10)
    lines = done.stdout.decode().splitlines()
    assert "SLURM_TIME_FORMAT=%s" in lines
    assert "LC_ALL=C.UTF-8" in lines
    assert "SLURM_CONF=/x" in lines
    assert not [line for line in lines if line.endswith("=bad")]


async def test_a_local_timeout_ends_the_command_with_all_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"sleep 100 & echo $! > {pid}; wait"
    with pytest.raises(SourceDown):
        await LocalCommands({}).run(("sh", "-c", script), timeout=1.0)
    child = int(pid.read_text())
    for _ in range(200):
        try:
            state = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the command's child outlived it")


@pytest.mark.slow
async def test_a_local_timeout_is_told_even_when_a_child_left_the_group(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ > {pid}; exec sleep 100' & wait"
    try:
        with pytest.raises(SourceDown):
            await asyncio.wait_for(LocalCommands({}).run(("sh", "-c", script), timeout=1.0), 20)
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)
        await asyncio.sleep(0.1)


async def test_a_missing_local_program_says_what_to_do() -> None:
    with pytest.raises(SourceError, match="login node"):
        await LocalCommands({}).run(("sinfo-of-nowhere",), timeout=5)


async def test_a_local_command_reads_nothing_and_its_signal_is_told() -> None:
    assert (await LocalCommands({}).run(("cat",), timeout=5)).stdout == b""
    assert (await LocalCommands({}).run(("sh", "-c", "kill -9 $$"), timeout=5)).status == -9
