"""The lowest or highest value of a column in files of rows, for each group or log partition."""

from collections.abc import Iterable
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.columns import ms_of
from coordinator_replay.store.scan import read_paths


def extremes(
    uris: Iterable[str], column: str, which: Literal["min", "max"], where: pc.Expression, *, by: str = "group_id"
) -> dict[Any, int]:
    """Return the lowest or highest value of a column in the rows of each group.

    Times are in milliseconds.

    Args:
        uris: the files to read.
        column: the column. It must not be null in rows that meet ``where``.
        which: whether to return the lowest or the highest value.
        where: a condition. Rows that do not meet it are left out.
        by: the column to group by.
    """
    choose = {"min": min, "max": max}[which]
    values: dict[Any, int] = {}
    for batch in read_paths(uris, [by, column], where):
        of_batch = pa.Table.from_batches([batch]).group_by(by).aggregate([(column, which)])
        of_groups = of_batch[f"{column}_{which}"]
        numbers = ms_of(of_groups).tolist() if pa.types.is_timestamp(of_groups.type) else of_groups.to_pylist()
        for group, number in zip(of_batch[by].to_pylist(), numbers, strict=True):
            values[group] = choose(number, values.get(group, number))
    return values
