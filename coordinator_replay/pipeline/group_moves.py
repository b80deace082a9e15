"""Groups whose records moved to another log partition.

A broker puts a group into log partition ``Utils.abs(groupId.hashCode()) % partitions``. Each broker reads the partition
count when it starts (``GroupCoordinatorService.startup``). If somebody raises the count, a restarted broker puts groups
into other log partitions. The records in the old log partitions stay but no longer count (KAFKA-14418). Until all
brokers have restarted, both log partitions may get records of a group.

If one folder has log partitions of two clusters, this looks like a move, too.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.findings.evidence_rows import MovedGroups, NamedMove
from coordinator_replay.columns import Bools, Numbers, numbers_of, plain_rows
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.java_strings import positive_hash
from coordinator_replay.listing import counted, listed
from coordinator_replay.store.duckdb_connection import select
from coordinator_replay.store.scan import read_paths
from coordinator_replay.store.writer import conform
from coordinator_replay.tables.definition import table

TABLE = "group_moves"

SEQ_OF_MOVE = 1 << 32
"""After each move, a group's events are numbered from the next multiple of this number. So they sort by move first."""

_PLACES = ("group_id", "log_partition", "log_offset")
_MOST_NAMED = 50
_PLACE_ROWS = table("offset_commits").arrow_schema(_PLACES).remove_metadata()
_COUNTED = pa.schema([("group_id", pa.string()), ("log_partition", pa.int32())])
_READ = ("group_id", "log_partition", "log_offset", "log_timestamp", "is_tombstone", "kind", "member_id", "value_json")
_RECORDS = table("group_records").arrow_schema(_READ).remove_metadata()
_SEEN = pa.schema([*(_RECORDS.field(name) for name in _READ[:4]), ("is_by_client", pa.bool_())])
_NO_MEMBERS = r'"members":\s*\[\s*\]'
_MOVES = """
WITH places AS (
    SELECT group_id, log_partition, log_offset, epoch_ms(log_timestamp) AS at_ms, is_by_client FROM seen GROUP BY ALL
), partitions AS (
    SELECT group_id, log_partition, row_number() OVER (
        PARTITION BY group_id
        ORDER BY bool_or(counted.group_id IS NOT NULL), max(at_ms) FILTER (is_by_client) NULLS FIRST,
            max(at_ms) NULLS FIRST, log_partition
    ) AS number
    FROM places LEFT JOIN counted USING (group_id, log_partition) GROUP BY group_id, log_partition
), pairs AS (
    SELECT former.group_id, former.number, former.log_partition, latter.log_partition AS to_log_partition
    FROM partitions AS former JOIN partitions AS latter
        ON former.group_id = latter.group_id AND former.number + 1 = latter.number
), begins AS (
    SELECT pairs.*, min(log_offset) AS begin_offset, coalesce(min(at_ms) FILTER (is_by_client), min(at_ms)) AS at_ms
    FROM pairs JOIN places ON places.group_id = pairs.group_id AND places.log_partition = to_log_partition
    GROUP BY ALL
), ends AS (
    SELECT begins.*, min(log_offset) FILTER (places.at_ms >= begins.at_ms) AS first_behind, min(log_offset) AS lowest
    FROM begins JOIN places USING (group_id, log_partition) GROUP BY ALL
), cuts AS (
    SELECT ends.*, coalesce(max(log_offset) + 1, min(lowest)) AS end_offset
    FROM ends LEFT JOIN places ON places.group_id = ends.group_id AND places.log_partition = ends.log_partition
        AND (first_behind IS NULL OR log_offset < first_behind)
    GROUP BY ALL
), overlapping AS (
    SELECT cuts.*, max(places.at_ms) AS overlaps_until
    FROM cuts LEFT JOIN places ON places.group_id = cuts.group_id AND places.log_partition = cuts.log_partition
        AND log_offset >= end_offset AND is_by_client
    GROUP BY ALL
)
SELECT overlapping.group_id, number, overlapping.log_partition, end_offset, to_log_partition, begin_offset,
    overlapping.at_ms AS moved_at, overlaps_until,
    min(log_offset) AS exact_from_offset, arg_min(places.at_ms, log_offset) AS exact_from_timestamp
FROM overlapping LEFT JOIN places ON places.group_id = overlapping.group_id AND places.log_partition = to_log_partition
    AND (overlaps_until IS NULL OR places.at_ms > overlaps_until)
GROUP BY ALL ORDER BY group_id, number
"""


class GroupMove(NamedTuple):
    """A move of a group, in the columns of table ``group_moves``.

    Times are in milliseconds.

    Attributes:
        number: number of the move among the group's moves, from 1 on.
        log_partition: the log partition that the group left.
        end_offset: records of the group in the old log partition at or after this log offset don't count.
        to_log_partition: the log partition to which the group moved.
        begin_offset: log offset of the group's first record in the new log partition.
        moved_at: time of the record at ``begin_offset``; None if no record of the group in the new log partition has a
            time.
        overlaps_until: the time until which brokers wrote to both log partitions; None if they never did.
        exact_from_offset: log offset of the group's first record in the new log partition after ``overlaps_until``;
            None if there is no such record. Equal to ``begin_offset`` if ``overlaps_until`` is None.
        exact_from_timestamp: time of the record at ``exact_from_offset``.
    """

    group_id: str
    number: int
    log_partition: int
    end_offset: int
    to_log_partition: int
    begin_offset: int
    moved_at: int | None
    overlaps_until: int | None
    exact_from_offset: int | None
    exact_from_timestamp: int | None


@dataclass(frozen=True, slots=True)
class GroupMoves:
    """The moves of some groups.

    Attributes:
        moves: the moves, by group and then by number.
        ends: the move by which a group left a log partition, by group and log partition.
        begins: the move by which a group came into a log partition, by group and log partition.
    """

    moves: Sequence[GroupMove] = ()
    ends: Mapping[tuple[str, int], GroupMove] = field(init=False)
    begins: Mapping[tuple[str, int], GroupMove] = field(init=False)

    def __post_init__(self) -> None:
        """Fill the attributes ``ends`` and ``begins`` from ``moves``."""
        object.__setattr__(self, "ends", {(move.group_id, move.log_partition): move for move in self.moves})
        object.__setattr__(self, "begins", {(move.group_id, move.to_log_partition): move for move in self.moves})

    def are_over(self, rows: pa.RecordBatch, *columns: str) -> Bools:
        """Return, for each row, whether the row no longer counts, because its group had moved to another log partition.

        Args:
            rows: rows with group_id and log_partition.
            columns: names of columns with log offsets. A row no longer counts if one of its log offsets is at or after
                the log offset at which the group left the log partition.
        """
        ends = self.ends_of(rows)
        is_over = np.zeros(rows.num_rows, np.bool_)
        for name in columns:
            is_over |= numbers_of(rows.column(name), -1) >= ends
        return is_over

    def counting(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """Yield batches of records, without records that came into a log partition after their group had left it."""
        for batch in batches:
            yield batch.filter(pa.array(~self.are_over(batch, "log_offset"))) if self.ends else batch

    def ends_of(self, rows: pa.RecordBatch) -> Numbers:
        """Return the log offset at which each row's group left the row's log partition.

        The log offset is LARGEST_INT64 if the group did not leave.
        """
        return _by_key(rows, {key: end.end_offset for key, end in self.ends.items()}, LARGEST_INT64)

    def are_open(self, rows: pa.RecordBatch, column: str) -> Bools:
        """Return, for each row, whether it begins while its group still moves into the log partition of the row.

        A move lasts until no broker uses the old partition count of ``__consumer_offsets`` any more.

        Args:
            rows: rows with group_id and log_partition.
            column: name of the column with the log offset at which a row begins.
        """
        until = {
            key: LARGEST_INT64 if begin.exact_from_offset is None else begin.exact_from_offset
            for key, begin in self.begins.items()
            if begin.overlaps_until is not None
        }
        is_open: Bools = numbers_of(rows.column(column), -1) < _by_key(rows, until, -1)
        return is_open


NO_MOVES = GroupMoves()


def _by_key(rows: pa.RecordBatch, numbers: Mapping[tuple[str, int], int], otherwise: int) -> Numbers:
    """Return, for each row, the number in ``numbers`` for the row's group and log partition, or else ``otherwise``."""
    result = np.full(rows.num_rows, otherwise, np.int64)
    if not numbers or not rows.num_rows:
        return result
    names = pa.array(sorted({group for group, _ in numbers}), pa.string())
    groups = rows.column("group_id").cast(pa.string())
    keys = _packed(groups, rows.column("log_partition"), names)
    known_groups, known_partitions = zip(*numbers, strict=True)
    known = _packed(pa.array(known_groups), pa.array(known_partitions), names)
    order = np.argsort(known)
    values = np.fromiter(numbers.values(), np.int64, len(numbers))[order]
    places = np.minimum(np.searchsorted(known[order], keys), len(known) - 1)
    is_known = known[order][places] == keys
    result[is_known] = values[places[is_known]]
    return result


def _packed(groups: pa.Array, partitions: pa.Array, names: pa.Array) -> Numbers:
    """Return the group and the log partition of each row, packed into one number.

    The number is negative for a group that is not among ``names``.
    """
    return (numbers_of(pc.index_in(groups, names), -1) << 32) + numbers_of(partitions, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesShare:
    """Inputs of the search for groups that moved to another log partition.

    Attributes:
        staged: files with the commits and group records of this run.
        records: files of ``offset_commits`` and ``group_records``.
        groups: files of ``group_state`` and ``offset_history`` with all groups of earlier runs.
        known: the moves that earlier runs found.
        partition_count: partition count of ``__consumer_offsets``; None if no cluster metadata shows it.
        is_all: whether to search for the moves of all groups. If not, the moves in ``known`` stay as they are.
    """

    staged: Sequence[str]
    records: Sequence[str]
    groups: Sequence[str]
    known: Sequence[GroupMove] = ()
    partition_count: int | None = None
    is_all: bool = False


@dataclass(frozen=True, slots=True)
class FoundMoves:
    """Moves of groups to other log partitions, and the divisors of the log partitions.

    Attributes:
        moves: the moves, by group and then by number.
        divisors: greatest common divisor of ``hash(group) - log_partition`` over the groups of each log partition; 0
            if the log partition has no groups. See ``hash_divisor``.
    """

    moves: Sequence[GroupMove]
    divisors: Mapping[int, int]


def hash_divisor(groups: Iterable[str], log_partition: int) -> int:
    """Return the greatest common divisor of ``hash(group) - log_partition`` over the groups of a log partition.

    Kafka puts a group into log partition ``hash(group) % count``, where ``count`` is the partition count of
    ``__consumer_offsets``. So ``count`` must divide the returned number. Return 0 if there are no groups.
    """
    return math.gcd(*(positive_hash(group) - log_partition for group in groups))


def may_have_moved(divisors: Mapping[int, int]) -> bool:
    """Return whether some group may have moved to another log partition.

    No group has moved if one partition count of ``__consumer_offsets`` explains the log partitions of all groups. This
    count must divide all ``divisors``, and must be greater than the number of each log partition.

    Args:
        divisors: the result of ``hash_divisor``, by log partition.
    """
    common = math.gcd(*divisors.values())
    return 0 < common <= max(divisors, default=0)


def find_moves(share: MovesShare) -> FoundMoves:
    """Find the groups that have records in several log partitions, and when they moved to another log partition."""
    first_new = _first_offsets(share.staged)
    partitions: dict[str, set[int]] = defaultdict(set)
    for group, partition in (*first_new, *_first_offsets(share.groups), *_places(share.known)):
        partitions[group].add(partition)
    by_partition: dict[int, list[str]] = defaultdict(list)
    for group, of_group in partitions.items():
        for partition in of_group:
            by_partition[partition].append(group)
    divisors = {partition: hash_divisor(groups, partition) for partition, groups in by_partition.items()}
    several = {group for group, of_group in partitions.items() if len(of_group) > 1}
    again = sorted(several if share.is_all else several & _touched(share.known, first_new, several))
    kept = [move for move in share.known if move.group_id in several and move.group_id not in again]
    return FoundMoves(sorted([*kept, *_moves(share, again)]), divisors)


def _places(moves: Iterable[GroupMove]) -> Iterator[tuple[str, int]]:
    for move in moves:
        yield from ((move.group_id, move.log_partition), (move.group_id, move.to_log_partition))


def _first_offsets(uris: Iterable[str]) -> dict[tuple[str, int], int]:
    """Return the lowest log offset at which each group has a row, by group and log partition.

    The files may be of any table that has groups and log offsets. A row without a log offset counts as log offset -1.
    """
    first: dict[tuple[str, int], int] = {}
    for batch in read_paths(uris, _PLACES, dictionaries=_PLACES[:1]):
        rows = conform(batch, _PLACE_ROWS)
        lowest = pa.table(rows).group_by(list(_PLACES[:2]), use_threads=False).aggregate([(_PLACES[2], "min")])
        columns = (lowest.column(name).to_pylist() for name in (*_PLACES[:2], "log_offset_min"))
        for group, partition, offset in zip(*columns, strict=True):
            if group is not None and partition is not None:
                key, at = (group, partition), -1 if offset is None else offset
                first[key] = min(at, first.get(key, at))
    return first


def _touched(
    known: Sequence[GroupMove], first_new: Mapping[tuple[str, int], int], several: Collection[str]
) -> set[str]:
    """Return the groups that may have moved to another log partition since the last run.

    Args:
        known: the moves that earlier runs found.
        first_new: the log offset of the first new record, by group and log partition.
        several: the groups with records in several log partitions.
    """
    last = {move.group_id: move for move in known}
    touched = set(several).difference(last)
    for (group, partition), offset in first_new.items():
        move = last.get(group)
        if move is None:
            continue
        is_behind = partition == move.to_log_partition and offset > move.begin_offset
        if not is_behind or move.exact_from_offset is None or offset < move.exact_from_offset:
            touched.add(group)
    return touched


def _moves(share: MovesShare, groups: Sequence[str]) -> list[GroupMove]:
    if not groups:
        return []
    wanted = pc.field("group_id").isin(pa.array(groups, pa.string()))
    records = read_paths([*share.records, *share.staged], _READ, wanted)
    seen = pa.Table.from_batches(map(_seen, records), _SEEN)
    count = share.partition_count
    by_count = [{"group_id": group, "log_partition": positive_hash(group) % count} for group in groups] if count else []
    moves = select(_MOVES, {}, seen=seen, counted=pa.Table.from_pylist(by_count, _COUNTED))
    return [GroupMove(*row) for row in zip(*moves.to_pydict().values(), strict=True)]


def _seen(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return records with the column ``is_by_client``: whether only a request of a client can have caused the record.

    Such records are offset commits (their ``kind`` is null), records of one member, and ``GroupMetadata`` records that
    list members. Tombstones are not such records.
    """
    # After a move, the coordinator of the old log partition has no clients. It only times out members and expires
    # offsets.
    records = conform(batch, _RECORDS)
    kinds, values = records.column("kind"), records.column("value_json")
    is_empty = pc.match_substring_regex(values, _NO_MEMBERS).fill_null(False)
    is_classic = pc.and_(pc.equal(kinds, "GroupMetadata"), pc.invert(is_empty)).fill_null(False)
    is_of_client = pc.or_(pc.or_(kinds.is_null(), records.column("member_id").is_valid()), is_classic)
    is_by_client = pc.and_(is_of_client, pc.invert(records.column("is_tombstone").fill_null(False)))
    return conform(records, _SEEN, is_by_client=is_by_client)


def from_rows(batches: Iterable[pa.RecordBatch]) -> list[GroupMove]:
    """Return moves from rows of the table."""
    rows = (row for batch in batches for row in plain_rows(batch))
    return sorted(GroupMove(**{name: row[name] for name in GroupMove._fields}) for row in rows)


def moved_note(moves: Sequence[GroupMove]) -> str | None:
    """Return a sentence about moves; None if there are no moves."""
    if not moves:
        return None
    shown = [f"{move.group_id} from {move.log_partition} to {move.to_log_partition}" for move in moves]
    groups = counted(len({move.group_id for move in moves}), "group")
    return (
        f"{groups} moved to another log partition ({listed(shown, 3)}): the partition count of __consumer_offsets was "
        "raised, or the dump has files of two clusters; from the move on only the new log partition counts"
    )


def evidence_of(moves: Sequence[GroupMove]) -> MovedGroups:
    """Return moves of groups in the form in which a finding stores them as evidence.

    The evidence names only the first moves, and has the number of all groups that moved.
    """
    times = [move.moved_at for move in moves if move.moved_at is not None]
    open_until = [move.overlaps_until for move in moves if move.overlaps_until is not None]
    named: list[NamedMove] = [
        {
            "group_id": move.group_id,
            "log_partition": move.log_partition,
            "to_log_partition": move.to_log_partition,
            "moved_at": move.moved_at,
        }
        for move in moves[:_MOST_NAMED]
    ]
    return {
        "moves": named,
        "groups": len({move.group_id for move in moves}),
        "first_at": min(times, default=None),
        "last_at": max(times, default=None),
        "overlaps_until": max(open_until, default=None),
    }


def rebuilt_for(known: Sequence[GroupMove], now: Sequence[GroupMove]) -> dict[int, str]:
    """Return the log partitions whose rows must be derived again, each with the reason.

    These are the log partitions that a group left or entered by a move that only one of the two lists has.

    Args:
        known: the moves of groups that earlier runs found.
        now: the moves that this run found.
    """
    reasons: dict[int, str] = {}
    for move in sorted(set(known).symmetric_difference(now), key=lambda move: (move.group_id, move.number)):
        why = f"group {move.group_id!r} moved from log partition {move.log_partition} to {move.to_log_partition}"
        for partition in (move.log_partition, move.to_log_partition):
            reasons.setdefault(partition, why)
    return reasons
