"""Runs programs without lists column by column: an instruction over many rows, straight into what Arrow needs.

Nearly all records are offset commits, whose fields stand one after the other, and nearly all of those are in order. For
them this is several times as fast as the machine, which takes a row through all instructions. It knows the machine's
rules but not its errors: as soon as any row is not plainly in order, it gives up, and the machine tells what is wrong.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coordinator_replay.compiled import compiled, inlined
from coordinator_replay.memory import memory
from coordinator_replay.records.arrays import ID_CHARACTERS, ID_PAIRS, Flags, number_array, put_id, text_array
from coordinator_replay.records.machine import Bytes, Int32s, Int64s, _count, _integer, _is_utf8, _uvarint
from coordinator_replay.records.program import Program
from coordinator_replay.words import copy_bytes

_TILE_ROWS = 2048
"""Rows taken at a time: few enough that what is held of them stays in the fastest cache."""


@inlined
def _flat_integers(data: Bytes, at: Int64s, ends: Int64s, size: Any, signed: Any, wide: Int64s, narrow: Int32s) -> Any:
    """One INTEGER of all rows; whether all of them had its bytes."""
    short = False
    for row in range(len(at)):
        short |= at[row] + size > ends[row]
    if short:
        return False
    if size == 8:
        for row in range(len(at)):
            wide[row] = _integer(data, at[row], 8, 1)
    elif size == 4:
        for row in range(len(at)):
            narrow[row] = _integer(data, at[row], 4, 1)
    else:
        for row in range(len(at)):
            narrow[row] = _integer(data, at[row], size, signed)
    for row in range(len(at)):
        at[row] += size
    return True


@inlined
def _copy_text(data: Bytes, starts: Int64s, must_be_text: Any, out: Bytes, bounds: Int32s) -> Any:
    """Copies the bytes of all rows, one after the other; whether they are what they must be.

    Apart from their reading, which halves the speed of both; and looked at after that, when they lie side by side.
    """
    for row in range(len(starts)):
        at = np.uint64(bounds[row])
        copy_bytes(data, np.uint64(starts[row]), out, at, np.uint64(bounds[row + 1]) - at)
    if not must_be_text:
        return True
    high = np.uint8(0)
    first = np.uint64(bounds[0])
    for step in range(np.uint64(bounds[len(starts)]) - first):
        high |= out[first + step]
    if high < 0x80:
        return True
    is_text = True
    for row in range(len(starts)):
        is_text &= _is_utf8(out, bounds[row], bounds[row + 1])
    return is_text


@inlined
def _copy_ids(data: Bytes, starts: Int64s, pairs: Any, out: Bytes, out_ends: Int32s, present: Bytes) -> None:
    """Writes the ids of all rows that have one; where it is zero, there is none."""
    for row in range(len(starts)):
        if out_ends[row + 1] > out_ends[row]:
            present[row] = put_id(data, starts[row], pairs, out, out_ends[row])


@inlined
def _flat_bytes(
    data: Bytes,
    at: Int64s,
    ends: Int64s,
    form: Any,
    nullable: Any,
    starts: Int64s,
    out_ends: Int32s,
    present: Bytes,
) -> Any:
    """Where the bytes of one BYTES of all rows begin, and will end when they are copied; whether all could be read."""
    written = np.int64(out_ends[0])
    for row in range(len(at)):
        length, pos, error = _count(data, at[row], ends[row], form)
        if error != 0 or length > ends[row] - pos:
            return False
        if length < 0:
            if nullable == 0:
                return False
            present[row] = 0
            length = np.int64(0)
        starts[row] = pos
        written += length
        out_ends[row + 1] = written
        at[row] = pos + length
    return True


@inlined
def _enter_only_tag(data: Bytes, at: Int64s, ends: Int64s, tag: Any, body: Int32s) -> Any:
    """Steps into the tagged field of all rows; whether all have just this one, a number or an id.

    So written is nearly every offset commit, and the field is then read like any other.
    """
    if tag > 127 or not (body[0] == 1 or body[0] == 2):  # INTEGER, UUID
        return False
    size = np.int64(16) if body[0] == 2 else np.int64(body[2])
    count, second, third = np.uint8(1), np.uint64(1), np.uint64(2)
    for row in range(len(at)):
        here = np.uint64(at[row])
        if at[row] + 3 + size > ends[row]:
            return False
        if data[here] != count or data[here + second] != tag or data[here + third] != size:
            return False
    for row in range(len(at)):
        at[row] += 3
    return True


@inlined
def _flat_tags(  # noqa: C901 - one loop over the fields of a row, each check a line
    data: Bytes,
    at: Int64s,
    ends: Int64s,
    ops: Int32s,
    known: Int32s,
    wide: Any,
    narrow: Any,
    present: Any,
    starts: Any,
    begin: Any,
) -> Any:
    """The tagged fields of all rows, but for the copying of bytes and ids.

    Returns:
        Whether all of them are known and hold one number, id or run of bytes each.
    """
    for row in range(len(at)):
        pos, end = at[row], ends[row]
        here = begin + row
        for k in range(len(known)):
            column = known[k, 2]
            present[column, here] = 0
            if ops[known[k, 1], 0] != 1:  # INTEGER
                narrow[column, here + 1] = narrow[column, here]
        if pos >= end or data[pos] > len(known):
            return False
        count = data[pos]
        pos += 1
        previous = np.int64(-1)
        for _ in range(count):
            tag, pos, error = _uvarint(data, pos, end)
            if error != 0:
                return False
            size, pos, error = _uvarint(data, pos, end)
            found = -1
            for k in range(len(known)):
                if known[k, 0] == tag:
                    found = k
            if error != 0 or size > end - pos or found < 0 or tag <= previous:
                return False
            previous = tag
            body, column, stop = known[found, 1], known[found, 2], pos + size
            op = ops[body, 0]
            if ops[body + 1, 0] != 8:  # TAG_END
                return False
            present[column, here] = 1
            if op == 2 and size == 16:  # UUID
                starts[column, row] = pos
                narrow[column, here + 1] += 22
            elif op == 1 and size == ops[body, 2]:  # INTEGER
                number = _integer(data, pos, size, ops[body, 3])
                if size == 8:
                    wide[column, here] = number
                else:
                    narrow[column, here] = number
            elif op == 3:  # BYTES
                length, pos, error = _count(data, pos, stop, ops[body, 2])
                if error != 0 or length < 0 or pos + length != stop:
                    return False
                starts[column, row] = pos
                narrow[column, here + 1] += length
            else:
                return False
            pos = stop
        at[row] = pos
    return True


@compiled
def _run_flat(  # noqa: C901 - one loop over the instructions, each a case
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    ops: Int32s,
    tags: Int32s,
    slots: Int32s,
    wide: Any,
    narrow: Any,
    text: Any,
    present: Any,
    pairs: Any,
    positions: Int64s,
    sources: Any,
) -> Any:
    """Run a program without lists, an instruction over many rows after the other, which is several times as fast.

    Returns:
        False if any row can't be read, or not so easily: then nothing of the columns is to be used.
    """
    tile = len(positions)
    for begin in range(0, len(starts), tile):
        stop = min(begin + tile, len(starts))
        at, until = positions[: stop - begin], ends[begin:stop]
        for row in range(len(at)):
            at[row] = starts[begin + row]
        pc = 0
        while ops[pc, 0] != 0:
            op, column = ops[pc, 0], ops[pc, 1]
            numbers, bounds = narrow[column, begin:stop], narrow[column, begin : stop + 1]
            source, is_there = sources[column, : stop - begin], present[column, begin:stop]
            if op == 1:  # INTEGER
                if not _flat_integers(data, at, until, ops[pc, 2], ops[pc, 3], wide[column, begin:stop], numbers):
                    return False
                pc += 1
            elif op == 3:  # BYTES
                if not _flat_bytes(data, at, until, ops[pc, 2], ops[pc, 3], source, bounds, is_there):
                    return False
                if not _copy_text(data, source, ops[pc, 4] == 1, text[slots[column]], bounds):
                    return False
                pc += 1
            elif op == 2:  # UUID
                for row in range(len(at)):
                    if at[row] + 16 > until[row]:
                        return False
                    source[row] = at[row]
                    bounds[row + 1] = bounds[row] + 22
                    at[row] += 16
                _copy_ids(data, source, pairs, text[slots[column]], bounds, is_there)
                pc += 1
            elif op == 8:  # TAG_END, of the only one
                pc = ops[ops[pc, 2] - 1, 4]
            else:  # TAGS
                known = tags[ops[pc, 2] : ops[pc, 2] + ops[pc, 3]]
                if len(known) == 1 and _enter_only_tag(data, at, until, known[0, 0], ops[known[0, 1]]):
                    pc = known[0, 1]
                    continue
                here = np.int64(begin)
                if not _flat_tags(data, at, until, ops, known, wide, narrow, present, sources, here):
                    return False
                for k in range(len(known)):
                    target = known[k, 2]
                    source, bounds = sources[target, : stop - begin], narrow[target, begin : stop + 1]
                    if ops[known[k, 1], 0] == 2:
                        is_there = present[target, begin:stop]
                        _copy_ids(data, source, pairs, text[slots[target]], bounds, is_there)
                    elif ops[known[k, 1], 0] == 3 and not (
                        _copy_text(data, source, ops[known[k, 1], 4] == 1, text[slots[target]], bounds)
                    ):
                        return False
                pc = ops[pc, 4]
        for row in range(len(at)):
            if at[row] != until[row]:
                return False
    return True


@dataclass(frozen=True, slots=True)
class FlatColumns:
    """The columns of a flat program, each a row of some of these matrices.

    Attributes:
        wide: numbers of eight bytes.
        narrow: smaller numbers; of bytes and ids, where each ends in its row of ``text``, behind a first 0.
        text: bytes and the text of ids, one run for each column that has such.
        slots: of each column, its row of ``text``, or -1.
        present: 0 where there is no value.
    """

    wide: npt.NDArray[np.int64]
    narrow: npt.NDArray[np.int32]
    text: npt.NDArray[np.uint8]
    slots: Int32s
    present: npt.NDArray[np.uint8]

    def _missing(self, column: int) -> Flags | None:
        present = self.present[column]
        return None if present.all() else present == 0

    def strings(self, column: int) -> pa.StringArray:
        """A column of strings."""
        bounds = self.narrow[column, : self.present.shape[1] + 1]
        return text_array(bounds, self.text[self.slots[column]], self._missing(column))

    def ids(self, column: int) -> pa.StringArray:
        """A column of ids in Kafka's text form; null where missing or zero."""
        return self.strings(column)

    def integers(self, column: int, type_: pa.DataType, none: int | None = None) -> pa.Array:
        """A column of numbers; null where missing or ``none``."""
        numbers = self.wide if type_.bit_width == 64 else self.narrow
        return number_array(numbers[column, : self.present.shape[1]], type_, self._missing(column), none)


def run_flat(program: Program, data: Bytes, starts: Int64s, ends: Int64s) -> FlatColumns | None:
    """What a program makes of rows that are all in order, as arrays of what ``machine.run`` found would say it.

    Returns:
        None if the program has lists, or if any row is damaged or has tagged fields that are unknown or have parts.
    """
    if not program.is_flat:
        return None
    rows = len(starts)
    wide = memory((program.columns, rows + 1), np.int64)
    # A column has either wide or narrow numbers, so that both can lie in the same place.
    narrow = wide.view(np.int32)
    narrow[:, 0] = 0
    slots = program.text_slots
    # An id takes more room as text than the bytes that it stands in.
    room = int(ends.sum() - starts.sum()) + rows * (ID_CHARACTERS - 16)
    text = memory((int(slots.max(initial=-1)) + 1, room), np.uint8)
    present = memory((program.columns, rows), np.uint8)
    present[:] = 1
    tables = (program.ops, program.tags, slots)
    tile = (np.empty(_TILE_ROWS, np.int64), np.empty((program.columns, _TILE_ROWS), np.int64))
    if not _run_flat(data, starts, ends, *tables, wide, narrow, text, present, ID_PAIRS, *tile):
        return None
    return FlatColumns(wide, narrow, text, slots, present)
