"""What the machine wrote, as Arrow arrays: numbers, strings, bytes and ids, without an interpreted loop over rows."""

import string
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coordinator_replay.compiled import compiled, inlined, spliced
from coordinator_replay.memory import memory
from coordinator_replay.records.machine import Bytes, Columns, Int32s, Int64s
from coordinator_replay.words import number_at, put_word

Flags = npt.NDArray[np.bool_]

NO_ROW = -(1 << 16)
TOO_SHORT = NO_ROW - 1
"""What stands among the openings of rows that have none."""

_FEW_NUMBERS = 32

ID_CHARACTERS = 22
"""Characters of an id as text, which has 16 bytes."""


def base64_pairs(last_two: bytes) -> npt.NDArray[np.uint16]:
    """What twelve bits are in base64: two characters, the first of them in the lower byte."""
    alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits
    characters = np.frombuffer(alphabet.encode() + last_two, np.uint8).astype(np.uint16)
    pairs: npt.NDArray[np.uint16] = np.add.outer(characters, characters << 8).reshape(-1)
    return pairs


ID_PAIRS = base64_pairs(b"-_")


class Spans:
    """The rows of an Arrow binary array as positions in its one run of bytes.

    Attributes:
        data: the bytes of all rows.
    """

    def __init__(self, array: pa.BinaryArray) -> None:
        _, offsets, data = array.buffers()
        self.data: Bytes = _only_to_read(np.frombuffer(b"" if data is None else data, np.uint8))
        bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
        self._bounds: Int32s = _only_to_read(bounds)
        self._is_null = nulls_of(array)

    def of(self, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Where the fields of some rows start, behind the two bytes of their opening, and where they end."""
        starts, ends = memory((2, len(rows)), np.int64)
        _find_fields(self._bounds, rows, starts, ends)
        return starts, ends

    @property
    def sizes(self) -> Int32s:
        """Bytes in each row; 0 for a null."""
        sizes: Int32s = np.diff(self._bounds)
        sizes[self._is_null] = 0
        return sizes

    @cached_property
    def openings(self) -> Int32s:
        """The first two bytes of each row as a big-endian number; ``NO_ROW`` for a null, ``TOO_SHORT`` without two."""
        numbers = memory(len(self._is_null), np.int32)
        _read_openings(self.data, self._bounds, self._is_null, numbers)
        return numbers


def nulls_of(array: pa.Array) -> Flags:
    """Which rows of a column are null; mostly none are or all."""
    if array.null_count in (0, len(array)):
        return np.full(len(array), bool(array.null_count))
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    is_there = np.unpackbits(bits, count=array.offset + len(array), bitorder="little")[array.offset :]
    flags: Flags = is_there == 0
    return flags


def _only_to_read(array: Any) -> Any:
    """The same array, which cannot be written to; functions are compiled once for such and once for others."""
    array.setflags(write=False)
    return array


@compiled
def _find_fields(bounds: Int32s, rows: Int64s, starts: Int64s, ends: Int64s) -> None:
    for place in range(len(rows)):
        row = np.uint64(rows[place])
        starts[place] = bounds[row] + 2
        ends[place] = bounds[row + np.uint64(1)]


@compiled
def _read_openings(data: Bytes, bounds: Int32s, is_null: Flags, numbers: Int32s) -> None:
    for row in range(len(is_null)):
        at = np.uint64(bounds[row])
        if is_null[row]:
            numbers[row] = -65536  # NO_ROW
        elif bounds[row + 1] - bounds[row] < 2:
            numbers[row] = -65537  # TOO_SHORT
        else:
            number = np.int64(data[at]) << 8 | np.int64(data[at + np.uint64(1)])
            numbers[row] = number - ((number >> 15) << 16)


@inlined
def _sort_numbers(numbers: Bytes, left_out: Flags, ends: Int64s, rows: Int64s) -> None:
    """Sorts rows by their numbers; ``ends`` says how many have each, and then where they end."""
    begin = np.int64(0)
    for each in range(len(ends)):
        size = ends[each]
        ends[each] = begin
        begin += size
    number, at = np.int64(-1), np.uint64(0)
    for row in range(len(numbers)):
        if not left_out[row]:
            if numbers[row] != number:
                if number >= 0:
                    ends[number] = at
                number = np.int64(numbers[row])
                at = np.uint64(ends[number])
            rows[at] = row
            at += np.uint64(1)
    if number >= 0:
        ends[number] = at


@compiled
def _sort_pairs(
    firsts: Int32s, seconds: Int32s, left_out: Flags, pairs: Int32s, ends: Int64s, numbers: Bytes, rows: Int64s
) -> Any:
    """Sorts rows by their pair of numbers, in the order in which the pairs first occur.

    Args:
        firsts: of each row the first number.
        seconds: of each row the second.
        left_out: rows that are not wanted.
        pairs: to be filled with the pairs that occur.
        ends: zeros, to be filled: where the rows of each pair end.
        numbers: of each row, which pair it has; to work with.
        rows: to be filled.

    Returns:
        How many pairs there are; -1 for more than there is room for.
    """
    # Most rows have the pair of the one before: as long as that lasts, nothing is counted in memory.
    found, pair, count = 0, 0, 0
    first = second = np.int64(1 << 40)
    for row in range(len(firsts)):
        if left_out[row]:
            continue
        if firsts[row] != first or seconds[row] != second:
            ends[pair] += count
            first, second = np.int64(firsts[row]), np.int64(seconds[row])
            pair, count = 0, 0
            while pair < found and (first != pairs[pair, 0] or second != pairs[pair, 1]):
                pair += 1
            if pair == found:
                if found == len(ends):
                    return -1
                pairs[pair, 0], pairs[pair, 1] = first, second
                found += 1
        numbers[row] = pair
        count += 1
    ends[pair] += count
    _sort_numbers(numbers, left_out, ends[:found], rows)
    return found


def split_pairs(firsts: Int32s, seconds: Int32s, left_out: Flags) -> list[tuple[int, int, Int64s]]:
    """Each pair of numbers that occurs, with the rows where it does, rising; but for those that are left out.

    The numbers are meant to be openings.
    """
    pairs, ends = np.empty((_FEW_NUMBERS, 2), np.int32), np.zeros(_FEW_NUMBERS, np.int64)
    rows = memory(len(firsts), np.int64)
    found = _sort_pairs(firsts, seconds, left_out, pairs, ends, memory(len(firsts), np.uint8), rows)
    if found >= 0:
        bounds = pairwise([0, *ends[:found].tolist()])
        return [(*pair, rows[start:end]) for pair, (start, end) in zip(pairs[:found].tolist(), bounds, strict=True)]
    wanted = np.flatnonzero(~left_out)
    apart = 1 << 20  # more than openings differ
    both = split(firsts[wanted].astype(np.int64) * apart + (seconds[wanted] - TOO_SHORT))
    return [(number // apart, number % apart + TOO_SHORT, wanted[places]) for number, places in both]


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


@spliced
def _characters(bits: Any, pairs: Any) -> Any:
    """The lower 48 bits of a number in base64: eight characters as a little-endian number."""
    twelve, last = np.uint64(12), np.uint64(4095)
    characters = np.uint64(0)
    for step in range(np.uint64(4)):
        pair = np.uint64(pairs[bits >> twelve * (np.uint64(3) - step) & last])
        characters |= pair << np.uint64(16) * step
    return characters


@inlined
def put_id(data: Bytes, start: Any, pairs: Any, text: Bytes, at: Any) -> Any:
    """Writes 22 characters for 16 bytes, URL-safe base64 without padding; 0 if all of them are zero, else 1."""
    source, target = np.uint64(start), np.uint64(at)
    high, low = number_at(data, source), number_at(data, source + np.uint64(8))
    put_word(text, target, _characters(high >> np.uint64(16), pairs))
    put_word(text, target + np.uint64(8), _characters(high << np.uint64(32) | low >> np.uint64(32), pairs))
    # The last word begins with two characters of the one before, so that it ends where the id does.
    put_word(text, target + np.uint64(14), _characters(low << np.uint64(4), pairs))
    return 1 if high | low else 0


@compiled
def _put_ids(data: Bytes, first: Int64s, second: Int32s, pairs: Any, text: Bytes, bounds: Int32s) -> None:
    """Write the ids of every entry, one after the other; entries that are missing or zero are marked as missing."""
    for entry in range(len(first)):
        bounds[entry + 1] = bounds[entry]
        if second[entry] >= 0:
            if put_id(data, first[entry], pairs, text, bounds[entry]):
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
        _put_ids(self.data, first, second, ID_PAIRS, text, bounds)
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
