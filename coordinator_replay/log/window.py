"""A window over a segment file, so that only a part of the file is in memory.

A file may be gzip'ed as a whole, because people pack dumps before they send them. Positions are then in the plain file.
"""

import zlib
from typing import Protocol

import numpy as np

DEFAULT_WINDOW_BYTES = 8 << 20
DEFAULT_MAX_BATCH_BYTES = 128 << 20
GZIP_MAGIC = b"\x1f\x8b"
_PACKED_READ_BYTES = 1 << 18


class Readable(Protocol):
    """The interface of a file to read. Files of Python, of pyarrow and of fsspec have this interface."""

    def readinto(self, memory: memoryview, /) -> int | None:
        """Fill memory from its beginning.

        Return the number of bytes read, which is 0 at the end of the file.
        """


class _Gunzipped:
    """The plain form of a gzip'ed file. If the stream is broken, the file ends there, and ``failure`` says why."""

    def __init__(self, file: Readable, first_bytes: bytes) -> None:
        self._file = file
        self._packed = first_bytes
        self._member = zlib.decompressobj(wbits=31)
        self._is_inside = True
        self.is_cut = False
        self.failure: str | None = None

    def readinto(self, memory: memoryview, /) -> int:
        while self.failure is None and not self.is_cut:
            if not self._packed:
                self._packed = self._read_packed()
            if not self._packed:
                self.is_cut = self._is_inside
                return 0
            if not self._is_inside and not self._begin_member():
                continue
            plain = self._decompress(len(memory))
            if plain:
                memory[: len(plain)] = plain
                return len(plain)
        return 0

    def _read_packed(self) -> bytes:
        packed = bytearray(_PACKED_READ_BYTES)
        return bytes(packed[: self._file.readinto(memoryview(packed)) or 0])

    def _begin_member(self) -> bool:
        """Begin the next member of the gzip'ed file. Return False if only padding zeros follow."""
        self._packed = self._packed.lstrip(b"\0")
        self._is_inside = bool(self._packed)
        self._member = zlib.decompressobj(wbits=31)
        return self._is_inside

    def _decompress(self, size: int) -> bytes:
        before = self._member.copy()
        try:
            plain = self._member.decompress(self._packed, size)
        except zlib.error as error:
            self.failure = str(error)
            return _up_to_failure(before, self._packed, size)
        self._is_inside = not self._member.eof
        self._packed = self._member.unconsumed_tail if self._is_inside else self._member.unused_data
        return plain


def _up_to_failure(member: "zlib._Decompress", packed: bytes, size: int) -> bytes:
    """Decompress a damaged stream byte by byte, and return what comes before the damage, at most ``size`` bytes.

    A call of ``decompress`` with all bytes raises an error and returns nothing.
    """
    plain = bytearray()
    try:
        for at in range(len(packed)):
            if len(plain) == size:
                break
            plain += member.decompress(packed[at : at + 1], size - len(plain))
    except zlib.error:
        pass
    return bytes(plain)


class FileWindow:
    """The part of a file that is in memory, valid until the window moves.

    Args:
        file: the file; it is read from its current position.
        size: number of bytes in memory, unless an entry is larger.

    Attributes:
        position: the position of the window's first byte in the file.
        at_end: whether the window has the last byte of the file.
    """

    def __init__(self, file: Readable, size: int) -> None:
        self._file = file
        self._gunzipped: _Gunzipped | None = None
        self._size = size
        self._memory = np.empty(max(size, len(GZIP_MAGIC)), np.uint8)
        self._end = 0
        self.position = 0
        self.at_end = False
        self._fill(len(GZIP_MAGIC))
        if self.view == GZIP_MAGIC:
            self._file = self._gunzipped = _Gunzipped(self._file, GZIP_MAGIC)
            self._end = 0
            self.at_end = False
        self.advance(0, 0)

    @property
    def data(self) -> np.ndarray:
        """Return the bytes as an array of uint8."""
        return self._memory[: self._end]

    @property
    def view(self) -> memoryview:
        """Return the bytes as a memoryview."""
        return self._memory.data[: self._end]

    @property
    def is_cut(self) -> bool:
        """Return whether the gzip stream lacks its end."""
        return self._gunzipped is not None and self._gunzipped.is_cut

    @property
    def failure(self) -> str | None:
        """Return why the rest of the gzip stream can't be read; None if it can."""
        return None if self._gunzipped is None else self._gunzipped.failure

    def advance(self, consumed: int, needed: int) -> None:
        """Drop the first ``consumed`` bytes, then read until the window is full or the file ends.

        The window grows if ``needed`` is more bytes than it holds.
        """
        left = self._end - consumed
        size = max(self._size, needed, left)
        moved = self._memory if size == len(self._memory) else np.empty(size, np.uint8)
        moved[:left] = self._memory[consumed : self._end]
        self._memory, self._end = moved, left
        self.position += consumed
        self._fill(size)

    def _fill(self, size: int) -> None:
        place = self._memory.data
        while self._end < size and not self.at_end:
            count = self._file.readinto(place[self._end : size])
            self.at_end = not count
            self._end += count or 0
