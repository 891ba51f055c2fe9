"""Framing: \\x01 NONCE LENGTH newline, then so many bytes of JSON, then a newline. Noise before a frame is skipped."""

import json
import os


def encode(message, nonce):
    """One message as bytes on the wire."""
    # Names from /proc and passwd may hold lone surrogates, which JSON escapes but no decoder takes back.
    payload = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    return b"\x01" + nonce.encode("ascii") + b" " + str(len(payload)).encode("ascii") + b"\n" + payload + b"\n"


def write_all(fd, data):
    """Writes all of it; raises OSError when the other end is gone."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
