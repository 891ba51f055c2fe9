"""The kernel log by real commands: what matters is sent, and a log that may not be read is not an empty one."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.model.sample import KernelLines
from gputop.probe import kernel_log
from gputop.probe.kernel_log import KernelLog, matters

XID = "2026-12-01T03:18:00+0000 n1 kernel: NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus."
HINT = "Hint: You are currently not seeing messages from other users and the system."
Commands = Callable[[str, str], None]
Follow = Callable[..., "Followed"]


class Followed:
    """A kernel log and a clock that can be put ahead."""

    def __init__(self, prefix: tuple[str, ...]) -> None:
        self.ahead = 0.0
        self.log = KernelLog(prefix, now=lambda: time.monotonic() + self.ahead)

    def next(self, seconds: float = 10.0) -> KernelLines:
        """What it says next, decoded as the engine does."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            message: dict[str, Any] | None = self.log.message()
            if message is not None:
                return msgspec.convert(message, KernelLines)
            time.sleep(0.01)
        raise TimeoutError("it said nothing")


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Puts shell scripts in the place of journalctl, dmesg and sudo; without one, there is no such command."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    monkeypatch.setenv("PATH", str(bin_folder))

    def put(name: str, script: str) -> None:
        (bin_folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        (bin_folder / name).chmod(0o755)

    return put


@pytest.fixture
def follow() -> Iterator[Follow]:
    made: list[Followed] = []

    def begin(*prefix: str) -> Followed:
        made.append(Followed(prefix))
        made[-1].log.begin()
        return made[-1]

    yield begin
    for one in made:
        one.log.close()
        if one.log.fileno() is not None:
            one.log._forget()


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:9b:00): 119, pid=1, name=x, Timeout after 6s of waiting for RPC response from GPU4 GSP!",
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Severity 1 Engine instance 32",
        "NVRM: fallen off the bus and is not responding to commands.",
        "Out of memory: Killed process 7 (python3)",
        "INFO: task nv_queue:1 blocked for more than 120 seconds.",
        "mlx5_core 0000:18:00.0: Port module event: module 0, Cable unplugged",
        "EXT4-fs error (device sda1): ext4_find_entry",
        "nfs: server home not responding, still trying",
        "mce: [Hardware Error]: Machine check events logged",
        "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received",
        "pt_main_thread[7]: segfault at 7f797fe00000 ip 00007f7c7ac69996 in libnccl.so.2",
    ],
)
def test_lines_that_matter(line: str) -> None:
    assert matters(line)


@pytest.mark.parametrize(
    "line",
    [
        "audit: type=1400 apparmor=ALLOWED",
        "IPv6: ADDRCONF(NETDEV_CHANGE): veth1: link becomes ready",
        "NVRM:     -7    76   GSP_RM_CONTROL        0x0000000020802a02 0x0000000000000008",
        "NVRM:     entry function                   data0              data1",
    ],
)
def test_lines_that_do_not_matter(line: str) -> None:
    assert not matters(line)


def test_a_journal_is_read_from_its_tail_and_then_followed(commands: Commands, follow: Follow, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(XID + "\n2026-12-01T03:18:00+0000 n1 kernel: audit: hello\n")
    commands("journalctl", f"exec tail -n 400 -f {tmp_path}/log")
    log = follow()
    first = log.next()
    assert (first.source, first.reset, first.dropped) == ("journalctl", True, 0)
    assert first.lines == ((1796095080.0, "NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus."),)
    with (tmp_path / "log").open("a") as more:
        more.write(XID.replace("79,", "154,") + "\n")
    then = log.next()
    assert (then.reset, len(then.lines)) == (False, 1)


def test_a_journal_that_gives_nothing_is_readable_and_empty_but_not_at_once(commands: Commands, follow: Follow) -> None:
    commands("journalctl", "exec sleep 60")
    log = follow()
    log.ahead = kernel_log.SETTLE_SECONDS + 0.5
    assert log.log.message() is None
    log.ahead = kernel_log.SILENT_SECONDS + 0.5
    first = log.next()
    assert (first.source, first.why, first.lines, first.reset) == ("journalctl", "", (), True)


@pytest.mark.parametrize("words", ["", "echo '-- Logs begin at Mon 2026-12-01. --'; "], ids=["silent", "with remarks"])
def test_a_journal_that_shows_only_our_own_messages_is_denied_however_late_it_says_so(
    commands: Commands, follow: Follow, words: str
) -> None:
    commands("journalctl", f"{words}sleep 1.5; echo '{HINT}' >&2; exec sleep 60")
    commands("dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    said = follow().next()
    assert (said.source, said.why) == ("", "~denied")
    assert "Operation not permitted" in said.detail


@pytest.mark.parametrize(
    ("journal", "dmesg", "why"),
    [
        ("echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1", None, "~denied"),
        (None, None, "~not_supported"),
        (None, "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1", "~denied"),
        (None, "exec sleep 60", "~timed_out"),
        (None, "echo 'dmesg: cannot open /dev/kmsg: I/O error' >&2; exit 1", "~error"),
    ],
    ids=["journal denied and no dmesg", "neither", "dmesg denied", "dmesg hangs", "dmesg fails"],
)
def test_a_log_that_no_way_leads_to_says_why(
    commands: Commands,
    follow: Follow,
    monkeypatch: pytest.MonkeyPatch,
    journal: str | None,
    dmesg: str | None,
    why: str,
) -> None:
    monkeypatch.setattr(kernel_log, "ANSWER_SECONDS", 0.3)
    for name, script in (("journalctl", journal), ("dmesg", dmesg)):
        if script is not None:
            commands(name, script)
    said = follow().next()
    assert (said.source, said.why, said.lines) == ("", why, ())
    assert said.detail


def test_a_command_prefix_that_wants_a_password_is_a_denial(commands: Commands, follow: Follow) -> None:
    commands("sudo", "echo 'sudo: a password is required' >&2; exit 1")
    assert follow("sudo", "-n").next().why == "~denied"


def test_a_command_prefix_is_put_before_the_command(commands: Commands, follow: Follow) -> None:
    commands("sudo", f'[ "$1 $2" = "-n journalctl" ] && echo "{XID}"; exec sleep 60')
    assert len(follow("sudo", "-n").next().lines) == 1


def test_where_dmesg_is_the_way_in_only_new_lines_are_sent(commands: Commands, follow: Follow, tmp_path: Path) -> None:
    (tmp_path / "ring").write_text("[   10.000000] NVRM: Xid 1\n")
    commands("dmesg", f"exec cat {tmp_path}/ring")
    log = follow()
    first = log.next()
    assert (first.source, first.reset, [text for _, text in first.lines]) == ("dmesg", True, ["NVRM: Xid 1"])
    (tmp_path / "ring").write_text("[   10.000000] NVRM: Xid 1\n[   11.000000] NVRM: Xid 2\n")
    log.ahead = kernel_log.RETRY_SECONDS + 1.0
    then = log.next()
    assert (then.reset, [text for _, text in then.lines]) == (False, ["NVRM: Xid 2"])


def test_a_flood_neither_holds_the_loop_nor_passes_the_limit(commands: Commands, follow: Follow) -> None:
    commands("journalctl", f"echo '{XID}'; sleep 1.5; exec yes '{XID}'")
    log = follow()
    assert log.next().reset
    flooded = log.next()
    assert len(flooded.lines) == kernel_log.PER_PERIOD
    assert flooded.dropped > 0


def test_one_look_at_a_log_that_never_stops_is_bounded(tmp_path: Path) -> None:
    endless = tmp_path / "endless"
    endless.write_text((XID + "\n") * 20_000)
    log = KernelLog(())
    log._fd = os.open(endless, os.O_RDONLY)
    try:
        log.pump()
        assert os.lseek(log._fd, 0, os.SEEK_CUR) == kernel_log.READS_AT_ONCE * 65536
    finally:
        os.close(log._fd)


def test_a_log_that_was_taken_for_empty_is_denied_once_the_journal_says_so(
    commands: Commands, follow: Follow, tmp_path: Path
) -> None:
    commands("journalctl", f"while [ ! -e {tmp_path}/say ]; do sleep 0.02; done; echo '{HINT}' >&2; exec sleep 60")
    log = follow()
    log.ahead = kernel_log.SILENT_SECONDS + 0.5
    assert log.next().why == ""
    (tmp_path / "say").touch()
    assert log.next().why == "~denied"


def test_a_first_read_keeps_the_newest_lines(commands: Commands, follow: Follow) -> None:
    commands("journalctl", 'for i in $(seq 100); do echo "[    1.$i] NVRM: Xid number $i"; done; exec sleep 60')
    first = follow().next()
    assert len(first.lines) == kernel_log.PER_PERIOD
    assert first.lines[-1][1].endswith("number 100")


def test_a_journal_that_ends_after_long_is_read_anew_from_its_tail(
    commands: Commands, follow: Follow, tmp_path: Path
) -> None:
    commands("journalctl", f"echo '{XID}'; while [ ! -e {tmp_path}/end ]; do sleep 0.05; done")
    commands("dmesg", "echo 'Operation not permitted' >&2; exit 1")
    log = follow()
    assert log.next().reset
    log.ahead = 3600.0
    (tmp_path / "end").touch()
    while log.log.fileno() is not None:
        assert log.log.message() is None
        time.sleep(0.01)
    (tmp_path / "end").unlink()
    log.ahead = 7200.0
    again = log.next()
    assert (again.source, again.reset, len(again.lines)) == ("journalctl", True, 1)


def test_where_no_process_may_be_made_the_log_is_an_error_and_the_probe_goes_on(
    commands: Commands, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    said = follow().next()
    assert said.why == "~error"
    assert "Resource temporarily unavailable" in said.detail


def test_nothing_runs_on_after_it_is_closed(commands: Commands, follow: Follow) -> None:
    commands("journalctl", f"echo '{XID}'; exec sleep 60")
    log = follow()
    log.next()
    pid = log.log._pid
    assert Path(f"/proc/{pid}").exists()
    log.log.close()
    assert not Path(f"/proc/{pid}").exists()
