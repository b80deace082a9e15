"""What the machine wrote, as Arrow arrays: numbers, strings, bytes and ids, without an interpreted loop over rows."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coordinator_replay.compiled import compiled, inlined, memory
from coordinator_replay.records.machine import Bytes, Columns, Int32s, Int64s

Flags = npt.NDArray[np.bool_]

NO_ROW = -(1 << 16)
TOO_SHORT = NO_ROW - 1
"""What stands among the openings of rows that have none."""

_FEW_NUMBERS = 32

ID_CHARACTERS = 22
"""Characters of an id as text, which has 16 bytes."""
ID_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)


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
        self.is_null: Flags = array.is_null().to_numpy(zero_copy_only=False)

    @property
    def sizes(self) -> Int64s:
        """Bytes in each row; 0 for a null."""
        sizes = self.ends - self.starts
        sizes[self.is_null] = 0
        return sizes

    @cached_property
    def openings(self) -> Int32s:
        """The first two bytes of each row as a big-endian number; ``NO_ROW`` for a null, ``TOO_SHORT`` without two."""
        numbers = memory(len(self.starts), np.int32)
        _openings(self.data, self.starts, self.ends, self.is_null, numbers)
        return numbers


@compiled
def _openings(data: Bytes, starts: Int64s, ends: Int64s, is_null: Flags, numbers: Int32s) -> None:
    for row in range(len(starts)):
        at = np.uint64(starts[row])
        if is_null[row]:
            numbers[row] = -65536  # NO_ROW
        elif ends[row] - starts[row] < 2:
            numbers[row] = -65537  # TOO_SHORT
        else:
            number = np.int64(data[at]) << 8 | np.int64(data[at + np.uint64(1)])
            numbers[row] = number - ((number >> 15) << 16)


def number_array(
    numbers: npt.NDArray[np.signedinteger[Any]], type_: pa.DataType, missing: Flags | None, none: int | None
) -> pa.Array:
    """Numbers as an Arrow array; null where missing or ``none``."""
    if none is not None and (unknown := numbers == none).any():
        missing = unknown if missing is None else missing | unknown
    return pa.array(numbers.astype(type_.to_pandas_dtype(), copy=False), type_, mask=missing)


def text_array(bounds: Int32s, text: Bytes, missing: Flags | None) -> pa.StringArray:
    """Strings that stand one after the other as an Arrow array; null where missing."""
    bitmap = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    used = text[: bounds[-1]]
    return pa.Array.from_buffers(pa.string(), len(bounds) - 1, [bitmap, pa.py_buffer(bounds), pa.py_buffer(used)])


@compiled
def _gather(data: Bytes, first: Int64s, second: Int32s, offsets: Int32s, out: Bytes) -> None:
    """Copy the bytes of every entry, one after the other."""
    for entry in range(len(first)):
        # Unsigned positions spare the question whether one counts from the end: ten times the speed.
        start, at = np.uint64(first[entry]), np.uint64(offsets[entry])
        for step in range(np.uint64(offsets[entry + 1]) - at):
            out[at + step] = data[start + step]


@inlined
def put_id(data: Bytes, start: Any, alphabet: Bytes, text: Bytes, at: Any) -> Any:
    """Writes 22 characters for 16 bytes, URL-safe base64 without padding; 0 if all of them are zero, else 1."""
    source, target = np.uint64(start), np.uint64(at)
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    seen = np.uint8(0)
    for _ in range(5):
        a, b, c = data[source], data[source + one], data[source + two]
        seen |= a | b | c
        text[target] = alphabet[a >> 2]
        text[target + one] = alphabet[(a & 3) << 4 | b >> 4]
        text[target + two] = alphabet[(b & 15) << 2 | c >> 6]
        text[target + three] = alphabet[c & 63]
        source += three
        target += four
    last = data[source]
    text[target] = alphabet[last >> 2]
    text[target + one] = alphabet[(last & 3) << 4]
    return 1 if seen | last else 0


@compiled
def _put_ids(data: Bytes, first: Int64s, second: Int32s, alphabet: Bytes, text: Bytes, bounds: Int32s) -> None:
    """Write the ids of every entry, one after the other; entries that are missing or zero are marked as missing."""
    for entry in range(len(first)):
        bounds[entry + 1] = bounds[entry]
        if second[entry] >= 0:
            if put_id(data, first[entry], alphabet, text, bounds[entry]):
                bounds[entry + 1] += 22
            else:
                second[entry] = -1


@dataclass(frozen=True, slots=True)
class MachineColumns:
    """What the machine wrote, and the bytes that it read."""

    columns: Columns
    data: Bytes

    def _missing(self, column: int) -> Flags | None:
        missing: Flags = self.columns.second[column] < 0
        return missing if missing.any() else None

    def strings(self, column: int) -> pa.StringArray:
        """A column of strings, copied out of the bytes that were read."""
        first, second = self.columns.first[column], self.columns.second[column]
        bounds = np.zeros(len(first) + 1, np.int32)
        np.cumsum(np.maximum(second, 0), out=bounds[1:])
        out = np.empty(bounds[-1], np.uint8)
        _gather(self.data, first, second, bounds, out)
        return text_array(bounds, out, self._missing(column))

    def ids(self, column: int) -> pa.StringArray:
        """A column of ids in Kafka's text form (``Uuid.toString``); null where missing or zero."""
        first, second = self.columns.first[column], self.columns.second[column].copy()
        bounds = np.zeros(len(first) + 1, np.int32)
        text = np.empty(ID_CHARACTERS * len(first), np.uint8)
        _put_ids(self.data, first, second, ID_ALPHABET, text, bounds)
        return text_array(bounds, text, second < 0)

    def integers(self, column: int, type_: pa.DataType, none: int | None = None) -> pa.Array:
        """A column of numbers; null where missing or ``none``."""
        return number_array(self.columns.first[column], type_, self._missing(column), none)


def split(numbers: npt.NDArray[np.signedinteger[Any]]) -> list[tuple[int, Int64s]]:
    """Each number that occurs, with the places where it does, rising; meant for a few numbers, as kinds or versions."""
    if len(numbers) and (numbers == numbers[0]).all():
        return [(int(numbers[0]), np.arange(len(numbers)))]
    found: list[tuple[int, Int64s]] = []
    places = np.arange(len(numbers))
    while len(numbers) and len(found) < _FEW_NUMBERS:
        is_same = numbers == numbers[0]
        found.append((int(numbers[0]), places[is_same]))
        numbers, places = numbers[~is_same], places[~is_same]
    if len(numbers):  # so many kinds are none: what comes here is about to be quarantined, in one sorting
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        bounds = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(numbers)]
        found += [(int(ordered[start]), places[order[start:end]]) for start, end in pairwise(bounds)]
    return found
