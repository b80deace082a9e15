"""A bucket as the plan hands it to the stage that works on it."""

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
    """New records follow those that the tables have: groups and offsets continue from their snapshots and open rows."""

    REBUILD = "REBUILD"
    """All rows about groups and offsets are derived again, from the first record on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketShare:
    """A bucket to work on.

    Attributes:
        bucket: its number.
        staged: its staged files, in the order of the dump.
        files: its files of every table that has buckets, by table.
        ranges: positions that earlier runs have read, by log partition.
        ends: the first offset that they have not read.
        positions: how many offsets below that hold a record.
        last: time of the last record that this run read of each log partition.
        copies: the copies of its log partitions that this run reads.
        logs: what is kept of each log partition to compare the next dump with.
        lost_from: from which offset on what the tables hold was lost, for log partitions that were truncated.
        moves: of groups into its log partitions, or out of them.
        divisors: by log partition: every possible number of partitions divides it.
        are_late: whether staged records may stand between those that the tables hold.
        action: what becomes of its derived rows.
        reasons: why, as sentences.
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
        """Return whether its derived rows are derived again from the first record on."""
        return self.action is Action.REBUILD

    @property
    def records(self) -> int:
        """Return how many staged rows it has."""
        return sum(file.rows for _, _, file, _ in self.staged)

    @property
    def size(self) -> int:
        """Return a rough measure of the work: the bytes to read."""
        tables = self.files.values() if self.is_rebuild else ()
        return sum(file.size for _, _, file, _ in self.staged) + sum(file.size for files in tables for file in files)
