"""Columns of numbers as numpy has them, and sums of them by key, for tasks that handle many rows at once."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.times import milliseconds

Numbers = npt.NDArray[np.int64]

Bools = npt.NDArray[np.bool_]

NONE = int(np.iinfo(np.int64).min)
"""Stands for a value that is not there."""

_NO_END = int(np.iinfo(np.int64).max)


def numbers_of(column: pa.Array, nothing: int = 0) -> Numbers:
    """A column of numbers or moments, with a number for null."""
    plain = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column.cast(pa.int64())
    numbers: Numbers = plain.fill_null(nothing).to_numpy(zero_copy_only=False)
    return numbers


def distinct(numbers: Numbers) -> Numbers:
    """Numbers in order, each once: by sorting, which costs little where they mostly rise already.

    >>> distinct(np.array([3, 4, 1, 4]))
    array([1, 3, 4])
    """
    rising = np.sort(numbers, kind="stable")
    is_first = np.ones(len(rising), np.bool_)
    is_first[1:] = rising[1:] != rising[:-1]
    firsts: Numbers = rising[is_first]
    return firsts


def as_bools(column: pa.Array) -> Bools:
    """Answers as numpy has them; null is no."""
    bools: Bools = column.fill_null(False).to_numpy(zero_copy_only=False)
    return bools


def codes_of(column: pa.DictionaryArray) -> Numbers:
    """Places in the dictionary; the one behind its end for null."""
    return numbers_of(column.indices, len(column.dictionary))


def are_among(column: pa.Array, values: pa.Array) -> Bools:
    """Which rows of a column, as texts or as a dictionary, have one of some values."""
    if not pa.types.is_dictionary(column.type):
        return as_bools(pc.is_in(column, value_set=values))
    is_in: Bools = np.append(as_bools(pc.is_in(column.dictionary, value_set=values)), False)[codes_of(column)]
    return is_in


def array_of(numbers: Numbers, type_: pa.DataType) -> pa.Array:
    """Numbers as a column, null for NONE."""
    is_nothing = numbers == NONE
    return pa.array(numbers, pa.int64(), mask=is_nothing if is_nothing.any() else None).cast(type_)


def packed(keys: Sequence[Numbers]) -> list[Numbers]:
    """Several numbers as one that sorts as they do, the first before all others; themselves where they are too large.

    >>> packed([np.array([7, 8, 8]), np.array([-1, -3, -2])])
    [array([2, 3, 4])]
    """
    code, size = np.zeros(len(keys[0]), np.int64), 1
    for key in keys if len(code) else ():
        low, width = int(key.min()), int(key.max()) - int(key.min()) + 1
        size *= width
        if size > _NO_END:
            return list(keys)
        code = code * width + (key - low)
    return [code]


class Sums:
    """Rows brought together by key, and sums of their values for each key.

    Args:
        keys: numbers that name the key of a row; at least one row.
        within: what rows of a key are sorted by; None to leave them as they come.
    """

    def __init__(self, keys: Sequence[Numbers], within: Numbers | None = None) -> None:
        order = np.arange(len(keys[0])) if within is None else np.argsort(within, kind="stable")
        codes = packed(keys)
        for code in reversed(codes):
            order = order[np.argsort(code[order], kind="stable")]
        changes = np.zeros(len(order), np.bool_)
        changes[0] = True
        for code in codes:
            in_order = code[order]
            changes[1:] |= in_order[1:] != in_order[:-1]
        self.order = order
        self.starts = np.flatnonzero(changes)
        self.lasts = np.append(self.starts[1:], len(order)) - 1

    def first(self, column: pa.Array) -> pa.Array:
        """What each key begins with."""
        return column.take(pa.array(self.order[self.starts]))

    def last(self, numbers: Numbers) -> Numbers:
        """What each key ends with."""
        last: Numbers = numbers[self.order[self.lasts]]
        return last

    def counts(self) -> Numbers:
        """How many rows each key has."""
        return self.lasts - self.starts + 1

    def sums(self, numbers: Numbers) -> Numbers:
        """Sums by key."""
        return np.add.reduceat(numbers[self.order], self.starts)

    def most(self, numbers: Numbers) -> Numbers:
        """Largest values by key; NONE is below all."""
        return np.maximum.reduceat(numbers[self.order], self.starts)

    def least(self, numbers: Numbers) -> Numbers:
        """Least values by key, NONE where there is no other."""
        numbers = np.where(numbers == NONE, _NO_END, numbers)[self.order]
        least = np.minimum.reduceat(numbers, self.starts)
        result: Numbers = np.where(least == _NO_END, NONE, least)
        return result


def batch_of_columns(columns: Sequence[pa.Array | Numbers], schema: pa.Schema) -> pa.RecordBatch:
    """Columns, and numbers with NONE for null, in the types of a schema."""
    arrays = [
        array_of(column, field.type) if isinstance(column, np.ndarray) else column.cast(field.type)
        for field, column in zip(schema, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def plain_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows of plain values, times in milliseconds since 1970."""
    for row in batch.to_pylist():
        yield {name: milliseconds(one) if isinstance(one, datetime) else one for name, one in row.items()}
