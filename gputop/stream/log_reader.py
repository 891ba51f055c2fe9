"""Reading a session log: by its index, or block by block up to where it was cut."""

import mmap
import os
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import msgspec
import zstandard

from gputop.model.errors import LogError
from gputop.model.snapshot import Snapshot
from gputop.stream.frames import SCHEMA, Frame, apply, decode
from gputop.stream.log_format import (
    BLOCK_HEAD_SIZE,
    HEAD,
    INDEX_MARK,
    LENGTH,
    MAGIC,
    TRAILER,
    TRAILER_MAGIC,
    Block,
    Header,
    parse_block,
)

_INDEX = msgspec.msgpack.Decoder(list[Block])


class SessionReader:
    """One log, finished or not; what is damaged ends it and is said in `trouble`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise LogError(f"{path}: cannot be read: {error.strerror}") from error
        try:
            self.size = os.fstat(fd).st_size
            if self.size < len(MAGIC) + LENGTH.size:
                raise LogError(f"{path}: not a gputop session log: too short")
            self._map = mmap.mmap(fd, self.size, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
        self.header, self._begin = self._read_header()
        self.complete = True
        self.trouble = ""
        self.blocks = self._read_index() or self._scan()
        if not self.blocks or not self.blocks[0].key:
            raise LogError(f"{path}: holds no whole block{': ' + self.trouble if self.trouble else ''}")
        self.start = self.blocks[0].first
        self.end = self.blocks[-1].last

    def _read_header(self) -> tuple[Header, int]:
        if self._map[: len(MAGIC)] != MAGIC:
            raise LogError(f"{self.path}: not a gputop session log")
        (length,) = LENGTH.unpack_from(self._map, len(MAGIC))
        begin = len(MAGIC) + LENGTH.size
        if length > 65536 or begin + length > self.size:
            raise LogError(f"{self.path}: its header is damaged or cut")
        try:
            header = msgspec.msgpack.decode(self._map[begin : begin + length], type=Header)
        except msgspec.MsgspecError as error:
            raise LogError(f"{self.path}: its header is damaged: {error}") from error
        if header.schema > SCHEMA:
            raise LogError(f"{self.path}: written by a newer gputop ({header.version}); this one reads schema {SCHEMA}")
        return header, begin + length

    def _read_index(self) -> list[Block]:
        """The index at the end; empty when there is none that fits the file."""
        if self.size < self._begin + TRAILER.size:
            return []
        offset, magic = TRAILER.unpack_from(self._map, self.size - TRAILER.size)
        if magic != TRAILER_MAGIC or not self._begin <= offset < self.size - TRAILER.size:
            return []
        if self._map[offset : offset + 4] != INDEX_MARK:
            return []
        begin = offset + 4 + LENGTH.size
        (length,) = LENGTH.unpack_from(self._map, offset + 4)
        if begin + length != self.size - TRAILER.size:
            return []
        try:
            blocks = _INDEX.decode(self._map[begin : begin + length])
        except msgspec.MsgspecError:
            return []
        at = self._begin
        for block in blocks:
            found = parse_block(self._map[at : at + BLOCK_HEAD_SIZE], at)
            if found is None or found[0] != block:
                return []
            at += BLOCK_HEAD_SIZE + block.packed
        return blocks if at == offset else []

    def _scan(self) -> list[Block]:
        """Whole blocks from the front; the first that is not ends it."""
        self.complete = False
        blocks: list[Block] = []
        at = self._begin
        while at < self.size:
            found = parse_block(self._map[at : at + BLOCK_HEAD_SIZE], at)
            if found is None or at + BLOCK_HEAD_SIZE + found[0].packed > self.size:
                if self._map[at : at + 4] != INDEX_MARK:
                    self.trouble = f"cut or damaged at byte {at} of {self.size}; readable up to there"
                break
            blocks.append(found[0])
            at += BLOCK_HEAD_SIZE + found[0].packed
        return blocks

    def _unpack(self, block: Block) -> bytes:
        begin = block.offset + BLOCK_HEAD_SIZE
        found = parse_block(self._map[block.offset : begin], block.offset)
        data = self._map[begin : begin + block.packed]
        if found is None or zlib.crc32(self._map[block.offset + HEAD.size : begin] + data) != found[1]:
            raise LogError(f"{self.path}: the block at byte {block.offset} is damaged")
        try:
            raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=block.raw)
        except zstandard.ZstdError as error:
            raise LogError(f"{self.path}: the block at byte {block.offset} is damaged: {error}") from error
        if len(raw) != block.raw:
            raise LogError(f"{self.path}: the block at byte {block.offset} is damaged")
        return raw

    def frames(self, since: float | None = None) -> Iterator[Frame]:
        """Frames from the last keyframe at or before since; a damaged block ends them, and `trouble` says where."""
        for number in range(self._key_before(self.start if since is None else since), len(self.blocks)):
            try:
                raw = self._unpack(self.blocks[number])
            except LogError as error:
                self.trouble = str(error)
                return
            at = 0
            while at + LENGTH.size <= len(raw):
                (length,) = LENGTH.unpack_from(raw, at)
                at += LENGTH.size
                yield decode(memoryview(raw)[at : at + length])
                at += length

    def _key_before(self, at: float) -> int:
        """Number of the last block that begins with a keyframe and not after at."""
        keys = [number for number, block in enumerate(self.blocks) if block.key]
        found = bisect_right([self.blocks[number].first for number in keys], at)
        return keys[max(0, found - 1)]

    def snapshot_at(self, at: float) -> Snapshot:
        """What was known at that time."""
        snap: Snapshot | None = None
        for frame in self.frames(at):
            if snap is not None and frame.time > at:
                break
            snap = apply(snap, frame)
        if snap is None:
            raise LogError(f"{self.path}: {self.trouble or 'holds no frame'}")
        return snap

    def close(self) -> None:
        self._map.close()
