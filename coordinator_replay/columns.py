"""Conversion of Arrow columns to numpy arrays, for code that handles many rows at once."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.arrow_times import TIMESTAMP
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.times import milliseconds

Numbers = npt.NDArray[np.int64]

Bools = npt.NDArray[np.bool_]

NONE = int(np.iinfo(np.int64).min)
"""The number that stands for a missing value."""


def numbers_of(column: pa.Array, nothing: int = 0) -> Numbers:
    """Return a column of integers or timestamps as numbers.

    Args:
        column: the column. A timestamp becomes a number in the column's own unit.
        nothing: the number for null.
    """
    plain = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column.cast(pa.int64())
    numbers: Numbers = plain.fill_null(nothing).to_numpy(zero_copy_only=False)
    return numbers


def ms_of(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """Return times as milliseconds since 1970.

    Null becomes -1.
    """
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    numbers: Numbers = np.floor_divide(numbers_of(whole.cast(TIMESTAMP), -1000), 1000)
    return numbers


def distinct(numbers: Numbers) -> Numbers:
    """Return the distinct numbers in ascending order.

    The function sorts the numbers, which is cheap if most of them are in ascending order already.

    >>> distinct(np.array([3, 4, 1, 4]))
    array([1, 3, 4])
    """
    rising = np.sort(numbers, kind="stable")
    is_first = np.ones(len(rising), np.bool_)
    is_first[1:] = rising[1:] != rising[:-1]
    firsts: Numbers = rising[is_first]
    return firsts


def as_bools(column: pa.Array) -> Bools:
    """Return a column of booleans as a numpy array.

    Null becomes false.
    """
    bools: Bools = column.fill_null(False).to_numpy(zero_copy_only=False)
    return bools


def codes_of(column: pa.DictionaryArray) -> Numbers:
    """Return the index of each row's value in the dictionary of a column.

    For null, the index is the length of the dictionary.
    """
    return numbers_of(column.indices, len(column.dictionary))


def are_among(column: pa.Array, values: pa.Array) -> Bools:
    """Return for each row whether its value is among the given values.

    Args:
        column: texts, or a dictionary of texts.
        values: the values to look for.
    """
    if not pa.types.is_dictionary(column.type):
        return as_bools(pc.is_in(column, value_set=values))
    is_in: Bools = np.append(as_bools(pc.is_in(column.dictionary, value_set=values)), False)[codes_of(column)]
    return is_in


def packed(keys: Sequence[Numbers | Bools]) -> Numbers:
    """Return a number for each row, to sort the rows by several columns.

    Rows that are sorted by this number are sorted by the first column, then by the second, and so on.

    >>> packed([np.array([7, 8, 8]), np.array([-1, -3, -2])])
    array([2, 3, 4])
    """
    code, size = np.zeros(len(keys[0]), np.int64), 1
    for key in keys if len(code) else ():
        low, width = int(key.min()), int(key.max()) - int(key.min()) + 1
        if size * width > LARGEST_INT64:
            code, key = (np.unique(values, return_inverse=True)[1] for values in (code, key))
            low, size, width = 0, len(code), len(code)
        code, size = code * width + (key - low), size * width
    return code


def plain_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as dicts of Python values, with times in milliseconds since 1970."""
    for row in batch.to_pylist():
        yield {name: milliseconds(value) if isinstance(value, datetime) else value for name, value in row.items()}


def some(batch: pa.RecordBatch, taken: Bools) -> pa.RecordBatch:
    """Return the rows of a batch that a mask selects.

    All rows, or no rows, are returned without a copy.
    """
    if taken.all():
        return batch
    return batch.filter(pa.array(taken)) if taken.any() else batch.slice(0, 0)
