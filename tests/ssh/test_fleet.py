"""A fleet against real SSH servers in this process: each trouble takes its own state, and nobody waits for another."""

import asyncio
import shutil
from pathlib import Path
from typing import ClassVar

import asyncssh
import pytest

from gputop.model.facts import Heard, LinkChanged
from gputop.model.hosts import LinkState
from gputop.model.sample import Hello
from gputop.sources.ssh import fleet
from gputop.sources.ssh.connect import Connector
from gputop.sources.ssh.fleet import end, raise_file_limit
from gputop.sources.ssh.host import DRIFT, HostTask
from gputop.sources.ssh.slots import Slots
from tests.ssh.world import HandClock, World, framed, hello, probe, sample


async def test_a_host_that_lets_us_in_is_up_and_heard(world: World) -> None:
    await world.node("n1")
    world.follow()
    await world.until("samples", lambda: len(world.samples("n1")) > 2)
    assert world.seen["n1"] == [LinkState.CONNECTING, LinkState.UP]
    assert isinstance(world.heard("n1")[0].message, Hello)
    assert world.links["n1"].mode == "probe"


async def test_a_login_shells_noise_is_skipped(world: World) -> None:
    await world.node("n1", probe(noise=b"\x1b[1mWelcome!\x01 0\nQuota: 3\n" * 500))
    world.follow()
    await world.until("samples", lambda: len(world.samples("n1")) > 1)


async def test_a_key_that_is_not_wanted_is_auth_failed(world: World) -> None:
    node = await world.node("n1")
    await node.close()
    await node.listen(asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode())
    world.follow()
    link = await world.until_state("n1", LinkState.AUTH_FAILED)
    assert "ssh-add" not in link.detail


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
async def test_an_encrypted_key_without_an_agent_fails_at_once_and_says_why(world: World) -> None:
    await world.node("n1")
    locked = str(world.home / "locked")
    keygen = await asyncio.create_subprocess_exec("ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", locked)
    await keygen.wait()
    world.configure(key=locked)
    world.follow()
    assert "ssh-add" in (await world.until_state("n1", LinkState.AUTH_FAILED)).detail


@pytest.mark.skipif(shutil.which("ssh-agent") is None, reason="ssh-agent is not installed")
@pytest.mark.parametrize("file", ["key", "key.pub"])
async def test_an_agent_signs_for_an_identity_file_that_cannot(
    world: World, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    await world.node("n1")
    key = world.home / "key"
    socket = str(world.home / "agent.sock")
    agent = await asyncio.create_subprocess_exec("ssh-agent", "-D", "-a", socket, stdout=asyncio.subprocess.DEVNULL)
    try:
        while not Path(socket).exists():
            await asyncio.sleep(0.01)
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        add = await asyncio.create_subprocess_exec("ssh-add", "-q", str(key), stderr=asyncio.subprocess.DEVNULL)
        assert await add.wait() == 0
        key.with_name("key.pub").write_text(world.authorized)
        change = await asyncio.create_subprocess_exec("ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(key))
        assert await change.wait() == 0
        world.configure("  IdentitiesOnly yes\n", key=str(world.home / file))
        world.follow()
        await world.until_state("n1", LinkState.UP)
    finally:
        agent.terminate()
        await agent.wait()


async def test_a_configured_key_file_that_is_not_there_is_passed_over(world: World) -> None:
    await world.node("n1")
    world.configure(f"  IdentityFile {world.home}/nothing_here\n")
    world.follow()
    await world.until_state("n1", LinkState.UP)


async def test_a_dead_agent_socket_does_not_keep_a_key_file_from_working(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.node("n1")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(world.home / "gone.sock"))
    world.follow()
    await world.until_state("n1", LinkState.UP)


async def test_an_unknown_host_key_says_what_to_do(world: World) -> None:
    node = await world.node("n1")
    world.configure(known=False)
    world.follow()
    link = await world.until_state("n1", LinkState.HOST_KEY)
    assert "not known" in link.detail
    assert node.commands == []


async def test_a_changed_host_key_is_told_from_an_unknown_one(world: World) -> None:
    node = await world.node("n1")
    await node.close()
    await node.listen(world.authorized, asyncssh.generate_private_key("ssh-ed25519"))
    world.follow()
    link = await world.until_state("n1", LinkState.HOST_KEY)
    assert "not the known one" in link.detail
    assert node.users == []


async def test_a_host_key_of_another_kind_is_a_changed_one(world: World) -> None:
    node = await world.node("n1")
    await node.close()
    await node.listen(world.authorized, asyncssh.generate_private_key("ecdsa-sha2-nistp256"))
    world.follow()
    assert "known" in (await world.until_state("n1", LinkState.HOST_KEY)).detail


@pytest.mark.parametrize("option", ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"])
async def test_no_configuration_turns_the_check_of_host_keys_off(world: World, option: str) -> None:
    await world.node("n1")
    world.configure(known=False, first=f"Host *\n  {option}\n")
    world.follow()
    await world.until_state("n1", LinkState.HOST_KEY)


async def test_hashed_names_and_aliases_in_known_hosts_are_found(world: World) -> None:
    import base64
    import hmac

    node = await world.node("n1")
    world.configure(first="Host n1\n  HostKeyAlias rack-7\n")
    name = f"[rack-7]:{node.port}"
    salt = b"0123456789abcdef0123"
    hashed = base64.b64encode(hmac.new(salt, name.encode(), "sha1").digest()).decode()
    key = node.key.export_public_key().decode()
    (world.home / "known_hosts").write_text(f"|1|{base64.b64encode(salt).decode()}|{hashed} {key}")
    world.follow()
    await world.until_state("n1", LinkState.UP)


async def test_nobody_listening_is_refused_and_tried_again(world: World) -> None:
    node = await world.node("n1")
    await node.close()
    world.follow()
    assert "nobody listens" in (await world.until_state("n1", LinkState.REFUSED)).detail
    await node.listen(world.authorized)
    await world.until_state("n1", LinkState.UP)
    assert world.links["n1"].tries == 0


async def test_a_name_that_nobody_knows_is_said(world: World) -> None:
    await world.node("n1")
    world.follow("n1", "no-such-host.invalid")
    link = await world.until_state("no-such-host.invalid", LinkState.REFUSED)
    assert "name not known" in link.detail
    await world.until_state("n1", LinkState.UP)


async def test_a_policy_is_told_from_a_failure(world: World) -> None:
    node = await world.node("n1")
    node.banner = "Access denied by pam_slurm_adopt: you have no active jobs on this node\r\n\x1b[31m"
    node.hangs_up = True
    world.follow()
    link = await world.until_state("n1", LinkState.DENIED)
    assert "pam_slurm_adopt" in link.detail
    assert "\x1b" not in link.detail


async def test_a_server_that_hangs_up_is_quoted(world: World) -> None:
    node = await world.node("n1")
    node.banner, node.hangs_up = "System is booting up.\n", True
    world.follow()
    assert "booting up" in (await world.until_state("n1", LinkState.REFUSED)).detail


async def test_a_silent_peer_is_noticed_and_nobody_else_gets_older(world: World) -> None:
    node = await world.node("n1", probe(silent_after=2))
    await world.node("n2")
    world.follow()
    await world.until_state("n1", LinkState.TIMEOUT)
    assert "silent" in world.links["n1"].detail
    before = len(world.samples("n2"))
    await world.until("n1 again", lambda: len(node.connections) > 1)
    await world.until("n2 goes on", lambda: len(world.samples("n2")) > before + 2)
    assert world.seen["n2"] == [LinkState.CONNECTING, LinkState.UP]


async def test_a_lost_connection_is_made_again_and_starts_a_new_offset(world: World) -> None:
    node = await world.node("n1")
    world.follow()
    await world.until("a sample", lambda: bool(world.samples("n1")))
    node.drop_everyone()
    await world.until("the loss", lambda: LinkState.WAITING in world.seen["n1"])
    await world.until("it back", lambda: world.seen["n1"].count(LinkState.UP) == 2)


async def test_a_probe_that_ends_says_how(world: World) -> None:
    async def handler(process: "asyncssh.SSHServerProcess[bytes]") -> None:
        process.stdout.write(framed((process.command or "").split()[-1], hello()))
        await asyncio.sleep(0.1)
        process.stderr.write(b"Traceback\n  File x\nMemoryError\n")
        process.exit(1)

    await world.node("n1", handler)
    world.follow()
    link = await world.until_state("n1", LinkState.WAITING)
    assert link.detail == "the probe ended with status 1: MemoryError"


async def test_a_program_that_is_no_probe_is_said(world: World) -> None:
    async def handler(process: "asyncssh.SSHServerProcess[bytes]") -> None:
        process.stdout.write(b"This account is for file transfer only.\n")
        process.exit(1)

    await world.node("n1", handler)
    world.follow()
    assert "file transfer only" in (await world.until_state("n1", LinkState.NO_PROBE)).detail


@pytest.mark.parametrize(
    "bad", [b"\x01NONCE 99999999999\n", b"\x01NONCE 5\n{{{{{\n", b"\x01NONCE 2\n{}\n"], ids=["long", "text", "shape"]
)
async def test_what_no_probe_of_ours_sends_ends_that_session_alone(world: World, bad: bytes) -> None:
    async def handler(process: "asyncssh.SSHServerProcess[bytes]") -> None:
        nonce = (process.command or "").split()[-1]
        process.stdout.write(framed(nonce, hello()))
        await asyncio.sleep(0.1)
        process.stdout.write(bad.replace(b"NONCE", nonce.encode()))
        await asyncio.sleep(5)

    await world.node("n1", handler)
    await world.node("n2")
    world.follow()
    await world.until_state("n1", LinkState.WAITING)
    await world.until_state("n2", LinkState.UP)


async def test_many_hosts_behind_a_bastion_share_its_one_connection(world: World) -> None:
    bastion = await world.node("bastion")
    for k in range(12):
        await world.node(f"n{k}")
    world.configure(first="Host n*\n  ProxyJump bastion\n")
    names = [name for name in world.nodes if name != "bastion"]
    world.follow(*names)
    await world.until("all up", lambda: all(world.samples(name) for name in names))
    assert len(bastion.connections) == 1
    bastion.drop_everyone()
    await world.until("all back", lambda: all(world.seen[name].count(LinkState.UP) == 2 for name in names))
    assert len(bastion.connections) == 2


async def test_a_chain_of_jumps_is_followed_by_list_and_by_each_hosts_own_configuration(world: World) -> None:
    for name in ("gate", "bastion", "n1", "n2"):
        await world.node(name)
    world.configure(
        first="Host n1\n  ProxyJump gate,bastion\nHost n2\n  ProxyJump bastion\nHost bastion\n  ProxyJump gate\n"
    )
    world.follow("n1", "n2")
    await world.until_state("n1", LinkState.UP)
    await world.until_state("n2", LinkState.UP)
    assert len(world.nodes["gate"].connections) == 1
    assert len(world.nodes["bastion"].connections) == 1


async def test_a_dead_bastion_is_tried_once_for_all_and_named(world: World) -> None:
    bastion = await world.node("bastion")
    for k in range(12):
        await world.node(f"n{k}")
    world.configure(first="Host n*\n  ProxyJump bastion\n")
    bastion.banner, bastion.hangs_up = "maintenance\n", True
    names = [name for name in world.nodes if name != "bastion"]
    world.follow(*names)
    await world.until(
        "two tries each", lambda: all(world.seen.get(name, []).count(LinkState.REFUSED) == 2 for name in names)
    )
    assert all(world.links[name].detail.startswith("jump host bastion:") for name in names)
    assert len(bastion.connections) == 1


async def test_a_bastions_host_key_is_checked_too(world: World) -> None:
    bastion = await world.node("bastion")
    await world.node("n1")
    await bastion.close()
    await bastion.listen(world.authorized, asyncssh.generate_private_key("ssh-ed25519"))
    world.configure(first="Host n*\n  ProxyJump bastion\n")
    world.follow("n1")
    assert "jump host bastion" in (await world.until_state("n1", LinkState.HOST_KEY)).detail


async def test_a_node_that_the_bastion_cannot_reach_is_not_the_bastions_fault(world: World) -> None:
    await world.node("bastion")
    node = await world.node("n1")
    await node.close()
    world.configure(first="Host n*\n  ProxyJump bastion\n")
    world.follow("n1")
    assert "cannot reach it" in (await world.until_state("n1", LinkState.REFUSED)).detail


async def test_follow_ends_the_sessions_of_nodes_that_are_gone_and_is_idempotent(world: World) -> None:
    first, second = await world.node("n1"), await world.node("n2")
    world.follow("n1", "n2")
    await world.until("both", lambda: bool(world.samples("n1") and world.samples("n2")))
    world.follow("n1", "n2")
    world.follow("n2")
    for connection in first.connections:
        await asyncio.wait_for(connection.wait_closed(), 5)
    assert (len(first.connections), len(second.connections)) == (1, 1)
    assert world.seen["n2"] == [LinkState.CONNECTING, LinkState.UP]


async def test_a_user_in_the_settings_goes_before_the_configuration(world: World) -> None:
    node = await world.node("n1")
    world.configure("  User somebody\n")
    world.follow(user="ops")
    await world.until_state("n1", LinkState.UP)
    assert node.users[-1] == "ops"


async def test_a_terminal_wanted_by_the_configuration_never_reaches_the_probe(world: World) -> None:
    terminals = []

    async def handler(process: "asyncssh.SSHServerProcess[bytes]") -> None:
        terminals.append(process.get_terminal_type())
        await probe()(process)

    await world.node("n1", handler)
    world.configure("  RequestTTY force\n  ForwardX11Trusted yes\n  ForwardX11 yes\n  Compression yes\n")
    world.follow()
    await world.until_state("n1", LinkState.UP)
    assert terminals == [None]


async def test_a_configuration_that_cannot_be_read_is_said(world: World) -> None:
    await world.node("n1")
    world.follow(config=(str(world.home / "missing"),))
    assert "missing cannot be read" in (await world.until_state("n1", LinkState.AUTH_FAILED)).detail


async def test_a_line_of_known_hosts_that_cannot_be_read_hides_no_other(world: World) -> None:
    await world.node("n1")
    known = world.home / "known_hosts"
    known.write_text(f"damaged\n@nonsense a b\n|1|x|y z\n{known.read_text()}")
    world.follow()
    await world.until_state("n1", LinkState.UP)


async def test_a_configuration_with_a_block_for_each_of_many_hosts_means_the_same(world: World) -> None:
    await world.node("n1")
    many = "".join(f"Host x{k} y{k}\n  Port 1\n" for k in range(500))
    world.configure(first=f"User first\n{many}", more="  Port 1\n  User last\n")
    world.follow()
    await world.until_state("n1", LinkState.UP)
    assert world.nodes["n1"].users[-1] == "first"


async def test_a_final_match_is_read_with_the_full_name(world: World) -> None:
    await world.node("n1")
    world.configure(more="Match final host 127.0.0.1\n  User final\n")
    world.follow()
    await world.until_state("n1", LinkState.UP)
    assert world.nodes["n1"].users[-1] == "final"


async def test_an_error_in_a_long_configuration_names_its_file_and_line(world: World) -> None:
    await world.node("n1")
    many = "".join(f"Host x{k}\n  Port 1\n" for k in range(500))
    world.configure(first=f"{many}Host *\n  Port many\n")
    world.follow()
    assert ".ssh/config line 1002" in (await world.until_state("n1", LinkState.AUTH_FAILED)).detail


async def test_a_slot_is_given_on_when_its_handshake_only_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.sources.ssh.slots.SLOT_SECONDS", 0.0)
    slots, order = Slots(1), []

    async def dead() -> None:
        async with slots.one():
            order.append("dead begins")
            await asyncio.sleep(60)

    task = asyncio.ensure_future(dead())
    await asyncio.sleep(0)
    async with asyncio.timeout(5), slots.one():
        order.append("alive")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(5), slots.one():
        order.append("again")
    assert order == ["dead begins", "alive", "again"]


def test_the_file_limit_only_ever_rises() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert raise_file_limit() >= before
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= before


class Watched:
    """Stands in for a host's task and notes when it is looked at."""

    looks: ClassVar[list[float]] = []

    def __init__(self, node: str, host: str, **_: object) -> None:
        self.host = host

    async def run(self) -> None:
        await asyncio.Event().wait()

    def watch(self, now: float) -> None:
        self.looks.append(now)


async def test_after_a_pause_of_our_own_nobody_is_called_silent_before_being_heard(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "HostTask", Watched)
    Watched.looks.clear()
    clock = HandClock(0.0)
    one = fleet.Fleet(world.settings(), clock, world.deliver)
    one.follow({"n1": "n1"})
    for step in (0.5, 0.5, 60.0, 0.5, 60.0, 60.0):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        clock.move(step)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await one.close()
    assert Watched.looks == [0.5, 1.0, 61.5, 181.5]


class One:
    """A host's task with time in the test's hand, hearing what the test says."""

    def __init__(self, home: Path) -> None:
        self.clock = HandClock()
        self.facts: list[Heard | LinkChanged] = []
        world_settings = World(home).settings(period=5.0)
        self.task = HostTask(
            "n1",
            "n1",
            settings=world_settings,
            connector=Connector(world_settings, self.clock),
            slots=Slots(1),
            clock=self.clock,
            deliver=self.facts.append,
        )

    def hear(self, mono: float) -> float:
        """The offset that a sample of this monotonic time is delivered with."""
        self.task._heard(sample(mono=mono))
        fact = self.facts[-1]
        assert isinstance(fact, Heard)
        return fact.offset


async def test_samples_that_a_thaw_delivers_late_do_not_look_fresh(tmp_path: Path) -> None:
    one = One(tmp_path)
    assert one.hear(100.0) == 900.0
    one.clock.move(60)
    late = one.hear(105.0)
    assert 105.0 + late == pytest.approx(1005.0, abs=0.1)


async def test_a_clock_that_runs_slower_than_ours_does_not_make_a_long_session_stale(tmp_path: Path) -> None:
    one = One(tmp_path)
    mono, age = 100.0, 0.0
    for _ in range(20_000):
        one.clock.move(5.0)
        mono += 5.0 * (1 - DRIFT / 2)
        age = one.clock.now() - (mono + one.hear(mono))
    assert age < 0.01


async def test_a_task_that_swallows_a_cancellation_once_is_ended_all_the_same() -> None:
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            swallowed += 1
        await asyncio.sleep(60)

    task = asyncio.ensure_future(stubborn())
    await asyncio.sleep(0)
    await asyncio.wait_for(end([task]), 5)
    assert swallowed == 1
    assert task.cancelled()
