"""Shares of the stage that works on buckets. The plan of a run makes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from coordinator_replay.completeness.same_log import EarlierLog
from coordinator_replay.pipeline.group_moves import GroupMove
from coordinator_replay.pipeline.read.copies import DumpCopy
from coordinator_replay.pipeline.read.decode import StagedFile
from coordinator_replay.pipeline.read.tally import Ranges
from coordinator_replay.store.snapshot import TableFile


class Action(StrEnum):
    """Treatment of a bucket's derived rows in a run."""

    CONTINUE = "CONTINUE"
    """New records follow the records of the tables: groups and offsets continue from their snapshots and open rows."""

    REBUILD = "REBUILD"
    """All rows about groups and offsets are derived again, from the first record on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketShare:
    """A bucket to work on.

    Attributes:
        bucket: number of the bucket.
        staged: the bucket's staged files, in the order of the dump.
        files: the bucket's files of every table that has buckets, by table.
        ranges: ranges of log offsets that earlier runs have read, by log partition.
        ends: the log offset after the highest log offset that earlier runs have read, by log partition.
        positions: the number of log offsets below ``ends`` that hold a record, by log partition.
        last: the latest time of a record that this run read, by log partition.
        copies: the copies of the bucket's log partitions that this run reads.
        logs: facts about the log by log partition. The next run compares its dump with them.
        lost_from: the first truncated log offset that the tables have, by log partition that an election truncated.
        moves: moves of groups into or out of the bucket's log partitions.
        divisors: greatest common divisor of ``hash(group) - log_partition`` over the groups of each log partition; 0
            if the log partition has no groups. See ``group_moves.hash_divisor``.
        are_late: whether the dump may have new records with lower log offsets than records in the tables.
        action: whether the bucket continues from its tables or is rebuilt.
        reasons: sentences on why this action was chosen.
    """

    bucket: int
    staged: Sequence[StagedFile]
    files: Mapping[str, tuple[TableFile, ...]]
    ranges: Ranges
    ends: Mapping[int, int]
    positions: Mapping[int, int]
    last: Mapping[int, datetime]
    copies: Sequence[DumpCopy] = ()
    logs: Mapping[int, EarlierLog] = field(default_factory=dict)
    lost_from: Mapping[int, int] = field(default_factory=dict)
    moves: Sequence[GroupMove] = ()
    divisors: Mapping[int, int] = field(default_factory=dict)
    are_late: bool = False
    action: Action = Action.CONTINUE
    reasons: Sequence[str] = ()

    @property
    def is_rebuild(self) -> bool:
        """Return whether the bucket is rebuilt: its derived rows are derived again from the first record on."""
        return self.action is Action.REBUILD

    @property
    def records(self) -> int:
        """Return the number of staged rows of the bucket."""
        return sum(file.rows for _, _, file, _ in self.staged)

    @property
    def size(self) -> int:
        """Return the bytes to read, a rough measure of the work."""
        tables = self.files.values() if self.is_rebuild else ()
        return sum(file.size for _, _, file, _ in self.staged) + sum(file.size for files in tables for file in files)
