"""Runs programs without lists column by column: an instruction over many rows, then the next one.

Nearly all records are offset commits, whose fields stand one after the other, and nearly all of those are in order. For
them this is several times as fast as the machine, which takes a row through all instructions. It knows the machine's
rules but not its errors: as soon as any row is not plainly in order, it gives up, and the machine tells what is wrong.
"""

from typing import Any

import numpy as np

from coordinator_replay.compiled import compiled, inlined
from coordinator_replay.records.machine import (
    Bytes,
    Columns,
    Int32s,
    Int64s,
    _count,
    _integer,
    _is_utf8,
    _uvarint,
)
from coordinator_replay.records.program import Program

_TILE_ROWS = 2048
"""Rows taken at a time: few enough that what is held of them stays in the fastest cache."""


@inlined
def _flat_integers(data: Bytes, at: Int64s, ends: Int64s, size: Any, signed: Any, first: Int64s, second: Int32s) -> Any:
    """One INTEGER of all rows; whether all of them had its bytes."""
    short = False
    for row in range(len(at)):
        short |= at[row] + size > ends[row]
    if short:
        return False
    if size == 8:
        for row in range(len(at)):
            first[row] = _integer(data, at[row], 8, 1)
    elif size == 4:
        for row in range(len(at)):
            first[row] = _integer(data, at[row], 4, 1)
    else:
        for row in range(len(at)):
            first[row] = _integer(data, at[row], size, signed)
    for row in range(len(at)):
        second[row] = 0
        at[row] += size
    return True


@inlined
def _flat_bytes(
    data: Bytes, at: Int64s, ends: Int64s, form: Any, nullable: Any, is_text: Any, first: Int64s, second: Int32s
) -> Any:
    """One BYTES of all rows; whether all of them could be read."""
    for row in range(len(at)):
        length, pos, error = _count(data, at[row], ends[row], form)
        if error != 0 or length > ends[row] - pos:
            return False
        first[row] = pos
        if length < 0:
            if nullable == 0:
                return False
            second[row] = -1
            at[row] = pos
        else:
            if is_text and not _is_utf8(data, pos, pos + length):
                return False
            second[row] = length
            at[row] = pos + length
    return True


@inlined
def _flat_tags(  # noqa: C901 - one loop over the fields of a row, each check a line
    data: Bytes, at: Int64s, ends: Int64s, ops: Int32s, known: Int32s, first: Any, second: Any, is_ascii: Any
) -> Any:
    """The tagged fields of all rows; whether all of them are known and hold one number, id or run of bytes each."""
    for row in range(len(at)):
        pos, end = at[row], ends[row]
        for k in range(len(known)):
            # The position keeps the starts of a column in rising order.
            first[known[k, 2], row] = pos
            second[known[k, 2], row] = -2
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
            if op == 2 and size == 16:  # UUID
                first[column, row] = pos
                second[column, row] = 16
            elif op == 1 and size == ops[body, 2]:  # INTEGER
                first[column, row] = _integer(data, pos, size, ops[body, 3])
                second[column, row] = 0
            elif op == 3:  # BYTES
                length, pos, error = _count(data, pos, stop, ops[body, 2])
                if error != 0 or length < 0 or pos + length != stop:
                    return False
                if ops[body, 4] == 1 and not is_ascii and not _is_utf8(data, pos, stop):
                    return False
                first[column, row] = pos
                second[column, row] = length
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
    first: Any,
    second: Any,
    is_ascii: Any,
    tile: Any,
) -> Any:
    """Run a program without lists, an instruction over many rows after the other, which is several times as fast.

    Returns:
        False if any row can't be read, or not so easily: then nothing of the columns is to be used.
    """
    positions = np.empty(tile, np.int64)
    for begin in range(0, len(starts), tile):
        stop = min(begin + tile, len(starts))
        at, until = positions[: stop - begin], ends[begin:stop]
        at[:] = starts[begin:stop]
        pc = 0
        while ops[pc, 0] != 0:
            op, column = ops[pc, 0], ops[pc, 1]
            into, size_of = first[column, begin:stop], second[column, begin:stop]
            if op == 1:  # INTEGER
                if not _flat_integers(data, at, until, ops[pc, 2], ops[pc, 3], into, size_of):
                    return False
                pc += 1
            elif op == 3:  # BYTES
                is_text = ops[pc, 4] == 1 and not is_ascii
                if not _flat_bytes(data, at, until, ops[pc, 2], ops[pc, 3], is_text, into, size_of):
                    return False
                pc += 1
            elif op == 2:  # UUID
                for row in range(len(at)):
                    if at[row] + 16 > until[row]:
                        return False
                    into[row] = at[row]
                    size_of[row] = 16
                    at[row] += 16
                pc += 1
            else:  # TAGS
                into[:] = 0
                size_of[:] = 0
                known = tags[ops[pc, 2] : ops[pc, 2] + ops[pc, 3]]
                values, sizes = first[:, begin:stop], second[:, begin:stop]
                if not _flat_tags(data, at, until, ops, known, values, sizes, is_ascii):
                    return False
                pc = ops[pc, 4]
        for row in range(len(at)):
            if at[row] != until[row]:
                return False
    return True


def run_flat(program: Program, data: Bytes, starts: Int64s, ends: Int64s, *, is_ascii: bool = False) -> Columns | None:
    """What a program makes of rows that are all in order, as ``machine.run`` would say it.

    Returns:
        None if the program has lists, or if any row is damaged or has tagged fields that are unknown or have parts.
    """
    if not program.is_flat:
        return None
    rows = len(starts)
    first = np.empty((program.columns, rows), np.int64)
    second = np.empty((program.columns, rows), np.int32)
    if not _run_flat(data, starts, ends, program.ops, program.tags, first, second, is_ascii, _TILE_ROWS):
        return None
    return Columns(
        status=np.zeros(rows, np.int32),
        first=tuple(column[:0] if i in program.sparse else column for i, column in enumerate(first)),
        second=tuple(column[:0] if i in program.sparse else column for i, column in enumerate(second)),
    )
