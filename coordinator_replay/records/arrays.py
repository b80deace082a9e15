"""What the machine wrote, as Arrow arrays: numbers, strings, bytes and ids, without an interpreted loop over rows."""

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coordinator_replay.compiled import compiled
from coordinator_replay.records.machine import Bytes, Columns, Int32s, Int64s

Int16s = npt.NDArray[np.int16]

_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)


class Spans:
    """The rows of an Arrow binary array as positions in its one run of bytes.

    Attributes:
        data: the bytes of all rows.
        starts: where each row starts.
        ends: where each row ends; of a null, where it starts.
        is_null: whether the row is null.
    """

    def __init__(self, array: pa.BinaryArray) -> None:
        _, offsets, data = array.buffers()
        if data is None:
            data = pa.py_buffer(b"")
        bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
        self.data: Bytes = np.frombuffer(data, np.uint8)
        self.starts: Int64s = bounds[:-1]
        self.ends: Int64s = bounds[1:]
        self.is_null: npt.NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)

    @property
    def sizes(self) -> Int64s:
        """Bytes in each row; 0 for a null."""
        return np.where(self.is_null, 0, self.ends - self.starts)

    @cached_property
    def is_ascii(self) -> bool:
        """Whether no byte of any row has its high bit set."""
        return not len(self.starts) or bool(self.data[self.starts[0] : self.ends[-1]].max(initial=0) < 0x80)

    @cached_property
    def leading_int16(self) -> Int16s:
        """The first two bytes of each row as a big-endian number; −1 where there are not two."""
        numbers = np.empty(len(self.starts), np.int16)
        _leading_int16(self.data, self.starts, self.ends, numbers)
        return numbers


@compiled
def _leading_int16(data: Bytes, starts: Int64s, ends: Int64s, numbers: Int16s) -> None:
    for row in range(len(starts)):
        at = np.uint64(starts[row])
        if ends[row] - starts[row] < 2:
            numbers[row] = -1
        else:
            numbers[row] = np.int16(data[at]) << 8 | np.int16(data[at + np.uint64(1)])


def _is_missing(second: Int32s) -> npt.NDArray[np.bool_] | None:
    missing = second < 0
    return missing if missing.any() else None


def integers(columns: Columns, column: int, type_: pa.DataType) -> pa.Array:
    """A column of numbers; null and absent entries are null."""
    values = columns.first[column].astype(type_.to_pandas_dtype())
    return pa.array(values, type_, mask=_is_missing(columns.second[column]))


@compiled
def _gather(data: Bytes, first: Int64s, second: Int32s, offsets: Int32s, out: Bytes) -> None:
    """Copy the bytes of every entry, one after the other."""
    for entry in range(len(first)):
        # Unsigned positions spare the question whether one counts from the end: ten times the speed.
        start, at = np.uint64(first[entry]), np.uint64(offsets[entry])
        for step in range(np.uint64(offsets[entry + 1]) - at):
            out[at + step] = data[start + step]


def slices(columns: Columns, column: int, data: Bytes, type_: pa.DataType) -> pa.Array:
    """A column of strings or bytes, copied out of the bytes that were read; null and absent entries are null."""
    first, second = columns.first[column], columns.second[column]
    n = len(first)
    missing = _is_missing(second)
    offsets = np.zeros(n + 1, np.int32)
    np.cumsum(second if missing is None else np.maximum(second, 0), out=offsets[1:])
    out = np.empty(offsets[n], np.uint8)
    _gather(data, first, second, offsets, out)
    bitmap = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(type_, n, [bitmap, pa.py_buffer(offsets), pa.py_buffer(out)])


@compiled
def _base64_ids(data: Bytes, starts: Int64s, alphabet: Bytes, text: Bytes) -> None:
    """Write 22 characters for the 16 bytes at each start."""
    for row in range(len(starts)):
        start, at = starts[row], 22 * row
        for group in range(5):
            a, b, c = data[start + 3 * group], data[start + 3 * group + 1], data[start + 3 * group + 2]
            text[at + 4 * group] = alphabet[a >> 2]
            text[at + 4 * group + 1] = alphabet[(a & 3) << 4 | b >> 4]
            text[at + 4 * group + 2] = alphabet[(b & 15) << 2 | c >> 6]
            text[at + 4 * group + 3] = alphabet[c & 63]
        last = data[start + 15]
        text[at + 20] = alphabet[last >> 2]
        text[at + 21] = alphabet[(last & 3) << 4]


def uuids(columns: Columns, column: int, data: Bytes) -> pa.StringArray:
    """A column of ids in Kafka's text form: URL-safe base64 without padding, 22 characters (``Uuid.toString``)."""
    missing = _is_missing(columns.second[column])
    starts = columns.first[column] if missing is None else columns.first[column][~missing]
    n = len(starts)
    text = np.empty(22 * n, np.uint8)
    _base64_ids(data, starts, _ALPHABET, text)
    offsets = np.arange(0, 22 * n + 1, 22, dtype=np.int32)
    array = pa.Array.from_buffers(pa.string(), n, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    if missing is None:
        return array
    return array.take(pa.array(np.cumsum(~missing) - 1, mask=missing))


def counts(columns: Columns, column: int) -> Int64s:
    """How many elements each entry of a LIST column has; 0 for null and absent ones."""
    return np.where(columns.second[column] < 0, 0, columns.first[column])


def split(numbers: npt.NDArray[np.signedinteger[Any]]) -> list[tuple[int, Int64s]]:
    """Each number that occurs, with the places where it does, rising; meant for a few numbers, as kinds or versions."""
    if not len(numbers):
        return []
    if (numbers == numbers[0]).all():
        return [(int(numbers[0]), np.arange(len(numbers)))]
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    bounds = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(numbers)]
    return [(int(ordered[start]), order[start:end]) for start, end in pairwise(bounds)]
