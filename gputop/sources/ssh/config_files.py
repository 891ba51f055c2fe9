"""OpenSSH's configuration files; a long one is cut down to what can matter for a host, since each host parses it anew.

A cluster's generated configuration has a block for every node: parsed in full for every node, 2,048 of them would cost
a minute of CPU.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncssh
from msgspec import Struct

USUAL = ("~/.ssh/config", "/etc/ssh/ssh_config")
LONG = 64
"""Blocks; a file with fewer is parsed as it is."""
_BEGIN = re.compile(r"\s*(host|match)[\s=]+(.*)", re.IGNORECASE)
_SPECIAL = re.compile(r"[*?!,\"'\\=\[\]]")


class Block(Struct, frozen=True):
    """Lines that hold together."""

    names: frozenset[str] | None
    """Whom a Host line names, where that is all it says; None: the block is always looked at."""
    text: str


def blocks(text: str) -> tuple[Block, ...]:
    """A configuration in its order."""
    found: list[Block] = []
    names: frozenset[str] | None = None
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        if begin := _BEGIN.match(line):
            found.append(Block(names, "".join(lines)))
            plain = begin[1].lower() == "host" and not _SPECIAL.search(begin[2])
            names, lines = frozenset(begin[2].split()) if plain else None, []
        lines.append(line)
    found.append(Block(names, "".join(lines)))
    return tuple(found)


class Parts:
    """The blocks of one file, found by the hosts that they name."""

    def __init__(self, parts: tuple[Block, ...]) -> None:
        self._parts = parts
        self._always = [k for k, part in enumerate(parts) if part.names is None]
        self._naming: dict[str, list[int]] = {}
        for k, part in enumerate(parts):
            for name in part.names or ():
                self._naming.setdefault(name, []).append(k)

    def __len__(self) -> int:
        return len(self._parts)

    def cut(self, host: str) -> str:
        """What can matter for a host, in its order."""
        chosen = sorted((*self._always, *self._naming.get(host, ())))
        return "".join(self._parts[k].text for k in chosen)


class ConfigFiles:
    """The files to parse, as they are on disk now."""

    def __init__(self, configured: tuple[str, ...]) -> None:
        """configured stands in for the usual ones, and must be there."""
        self._configured = configured
        self._read: dict[str, tuple[int, Parts]] = {}

    def whole(self) -> list[str]:
        """Every file; raises ConfigParseError for a configured one that cannot be read."""
        paths = [Path(name).expanduser() for name in self._configured or USUAL]
        readable = [path for path in paths if path.is_file() and os.access(path, os.R_OK)]
        if self._configured and len(readable) < len(paths):
            missing = next(path for path in paths if path not in readable)
            raise asyncssh.ConfigParseError(f"{missing} cannot be read")
        return [str(path) for path in readable]

    @contextmanager
    def of(self, host: str) -> Iterator[list[str]]:
        """Paths that give the same answer for a host as all files would; they live as long as the context."""
        open_files: list[int] = []
        paths: list[str] = []
        try:
            for path in self.whole():
                parts = self._blocks(path)
                if len(parts) < LONG:
                    paths.append(path)
                    continue
                memory = os.memfd_create("ssh_config")
                open_files.append(memory)
                os.write(memory, parts.cut(host).encode("utf-8", "surrogateescape"))
                paths.append(f"/proc/self/fd/{memory}")
            yield paths
        finally:
            for memory in open_files:
                os.close(memory)

    def _blocks(self, path: str) -> Parts:
        changed = os.stat(path).st_mtime_ns
        known = self._read.get(path)
        if known is None or known[0] != changed:
            known = (changed, Parts(blocks(Path(path).read_text(encoding="utf-8", errors="surrogateescape"))))
            self._read[path] = known
        return known[1]
