"""Frames out of a stream that may begin with a login shell's noise; pure."""

from gputop.model.errors import SourceError

MAX_FRAME = 32 * 1024 * 1024
_MAX_HEADER = 100


class FrameReader:
    """Bytes in, payloads out. A frame is \\x01 NONCE LENGTH newline PAYLOAD newline; all else is skipped."""

    def __init__(self, nonce: str, limit: int = MAX_FRAME) -> None:
        self._mark = b"\x01" + nonce.encode() + b" "
        self._limit = limit
        self._buffer = bytearray()
        self.noise = bytearray()
        """The first bytes that were no frame, for a message when no frame ever comes."""

    def feed(self, data: bytes) -> list[bytes]:
        """Payloads that are complete now; raises SourceError on a length nobody of ours would send."""
        buffer = self._buffer
        buffer += data
        found: list[bytes] = []
        at = 0
        while True:
            mark = buffer.find(self._mark, at)
            if mark < 0:
                begun = buffer.rfind(b"\x01", max(at, len(buffer) - len(self._mark) + 1))
                keep = len(buffer) if begun < 0 else begun
                self._skip(buffer[at:keep])
                at = keep
                break
            self._skip(buffer[at:mark])
            at = mark
            begin = mark + len(self._mark)
            end = buffer.find(b"\n", begin, begin + _MAX_HEADER)
            if end < 0:
                if len(buffer) - begin >= _MAX_HEADER:
                    raise SourceError("probe", "a frame without a length")
                break
            digits = bytes(buffer[begin:end])
            if not digits.isdigit() or int(digits) > self._limit:
                raise SourceError("probe", f"a frame of length {digits[:20]!r}")
            after = end + 1 + int(digits)
            if len(buffer) < after + 1:
                break
            found.append(bytes(buffer[end + 1 : after]))
            at = after + 1
        del buffer[:at]
        return found

    def _skip(self, data: bytes | bytearray) -> None:
        if len(self.noise) < 500:
            self.noise += data[: 500 - len(self.noise)]
