"""Proofs about the groups of a bucket: the log offset from which the state of each group is proven."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from duckdb import DuckDBPyConnection

from coordinator_replay.columns import numbers_of, some
from coordinator_replay.completeness.groups import Break, GroupProofs, Part
from coordinator_replay.completeness.ranges import CompleteRange
from coordinator_replay.engine.model import Record
from coordinator_replay.pipeline.groups.input_rows import AS_INPUT, input_rows
from coordinator_replay.pipeline.log_partitions import PartitionStep
from coordinator_replay.store.scan import BATCH_ROWS
from coordinator_replay.times import latest_ms

_KEYS = "SELECT group_id, log_offset, log_timestamp, kind, key_json FROM records WHERE log_partition = $partition"

_APPEARANCES = """
SELECT group_id, max(appears) AS last_appears, arg_max(appears_ms, appears) AS last_appears_ms
FROM (
    SELECT group_id, min(log_offset) AS appears, arg_min(epoch_ms(log_timestamp), log_offset) AS appears_ms
    FROM own_keys GROUP BY group_id, kind, key_json
) AS keys
WHERE appears >= $complete_from AND appears < $exact_from
GROUP BY group_id
"""


def last_proofs(step: PartitionStep) -> GroupProofs:
    """Return the log offsets from which groups are proven, for a bucket that continues from its tables.

    Also return the new gaps, which lie after the log offsets that earlier runs have read.
    """
    ranges = _open_ranges(step)
    times = {
        (partition, len(of_partition) - 1): (None, step.complete_ms(partition))
        for partition, of_partition in ranges.items()
    }
    return GroupProofs(
        ranges, times, new={partition: gaps for partition in ranges if (gaps := _new_gaps(step, partition))}
    )


def _open_ranges(step: PartitionStep) -> dict[int, Sequence[CompleteRange]]:
    """Return the ranges of log offsets without a missing record, for each log partition that lacks some records."""
    return {partition: step.completeness.ranges[partition] for partition in step.completeness.open_partitions()}


def _new_gaps(step: PartitionStep, partition: int) -> list[Break]:
    return [
        Break(gap.begins_at, step.times()[partition, gap.begins_at].before_ms, True, None, None, number)
        for number, gap in step.new_gaps(partition)
    ]


def group_proofs(step: PartitionStep, records: DuckDBPyConnection) -> GroupProofs:
    """Return, for each group of a bucket, the log offsets from which the group is proven.

    Args:
        step: the log partitions of the bucket.
        records: a DuckDB connection. Its table ``records`` has all group records of the bucket.
    """
    wanted = _open_ranges(step)
    if not wanted:
        return GroupProofs()
    around = step.times()
    times = {
        (partition, number): (
            around[partition, span.begins_at].before_ms,
            latest_ms(around[partition, span.from_offset].at_ms, around[partition, span.from_offset].before_ms),
        )
        for partition, ranges in wanted.items()
        for number, span in enumerate(ranges)
    }
    appearances: dict[Part, tuple[int, int | None]] = {}
    for partition, ranges in wanted.items():
        keys = records.sql(_KEYS, params={"partition": partition}).to_arrow_table()
        for number, span in enumerate(ranges):
            if span.exact_from_offset is not None:
                appearances |= _appearances(records, keys, partition, number, span)
    proofs = GroupProofs(wanted, times, appearances)
    return replace(proofs, confirmed=_confirmed(proofs, records))


def _confirmed(proofs: GroupProofs, records: DuckDBPyConnection) -> dict[Part, list[Record]]:
    """Return, for each complete range, the group records that are the last of their keys below the range.

    A complete range is a range of log offsets in which no record is missing. Only records that the cleaner has kept
    are returned.

    Returns:
        The records, by group, log partition and number of the complete range.
    """
    by_part: dict[Part, list[Record]] = {}
    broken = {partition for partition, ranges in proofs.ranges.items() if any(not span.is_gap for span in ranges[1:])}
    for partition in broken:
        own = f"{AS_INPUT} WHERE log_partition = $partition ORDER BY log_offset"
        for batch in records.sql(own, params={"partition": partition}).to_arrow_reader(BATCH_ROWS):
            for number, is_confirmed in proofs.confirmed_in(partition, numbers_of(batch.column("log_offset"))):
                for row in input_rows(some(batch, is_confirmed)):
                    by_part.setdefault((row.group_id, partition, number), []).append(row.record())
    return by_part


def _appearances(
    records: DuckDBPyConnection, keys: pa.Table, partition: int, number: int, span: CompleteRange
) -> dict[Part, tuple[int, int | None]]:
    offsets = numbers_of(keys.column("log_offset").combine_chunks())
    records.register("own_keys", keys.filter(pa.array((offsets >= span.from_offset) | span.own_copy.has(offsets))))
    bounds = {"complete_from": span.from_offset, "exact_from": span.exact_from_offset}
    rows = records.execute(_APPEARANCES, bounds).fetchall()
    return {(group_id, partition, number): (first, at) for group_id, first, at in rows}
