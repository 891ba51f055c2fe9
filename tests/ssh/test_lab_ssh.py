"""The fleet on the lab's real sshd: its own state for each trouble, and everybody else goes on."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from gputop.model.hosts import LinkState
from gputop.model.sample import KernelLines, Sample
from gputop.sources.ssh.fleet import Fleet
from gputop.sources.ssh.login import LoginNode
from gputop.sources.ssh.settings import SshSettings
from tests.lab.accounts import OPERATOR, OUTSIDER
from tests.lab.fixtures import NO_PYTHON
from tests.lab.lab import LOGIN, Lab
from tests.ssh.world import LoopClock, World

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

PERIOD = 2.0


def settings(lab: Lab, person: str, *, jump: bool = False) -> SshSettings:
    config = lab.home(person, jump=jump) / ".ssh/config"
    return SshSettings(cluster="ssh-test", config=(str(config),), period=PERIOD)


@asynccontextmanager
async def following(
    lab: Lab, tmp_path: Path, *names: str, person: str = OPERATOR, jump: bool = False
) -> AsyncIterator[World]:
    """A fleet as that person, and its facts."""
    world = World(tmp_path)
    world.fleet = Fleet(settings(lab, person, jump=jump), LoopClock(), world.deliver)
    world.fleet.follow({name: name for name in names or lab.names})
    try:
        yield world
    finally:
        await world.close()


async def all_heard(world: World, names: tuple[str, ...]) -> None:
    await world.until("every node", lambda: all(world.samples(name) for name in names), 40)


def logins(lab: Lab) -> int:
    """Logins of an ordinary account on the login node: sshd keeps one privileged process for each."""
    lines = (_command_line(pid) for pid in lab.login.sessions())
    return sum(line.startswith("sshd:") and "[priv]" in line for line in lines)


def running(lab: Lab, node: str, program: str) -> list[int]:
    """Processes of a node whose command line begins with that program."""
    return [pid for pid in lab.nodes[node].sessions() if _command_line(pid).startswith(program)]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


@pytest.fixture
def stopped(lab: Lab) -> Iterator[Lab]:
    """A lab in which listeners may be killed; they are back afterwards."""
    yield lab
    for node in lab.nodes.values():
        if not (node.folder / "sshd.pid").exists():
            node.start_sshd()
            node.wait_sshd()


async def test_sixteen_nodes_are_heard_and_leave_nothing_behind(lab: Lab, tmp_path: Path) -> None:
    async with following(lab, tmp_path) as world:
        await all_heard(world, lab.names)
        assert all(world.links[name].state is LinkState.UP for name in lab.names)
        assert world.links[NO_PYTHON].mode == "nvidia-smi"
    for _ in range(100):
        left = [pid for name in lab.names for pid in lab.nodes[name].sessions()]
        if not left:
            break
        await asyncio.sleep(0.1)
    assert not left, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]


async def test_a_frozen_node_times_out_within_two_periods_and_no_other_node_gets_older(
    lab: Lab, tmp_path: Path
) -> None:
    names = lab.names[:6]
    async with following(lab, tmp_path, *names) as world:
        await all_heard(world, names)
        lab.nodes[names[2]].freeze()
        await world.until("the silence", lambda: world.links[names[2]].state is LinkState.TIMEOUT, 2 * PERIOD + 1)
        before = {name: len(world.samples(name)) for name in names}
        others = [name for name in names if name != names[2]]
        await world.until("the others", lambda: all(len(world.samples(n)) > before[n] + 2 for n in others))
        lab.nodes[names[2]].thaw()
        await world.until("it back", lambda: world.links[names[2]].state is LinkState.UP, 60)
        assert all(world.seen[name] == [LinkState.CONNECTING, LinkState.UP] for name in others)


async def test_a_dead_listener_is_nothing_to_a_running_probe_and_killed_sessions_are(
    stopped: Lab, tmp_path: Path
) -> None:
    node = stopped.nodes["gpu0003"]
    async with following(stopped, tmp_path, "gpu0003") as world:
        await all_heard(world, ("gpu0003",))
        node.kill_listener()
        before = len(world.samples("gpu0003"))
        await world.until("it goes on", lambda: len(world.samples("gpu0003")) > before + 2)
        assert world.seen["gpu0003"] == [LinkState.CONNECTING, LinkState.UP]
        node.kill_sessions()
        await world.until("its loss", lambda: world.links["gpu0003"].state is not LinkState.UP, 2 * PERIOD)
        await world.until_state("gpu0003", LinkState.REFUSED)


async def test_a_bastion_is_logged_in_to_once_for_all(lab: Lab, tmp_path: Path) -> None:
    names = lab.names[:8]
    async with following(lab, tmp_path, *names, jump=True) as world:
        await all_heard(world, names)
        assert logins(lab) == 1


async def test_a_key_that_is_not_authorized_is_said(lab: Lab, tmp_path: Path) -> None:
    key = tmp_path / "other"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(key))
    config = (lab.home(OPERATOR) / ".ssh/config").read_text()
    (tmp_path / "config").write_text(config.replace(f"{lab.base}/keys/{OPERATOR}", str(key)))
    world = World(tmp_path)
    world.fleet = Fleet(SshSettings(cluster="ssh-test", config=(str(tmp_path / "config"),)), LoopClock(), world.deliver)
    world.fleet.follow({"gpu0001": "gpu0001"})
    try:
        await world.until_state("gpu0001", LinkState.AUTH_FAILED)
    finally:
        await world.close()


async def test_who_may_not_read_the_journal_is_told_so_by_the_probe(lab: Lab, tmp_path: Path) -> None:
    async with following(lab, tmp_path, "gpu0001", person=OUTSIDER) as world:
        await world.until(
            "the refusal",
            lambda: any(
                isinstance(f.message, KernelLines) and f.message.why == "~denied" for f in world.heard("gpu0001")
            ),
            30,
        )


async def test_a_hung_driver_without_python_never_has_a_second_nvidia_smi(lab: Lab, tmp_path: Path) -> None:
    node = lab.nodes[NO_PYTHON]

    def hung() -> bool:
        message = world.samples(NO_PYTHON)[-1].message
        return isinstance(message, Sample) and message.hung_since is not None

    async with following(lab, tmp_path, NO_PYTHON) as world:
        await all_heard(world, (NO_PYTHON,))
        node.set(hang=1)
        await world.until("the hang", hung, 40)
        assert len(running(lab, NO_PYTHON, "nvidia-smi")) <= 1
        assert world.links[NO_PYTHON].state is LinkState.UP
        node.set(hang=None)
        await world.until("an answer", lambda: not hung(), 40)


async def test_the_login_node_runs_slurms_commands(lab: Lab) -> None:
    login = LoginNode(settings(lab, "root"), LOGIN, LoopClock())
    try:
        done = await login.run(("sinfo", "-h", "-o", "%D"), timeout=20)
        assert (done.status, done.stdout.strip()) == (0, b"16")
    finally:
        await login.close()
