"""The tail of the kernel log: only lines that matter, bounded, and honest about a log that may not be read."""

import calendar
import os
import re
import select
import signal
import time

from .host_facts import boot_time

FIRST_LINES = 400
"""Matching lines are looked for in so many last lines when a session begins."""
PER_PERIOD = 50
LINE_LIMIT = 500
RETRY_SECONDS = 60
STATUS_TIMED_OUT = 124
SETTLE_SECONDS = 1.0
"""From journalctl's start until what it has given counts as its first read."""
SILENT_SECONDS = 5.0
"""A journal that has given no line by then is empty; a large one can take long to give its first."""
ANSWER_SECONDS = 2.0
"""For dmesg: the loop waits for it, and a session without samples counts as frozen."""
READS_AT_ONCE = 16
"""Parts of 64 KiB taken in one go: a log that never stops must not hold the loop."""

MATTERS = re.compile(
    r"nvrm|xid|nvidia|nvswitch|nvlink|mlx5|mlx4|infiniband|\bib\d|nvme|ext4-fs (?:error|warning)|xfs|i/o error|"
    r"out of memory|oom-kill|oom_reaper|blocked for more than|hung_task|soft lockup|hard lockup|"
    r"hardware error|\bmce\b|edac|aer:|pcieport|dpc:|fallen off the bus|link is (?:down|up)|lost carrier|"
    r"nfs: server|lustre|beegfs|remount|segfault|thermal|throttl|power supply|insufficient power"
)
"""Of a line in lower case, which is six times as fast as a pattern that ignores case."""
_DUMP = re.compile(r"NVRM:\s{2,}(?:-?\d+|entry)\s")
"""Rows of the tables that the driver prints after an Xid; they would push the Xid itself out."""
_ISO = re.compile(r"^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)[.,]?(\d*)(?:([+-])(\d\d):?(\d\d)|Z)?\s+(.*)$")
_SINCE_BOOT = re.compile(r"^(?:<\d+>)?\[\s*(\d+\.\d+)\]\s?(.*)$")
_HOST_KERNEL = re.compile(r"^\S+ kernel: ")
_DENIED = re.compile(
    r"insufficient permissions|Operation not permitted|Permission denied|not seeing messages|"
    r"password is required|not allowed to|may not run sudo|not in the sudoers",
    re.IGNORECASE,
)


def matters(line):
    """Whether a line is worth sending."""
    return MATTERS.search(line.lower()) is not None and _DUMP.search(line) is None


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
        self._begun = 0.0
        self._heard = False
        self._refused = ""
        self._retry_at = 0.0
        self._said = None
        self._seen = None

    def fileno(self):
        """What to wait on; None while nothing is followed."""
        return self._fd

    def begin(self):
        """Starts following."""
        command = ["journalctl", "-k", "-b", "-o", "short-iso", "--no-pager", "-n", str(FIRST_LINES), "-f"]
        self._begun, self._heard, self._reset, self._partial = self._now(), False, True, b""
        try:
            self._pid, self._fd, self._errors = spawn(self._prefix + command)
        except OSError as error:
            self._retry_at = self._now() + RETRY_SECONDS
            self._said = {"why": "~error", "detail": "journalctl cannot be started: %s" % error.strerror}
            return
        os.set_blocking(self._fd, False)
        os.set_blocking(self._errors, False)

    def pump(self):
        """Takes what has arrived; to be called when fileno() is readable."""
        if self._fd is None:
            return
        for _ in range(READS_AT_ONCE):
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
        # The journal's own remarks also come where no line may be read.
        self._heard = self._heard or not line.startswith("-- ")
        if not matters(line):
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
        if not self._heard or self._now() - self._begun < RETRY_SECONDS:
            self._dmesg()

    def _forget(self):
        """Closes what led to a command that has ended."""
        for fd in (self._fd, self._errors):
            if fd is not None:
                os.close(fd)
        self._pid, self._fd, self._errors = 0, None, None

    def _dmesg(self):
        """The other way in: all of the ring buffer, of which what is new is kept."""
        status, output, errors = run(self._prefix + ["dmesg"], ANSWER_SECONDS)
        words = denial(status, errors)
        if words:
            self._said = {"why": reason(status, words + self._refused), "detail": words}
            return
        lines = [parse_line(line, self._booted) for line in output.splitlines() if matters(line)]
        fresh = lines if self._seen is None else [line for line in lines if line not in self._seen]
        reset, self._seen = self._seen is None, set(lines)
        if fresh or reset:
            self._said = {"source": "dmesg", "reset": reset, "lines": fresh[-PER_PERIOD:]}
            self._said["dropped"] = 0 if reset else max(0, len(fresh) - PER_PERIOD)

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
        if self._fd is None:
            return self.message() if self._said is not None else None
        words = read_rest(self._errors)
        if _DENIED.search(words) and not self._heard:
            return self._give_up(words)
        if self._reset:
            if self._now() - self._begun < (SETTLE_SECONDS if self._heard else SILENT_SECONDS):
                return None
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
        end(self._pid)
        self._forget()
        self._retry_at = self._now() + RETRY_SECONDS
        self._refused = words
        self._dmesg()
        return self.message() if self._said is not None else None

    def close(self):
        if self._pid:
            end(self._pid)


def reason(status, words):
    """Why no way led to the log, by the last status and all that was said."""
    if _DENIED.search(words):
        return "~denied"
    if status == STATUS_TIMED_OUT:
        return "~timed_out"
    return "~not_supported" if status == 127 else "~error"


def spawn(argv):
    """Starts a command with its output and errors on pipes: (pid, output, errors). Status 127: it cannot be started.

    Raises OSError where no process may be made.
    """
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        for fd in (out_read, out_write, err_read, err_write):
            os.close(fd)
        raise
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


def end(pid):
    """Kills a child and waits a moment. One that we may not kill, such as sudo, goes when its pipes do."""
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return
    for _ in range(20):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.01)


def run(argv, limit):
    """(status, output, errors) of a command that must end within limit seconds."""
    try:
        pid, out, err = spawn(argv)
    except OSError as error:
        return 126, "", "%s cannot be started: %s" % (argv[0], error.strerror)
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
    os.close(out)
    os.close(err)
    if waiting:
        end(pid)
        return STATUS_TIMED_OUT, "", "%s gave no answer within %d s" % (argv[0], limit)
    status = finish(pid)
    return status, texts[out].decode("utf-8", "replace"), texts[err].decode("utf-8", "replace")
