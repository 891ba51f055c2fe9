"""What the screen costs, through a real pseudo-terminal: first paint, key to repaint while frames arrive, bytes."""

import fcntl
import os
import pty
import random
import re
import select
import signal
import statistics
import struct
import termios
import time
from pathlib import Path

from gputop.tui.themes import load_palette
from tests.bench.engine_cost import cpu, kib

COLUMNS, ROWS = 200, 60
KEYS = 200
QUIET = 10.0
THEME = "dark"

Figures = dict[str, float | str]


class Terminal:
    """A program on a pseudo-terminal of 200x60, and all that it wrote."""

    def __init__(self, argv: list[str]) -> None:
        self.began = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
            os.execvpe(argv[0], argv, env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
        self.wrote = bytearray()
        self.bursts = 0

    def read(self, seconds: float) -> bool:
        """Takes what comes next; False when nothing came in that time."""
        ready, _, _ = select.select([self.fd], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            self.wrote += os.read(self.fd, 1 << 16)
        except OSError:
            return False
        self.bursts += 1
        return True

    def until(self, pattern: "re.Pattern[bytes]", seconds: float) -> float:
        """Reads on until the pattern stands in what was written since the call; answers how long that took."""
        start, began = len(self.wrote), time.monotonic()
        while not pattern.search(self.wrote, start):
            left = began + seconds - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{pattern.pattern!r} was not written within {seconds} s")
            self.read(left)
        return time.monotonic() - began

    def key(self, word: bytes, pattern: "re.Pattern[bytes]", seconds: float = 5.0) -> float:
        """Presses a key; seconds until what it must change was drawn."""
        os.write(self.fd, word)
        return self.until(pattern, seconds)

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def cursor_on(name: str) -> "re.Pattern[bytes]":
    """The row of a node, drawn as the one under the cursor: other rows are redrawn all the time."""
    colour = load_palette(THEME)["cursor"].bgcolor
    if colour is None or colour.triplet is None:
        raise ValueError(f"theme {THEME} marks the cursor with no background")
    r, g, b = colour.triplet
    return re.compile(rf"48;2;{r};{g};{b}m *{name}\b".encode())


def screen_figures(argv: list[str], names: list[str]) -> Figures:
    """The figures of a running cluster's screen; names: its nodes in the order of the table."""
    terminal = Terminal(argv)
    try:
        terminal.until(re.compile(rb"NODE"), 20)
        figures: Figures = {"first paint, s (budget 0.8)": round(time.monotonic() - terminal.began, 2)}
        terminal.until(cursor_on(names[0]), 60)
        figures["first picture with rows, s"] = round(time.monotonic() - terminal.began, 2)
        _listen(terminal, 5.0)
        figures.update(_quiet(terminal))
        times = _keys(terminal, names)
        figures["key to repaint, median ms (budget 15)"] = round(1000 * statistics.median(times), 1)
        figures["key to repaint, p95 ms (budget 30)"] = round(1000 * sorted(times)[int(0.95 * len(times))], 1)
        figures["key to repaint, worst ms (budget 100)"] = round(1000 * max(times), 1)
        figures["screen, resident MB"] = round(kib(terminal.pid, "status", "VmRSS") / 1024)
    finally:
        terminal.close()
    return figures


def _listen(terminal: Terminal, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        terminal.read(left)


def _quiet(terminal: Terminal) -> Figures:
    """Nobody presses a key; frames arrive."""
    before, burst, used = len(terminal.wrote), terminal.bursts, cpu(terminal.pid)
    _listen(terminal, QUIET)
    wrote = len(terminal.wrote) - before
    return {
        "bytes to the terminal a second, no key pressed": round(wrote / QUIET),
        "bytes a write": round(wrote / max(1, terminal.bursts - burst)),
        "screen, % of a core while frames arrive": round(100 * (cpu(terminal.pid) - used) / QUIET, 1),
    }


def _keys(terminal: Terminal, names: list[str]) -> list[float]:
    """Down and up through the first rows, at a person's pace."""
    pace = random.Random(1)
    times, at, step = [], 0, 1
    for _ in range(KEYS):
        at += step
        times.append(terminal.key(b"\x1b[B" if step > 0 else b"\x1b[A", cursor_on(names[at])))
        _listen(terminal, pace.uniform(0.05, 0.15))
        if at in (0, 25):
            step = -step
    return times


def gputop_on(config: Path) -> list[str]:
    """The command line of a screen with that configuration."""
    import sys

    return [str(Path(sys.executable).parent / "gputop"), "--config", str(config)]
