"""Files of brokers' logs. A run continues at the byte at which an earlier run stopped reading the file.

A file is identified by hashes of its first bytes and of the last bytes that were read. So a file that log rotation has
renamed is not read twice.
"""

import gzip
import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from coordinator_replay.broker_log.events import MARKS
from coordinator_replay.broker_log.layouts import MOST_CHARACTERS
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.io_metrics import IoMetrics, count

_HEAD_BYTES, _TAIL_BYTES = 1024, 256
_CHUNK_BYTES = 4 << 20
_LONGEST_BYTES = 4 * MOST_CHARACTERS
"""Longer lines are skipped. A character needs at most four bytes in UTF-8."""
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """A part of a file that a run has read, identified by a hash of its content.

    The part is an entry of column ``broker_logs`` of ``audit_runs``.

    Attributes:
        head: hash of the file's first ``head_bytes`` bytes.
        position: number of bytes that the run has read; the next run continues there.
        tail: hash of the last bytes before ``position``.
        offset_ms: the offset from UTC of the times in the last lines, in milliseconds; None if no run has inferred it.
    """

    head: str
    head_bytes: int
    position: int
    tail: str
    offset_ms: int | None = None


class BrokerLogFile:
    """The content of a log file, decompressed if necessary.

    The file is read from its beginning, or from the position at which an earlier run stopped, see ``resume``.

    Args:
        uri: the file.
    """

    def __init__(self, uri: str) -> None:
        self._filesystem, self._path = open_filesystem(uri)
        self._stream: Any = None
        self._head = b""
        self._tail = b""
        self._position = 0

    def __enter__(self) -> "BrokerLogFile":
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def _open(self) -> None:
        plain = self._filesystem.open_input_file(self._path)
        is_packed = plain.read(len(_GZIP)) == _GZIP
        plain.seek(0)
        self._stream = gzip.GzipFile(fileobj=io.BufferedReader(plain, _CHUNK_BYTES)) if is_packed else plain

    def resume(self, earlier: Mapping[str, ReadLog]) -> ReadLog | None:
        """Move the stream to the position at which an earlier run stopped reading this file.

        Args:
            earlier: the parts of files that earlier runs have read, by the hash of a file's first bytes.

        Returns:
            The part that the earlier run has read; None if the file is read from its beginning.
        """
        self._head = self._stream.read(_HEAD_BYTES)
        for length in sorted({log.head_bytes for log in earlier.values()}, reverse=True):
            earlier_log = earlier.get(_hash(self._head[:length])) if length <= len(self._head) else None
            if earlier_log is not None and self._is_there(earlier_log):
                self._head, self._position = self._head[:length], earlier_log.position
                return earlier_log
        self._stream.seek(0)
        self._tail = b""
        return None

    def _is_there(self, read_log: ReadLog) -> bool:
        """Return whether the file still begins with the bytes that an earlier run has read.

        If so, the stream is at the end of these bytes afterwards.

        Args:
            read_log: the hash and length of these bytes.
        """
        length = min(read_log.position, _TAIL_BYTES)
        self._stream.seek(read_log.position - length)
        self._tail = self._stream.read(length)
        return len(self._tail) == length and _hash(self._tail) == read_log.tail

    def read(self) -> ReadLog | None:
        """Return the part of the file that has been read; None if the file has no whole line."""
        if not self._position:
            return None
        head = self._head[: self._position]
        return ReadLog(head=_hash(head), head_bytes=len(head), position=self._position, tail=_hash(self._tail))

    def marked_lines(self) -> Iterator[bytes]:
        """Yield the lines that contain a text of ``MARKS``.

        Leave out a last line without a line end, and lines that are longer than any line of a coordinator.
        """
        pending, before, is_cut, total = b"", self._tail, False, self._position
        count(IoMetrics(files_read=1))
        while chunk := self._stream.read(_CHUNK_BYTES):
            count(IoMetrics(bytes_read=len(chunk)))
            total += len(chunk)
            block = pending + chunk
            end = block.rfind(b"\n") + 1
            if end:
                yield from _marked(block, block.find(b"\n") + 1 if is_cut else 0, end)
                before, pending, is_cut = (before + block[:end])[-_TAIL_BYTES:], block[end:], False
                self._tail, self._position = before, total - len(pending)
            else:
                pending = block
            if len(pending) > _LONGEST_BYTES:
                before, pending, is_cut = (before + pending)[-_TAIL_BYTES:], b"", True


def _marked(block: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield the lines of a block that contain a text of ``MARKS``."""
    marks: dict[int, int] = {}
    for mark in MARKS:
        at = block.find(mark, start, end)
        while at >= 0:
            stop = block.find(b"\n", at, end)
            marks[max(block.rfind(b"\n", start, at) + 1, start)] = stop
            at = block.find(mark, stop, end)
    for first, stop in sorted(marks.items()):
        if stop - first <= _LONGEST_BYTES:
            yield block[first:stop]


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
