"""The session log's layout on disk.

    magic  header-length header            header: msgpack of Header
    block* = BLOCK checksum-of-the-rest flags frames first last raw packed | zstd data
    INDEX length entries | trailer         trailer: offset of the index, magic

A block is a zstd frame over length-prefixed stream frames and can be read alone; one that begins with a keyframe says
so. A log cut anywhere is read up to its last whole block.
"""

import struct
import zlib

from msgspec import Struct

MAGIC = b"GPUTOPL1"
TRAILER_MAGIC = b"GPUTOPX1"
BLOCK_MARK = b"GTBK"
INDEX_MARK = b"GTIX"
KEY = 1
HEAD = struct.Struct("<4sI")
"""Mark and checksum of what follows, data included."""
BLOCK = struct.Struct("<BIddII")
"""flags, frames, first time, last time, raw bytes, packed bytes."""
TRAILER = struct.Struct("<Q8s")
LENGTH = struct.Struct("<I")
MAX_RAW = 512 * 1024 * 1024
"""A block that claims to unpack to more is damaged or hostile."""
BLOCK_HEAD_SIZE = HEAD.size + BLOCK.size


class Header(Struct, frozen=True, kw_only=True):
    """The first thing in a log. New fields get defaults."""

    schema: int
    cluster: str
    started: float
    version: str


class Block(Struct, frozen=True, array_like=True):
    """One block, as the index lists it."""

    offset: int
    key: bool
    frames: int
    first: float
    last: float
    raw: int
    packed: int


def pack_block(flags: int, frames: int, first: float, last: float, raw: int, data: bytes) -> bytes:
    """A block ready to be written."""
    body = BLOCK.pack(flags, frames, first, last, raw, len(data)) + data
    return HEAD.pack(BLOCK_MARK, zlib.crc32(body)) + body


def parse_block(head: bytes, offset: int) -> tuple[Block, int] | None:
    """(block, checksum) from the bytes of a block's head; None when it is none."""
    if len(head) < BLOCK_HEAD_SIZE:
        return None
    mark, checksum = HEAD.unpack_from(head)
    if mark != BLOCK_MARK:
        return None
    flags, frames, first, last, raw, packed = BLOCK.unpack_from(head, HEAD.size)
    if raw > MAX_RAW or packed > MAX_RAW:
        return None
    return Block(offset, bool(flags & KEY), frames, first, last, raw, packed), checksum
