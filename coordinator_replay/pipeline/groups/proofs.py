"""What the history of a log partition proves of each of its groups: where it breaks, and from where on it is complete.

A group is complete at an offset if no key of it is open there. Behind the last offset that is missing, a key is open as
long as its first record is still to come: the cleaner may have removed an earlier one for it. So a group is proven from
the later of two offsets on: the one behind the last that is missing, and the one behind the first record of the last
key of it that appears in the part that the cleaner may have been at work in.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa
from duckdb import DuckDBPyConnection

from coordinator_replay.columns import Bools, Numbers, numbers_of
from coordinator_replay.completeness.history import HistoryRange
from coordinator_replay.engine.model import Record
from coordinator_replay.pipeline.groups.input_rows import AS_INPUT, input_rows
from coordinator_replay.pipeline.log_partitions import PartitionStep
from coordinator_replay.store.scan import BATCH_ROWS
from coordinator_replay.store.writer import some
from coordinator_replay.times import latest_ms

Part = tuple[str, int, int]
"""A group, its log partition, and the number of a range of its history."""

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


class Break(NamedTuple):
    """Where the history of a group begins, or breaks.

    Attributes:
        offset: the first offset that is missing; 0 where the history begins.
        at_ms: the time up to which no record is missing; None where no record has it.
        is_gap: what is missing was in no copy: it may have been anything.
        proven_from: from where on the group is proven; None where nothing but its records proves it.
        proven_ms: the time of that.
        number: of the range that begins here.
    """

    offset: int
    at_ms: int | None
    is_gap: bool
    proven_from: int | None
    proven_ms: int | None
    number: int


@dataclass(frozen=True, slots=True)
class GroupProofs:
    """What is proven of the groups of log partitions of which records are missing.

    Attributes:
        ranges: the history of each such log partition.
        times: for each of its ranges, the times of its beginning, and from when on nothing is missing.
        appearances: for a group, log partition and range, where the last key appears that may have been there before.
        new: the gaps behind what earlier runs have read, by log partition; groups pass them as they go on.
        confirmed: for a group, log partition and range that begins where records are missing, the records below that
            its own copy has.
    """

    ranges: Mapping[int, Sequence[HistoryRange]] = field(default_factory=dict)
    times: Mapping[tuple[int, int], tuple[int | None, int | None]] = field(default_factory=dict)
    appearances: Mapping[Part, tuple[int, int | None]] = field(default_factory=dict)
    new: Mapping[int, Sequence[Break]] = field(default_factory=dict)
    confirmed: Mapping[Part, Sequence[Record]] = field(default_factory=dict)

    def breaks(self, group_id: str, log_partition: int) -> list[Break]:
        """Return where the history of a group begins and breaks, oldest first; nothing where no record is missing."""
        breaks = []
        for number, span in enumerate(self.ranges.get(log_partition, ())):
            begins_ms, complete_ms = self.times[log_partition, number]
            proven_from, proven_ms = span.complete_from, complete_ms
            last = self.appearances.get((group_id, log_partition, number))
            if last is not None:
                proven_from, proven_ms = last[0] + 1, latest_ms(last[1], complete_ms)
            is_provable = span.exact_from is not None
            breaks.append(
                Break(span.begins_at, begins_ms, span.is_gap, proven_from if is_provable else None, proven_ms, number)
            )
        return breaks

    def after(self, log_partition: int, first_offset: int) -> list[Break]:
        """Return what a group begins with that appears behind what earlier runs have read, and the gaps behind that.

        Args:
            log_partition: the log partition.
            first_offset: of the group's first record.
        """
        ranges = self.ranges.get(log_partition, ())
        if not ranges:
            return []
        behind = [gap for gap in self.new.get(log_partition, ()) if gap.offset > first_offset]
        number = len(ranges) - 1 - len(behind)
        proven_from = None if ranges[number].exact_from is None else ranges[number].complete_from
        _, proven_ms = self.times.get((log_partition, number), (None, None))
        return [Break(0, None, ranges[number].is_gap, proven_from, proven_ms, number), *behind]

    def confirmed_in(self, log_partition: int, offsets: Numbers) -> Iterator[tuple[int, Bools]]:
        """Yield the ranges that begin where records are missing, and which records they go on from.

        Args:
            log_partition: the log partition.
            offsets: of records in it.

        Yields:
            number of the range, and which of the records stand below its beginning and in its own copy.
        """
        for number, span in enumerate(self.ranges.get(log_partition, ())):
            if number and not span.is_gap:
                yield number, (offsets < span.begins_at) & span.copy.has(offsets)


def last_proofs(step: PartitionStep) -> GroupProofs:
    """Return what is proven of groups that appear behind everything that earlier runs have read."""
    ranges = _open_ranges(step)
    times = {
        (partition, len(of_partition) - 1): (None, step.complete_ms(partition))
        for partition, of_partition in ranges.items()
    }
    return GroupProofs(
        ranges, times, new={partition: gaps for partition in ranges if (gaps := _new_gaps(step, partition))}
    )


def _open_ranges(step: PartitionStep) -> dict[int, Sequence[HistoryRange]]:
    """Return the history of log partitions of which records are missing."""
    return {partition: step.completeness.ranges[partition] for partition in step.completeness.open_partitions()}


def _new_gaps(step: PartitionStep, partition: int) -> list[Break]:
    return [
        Break(gap.begins_at, step.times()[partition, gap.begins_at].before_ms, True, None, None, number)
        for number, gap in step.new_gaps(partition)
    ]


def group_proofs(step: PartitionStep, records: DuckDBPyConnection) -> GroupProofs:
    """Return what the history of a bucket's log partitions proves of its groups.

    Args:
        step: the log partitions.
        records: DuckDB with all ``records`` of the bucket's groups.
    """
    wanted = _open_ranges(step)
    if not wanted:
        return GroupProofs()
    around = step.times()
    times = {
        (partition, number): (
            around[partition, span.begins_at].before_ms,
            latest_ms(around[partition, span.complete_from].at_ms, around[partition, span.complete_from].before_ms),
        )
        for partition, ranges in wanted.items()
        for number, span in enumerate(ranges)
    }
    appearances: dict[Part, tuple[int, int | None]] = {}
    for partition, ranges in wanted.items():
        keys = records.sql(_KEYS, params={"partition": partition}).to_arrow_table()
        for number, span in enumerate(ranges):
            if span.exact_from is not None:
                appearances |= _appearances(records, keys, partition, number, span)
    proofs = GroupProofs(wanted, times, appearances)
    return replace(proofs, confirmed=_confirmed(proofs, records))


def _confirmed(proofs: GroupProofs, records: DuckDBPyConnection) -> dict[Part, list[Record]]:
    """Return the records from which ranges continue behind a gap: the last of each key, as the cleaner leaves it."""
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
    records: DuckDBPyConnection, keys: pa.Table, partition: int, number: int, history_range: HistoryRange
) -> dict[Part, tuple[int, int | None]]:
    offsets = numbers_of(keys.column("log_offset").combine_chunks())
    records.register(
        "own_keys", keys.filter(pa.array((offsets >= history_range.complete_from) | history_range.copy.has(offsets)))
    )
    bounds = {"complete_from": history_range.complete_from, "exact_from": history_range.exact_from}
    rows = records.execute(_APPEARANCES, bounds).fetchall()
    return {(group_id, partition, number): (first, at) for group_id, first, at in rows}
