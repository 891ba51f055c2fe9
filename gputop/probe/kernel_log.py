"""The tail of the kernel log: only lines that matter, bounded, and honest about a log that may not be read."""

import calendar
import os
import re
import signal
import time

from .host_facts import boot_time

FIRST_LINES = 400
"""Matching lines are looked for in so many last lines when a session begins."""
PER_PERIOD = 50
LINE_LIMIT = 500
RETRY_SECONDS = 60

MATTERS = re.compile(
    r"NVRM|Xid|SXid|nvidia|nvswitch|NVLink|mlx5|mlx4|infiniband|\bib\d|nvme|EXT4-fs (?:error|warning)|XFS|I/O error|"
    r"Out of memory|oom-kill|oom_reaper|blocked for more than|hung_task|soft lockup|hard LOCKUP|"
    r"Hardware Error|\bmce\b|MCE|EDAC|AER:|pcieport|DPC:|fallen off the bus|Link is (?:Down|Up)|Lost Carrier|"
    r"nfs: server|Lustre|beegfs|remount|segfault|thermal|throttl|power supply|insufficient power",
    re.IGNORECASE,
)
_ISO = re.compile(r"^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)[.,]?(\d*)(?:([+-])(\d\d):?(\d\d)|Z)?\s+(.*)$")
_SINCE_BOOT = re.compile(r"^(?:<\d+>)?\[\s*(\d+\.\d+)\]\s?(.*)$")
_HOST_KERNEL = re.compile(r"^\S+ kernel: ")
_DENIED = re.compile(
    r"insufficient permissions|Operation not permitted|Permission denied|not seeing messages", re.IGNORECASE
)


def parse_line(line, booted):
    """(epoch seconds or None, text) of a journal or dmesg line; booted is the boot's epoch, or None."""
    line = line.rstrip("\r\n")
    found = _ISO.match(line)
    if found:
        year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
        at = calendar.timegm((year, month, day, hour, minute, second))
        if found.group(8):
            offset = (int(found.group(9)) * 60 + int(found.group(10))) * 60
            at -= offset if found.group(8) == "+" else -offset
        return float(at), _HOST_KERNEL.sub("", found.group(11))[:LINE_LIMIT]
    found = _SINCE_BOOT.match(line)
    if found and booted is not None:
        return round(booted + float(found.group(1)), 1), found.group(2)[:LINE_LIMIT]
    return None, (found.group(2) if found else line)[:LINE_LIMIT]


def denial(status, errors):
    """The words of a refusal, or "" where the log could be read."""
    if _DENIED.search(errors):
        return errors.strip().split("\n")[-1].strip()[:200]
    if status == 127:
        return "not installed"
    return errors.strip()[:200] if status else ""


class KernelLog:
    """Follows journalctl, else asks dmesg again each minute; commands run behind prefix."""

    def __init__(self, prefix, now=time.monotonic):
        self._prefix = list(prefix)
        self._now = now
        self._booted = boot_time()
        self._pid = 0
        self._fd = None
        self._errors = None
        self._partial = b""
        self._lines = []
        self._dropped = 0
        self._reset = True
        self._first_until = 0.0
        self._retry_at = 0.0
        self._said = None
        self._seen = None

    def fileno(self):
        """What to wait on; None while nothing is followed."""
        return self._fd

    def begin(self):
        """Starts following."""
        command = ["journalctl", "-k", "-b", "-o", "short-iso", "--no-pager", "-n", str(FIRST_LINES), "-f"]
        self._pid, self._fd, self._errors = spawn(self._prefix + command)
        os.set_blocking(self._fd, False)
        os.set_blocking(self._errors, False)
        self._first_until = self._now() + 1.0

    def pump(self):
        """Takes what has arrived; to be called when fileno() is readable."""
        if self._fd is None:
            return
        while True:
            try:
                part = os.read(self._fd, 65536)
            except BlockingIOError:
                return
            except OSError:
                part = b""
            if not part:
                self._ended()
                return
            self._partial += part
            lines = self._partial.split(b"\n")
            self._partial = lines.pop()[-4096:]
            for line in lines:
                self._add(line.decode("utf-8", "replace"))

    def _add(self, line):
        if not MATTERS.search(line):
            return
        if len(self._lines) >= PER_PERIOD:
            if not self._reset:
                self._dropped += 1
                return
            del self._lines[0]
        self._lines.append(parse_line(line, self._booted))

    def _ended(self):
        """journalctl is gone: it was refused, is not there, or died."""
        errors = read_rest(self._errors)
        status = finish(self._pid)
        self._forget()
        self._retry_at = self._now() + RETRY_SECONDS
        self._refused = denial(status, errors) or "journalctl ended with status %d" % status
        self._lines = []
        self._dmesg()

    def _forget(self):
        """Closes what led to a command that has ended."""
        for fd in (self._fd, self._errors):
            if fd is not None:
                os.close(fd)
        self._pid, self._fd, self._errors = 0, None, None

    def _dmesg(self):
        """The other way in: all of the ring buffer, of which what is new is kept."""
        status, output, errors = run(self._prefix + ["dmesg", "--time-format", "iso"], 5.0)
        if status and "Operation not permitted" not in errors and "unrecognized" in errors:
            status, output, errors = run(self._prefix + ["dmesg"], 5.0)
        words = denial(status, errors)
        if words:
            denied = _DENIED.search(words + self._refused) is not None
            self._say({"source": "", "why": "~denied" if denied else "~not_supported", "detail": words})
            return
        lines = [parse_line(line, self._booted) for line in output.splitlines() if MATTERS.search(line)]
        fresh = lines if self._seen is None else [line for line in lines if line not in self._seen]
        reset, self._seen = self._seen is None, set(lines)
        if fresh or reset:
            self._said = {"source": "dmesg", "reset": reset, "lines": fresh[-PER_PERIOD:]}
            self._said["dropped"] = 0 if reset else max(0, len(fresh) - PER_PERIOD)

    def _say(self, message):
        self._said = message

    def message(self):
        """What is new since the last call as a kernel message, or None."""
        if self._fd is None and self._said is None and self._now() >= self._retry_at:
            if self._seen is not None:
                self._retry_at = self._now() + RETRY_SECONDS
                self._dmesg()
            else:
                self.begin()
        if self._said is not None:
            said, self._said = self._said, None
            return dict(said, type="kernel")
        if self._fd is None:
            return None
        self.pump()
        if self._fd is None or (self._reset and self._now() < self._first_until):
            return self.message() if self._fd is None and self._said is not None else None
        if self._reset:
            words = read_rest(self._errors)
            if _DENIED.search(words) and not self._lines:
                return self._give_up(words)
        elif not self._lines and not self._dropped:
            return None
        message = {
            "type": "kernel",
            "source": "journalctl",
            "reset": self._reset,
            "lines": self._lines,
            "dropped": self._dropped,
        }
        self._lines, self._dropped, self._reset = [], 0, False
        return message

    def _give_up(self, words):
        """journalctl follows, but may show us only our own messages: that is a log we cannot read."""
        os.kill(self._pid, signal.SIGKILL)
        finish(self._pid)
        self._forget()
        self._retry_at = self._now() + RETRY_SECONDS
        self._refused = words
        self._dmesg()
        return self.message() if self._said is not None else None

    def close(self):
        if self._pid:
            try:
                os.kill(self._pid, signal.SIGKILL)
            except OSError:
                pass


def spawn(argv):
    """Starts a command with its output and errors on pipes: (pid, output, errors). Status 127: it cannot be started."""
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(out_write)
        os.close(err_write)
        return pid, out_read, err_read
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(out_write, 1)
        os.dup2(err_write, 2)
        for fd in range(3, 256):
            try:
                os.close(fd)
            except OSError:
                pass
        os.execvp(argv[0], argv)
    finally:
        os._exit(127)


def read_rest(fd):
    """All that is there now, and not more."""
    os.set_blocking(fd, False)
    text = b""
    try:
        while len(text) < 65536:
            part = os.read(fd, 65536)
            if not part:
                break
            text += part
    except OSError:
        pass
    return text.decode("utf-8", "replace")


def finish(pid):
    """Exit status of a child that is ending."""
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return 127
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def run(argv, limit):
    """(status, output, errors) of a command that must end within limit seconds."""
    import select

    pid, out, err = spawn(argv)
    ends = time.monotonic() + limit
    texts = {out: b"", err: b""}
    waiting = [out, err]
    while waiting and time.monotonic() < ends:
        ready, _, _ = select.select(waiting, [], [], max(0.0, ends - time.monotonic()))
        for fd in ready:
            part = os.read(fd, 1 << 20)
            texts[fd] += part
            if not part:
                waiting.remove(fd)
    if waiting:
        os.kill(pid, signal.SIGKILL)
    status = finish(pid)
    os.close(out)
    os.close(err)
    if waiting:
        return 124, "", "%s gave no answer within %d s" % (argv[0], limit)
    return status, texts[out].decode("utf-8", "replace"), texts[err].decode("utf-8", "replace")
