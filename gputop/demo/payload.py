"""What a client sends first: the packed probe or runner. Its options are read; nothing of it is executed."""

import ast
import json
import re
import zlib
from typing import Any

_SIZE = re.compile(r" (\d+)$")
_OPTIONS = re.compile(r"^(\w+)\.main\(json\.loads\((.*)\)\)$", re.MULTILINE)
_SYNC = b"\x00\x00\xff\xff"


class PayloadError(ValueError):
    """Not a program of ours."""


def size_of(command: str) -> int:
    """How many bytes a command line waits for; raises PayloadError for one that is not the bootstrap's."""
    found = _SIZE.search(command)
    if found is None or "zlib.decompress" not in command:
        raise PayloadError(f"not the bootstrap: {command[:80]!r}")
    return int(found[1])


class Unpacker:
    """Reads options; what all payloads begin with is unpacked once."""

    def __init__(self) -> None:
        self._heads: dict[bytes, Any] = {}

    def options(self, payload: bytes) -> tuple[str, dict[str, Any]]:
        """("main" or "runner", its options)."""
        cut = payload.rfind(_SYNC) + len(_SYNC)
        head, tail = payload[:cut], payload[cut:]
        try:
            if head not in self._heads:
                unpacking = zlib.decompressobj()
                unpacking.decompress(head)
                self._heads[head] = unpacking
            unpacking = self._heads[head].copy()
            text = (unpacking.decompress(tail) + unpacking.flush()).decode("utf-8", "replace")
            found = _OPTIONS.search(text)
            if found is None:
                raise PayloadError("no options in the payload")
            return found[1], json.loads(ast.literal_eval(found[2]))
        except (zlib.error, ValueError, SyntaxError) as error:
            raise PayloadError(str(error)) from error
