"""From where on the tables about offsets are derived anew, and what held there: what lies before stays as it is.

An interval ends when it is replaced, and is final from then on. So a run derives from the first record on that the
tables do not cover yet, beginning with the offsets that held there and the commits that waited for a marker. Who owned
a partition, and in what state a group was, is looked up by time: where records that were derived already carry the time
of new ones or a later one, it begins before them. A group whose own life is told anew is derived from its beginning.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.delta_log import HeldFile
from coordinator_replay.pipeline.extremes import RECORDS, extremes_of, moment_of
from coordinator_replay.pipeline.ledger import between
from coordinator_replay.pipeline.positions import Stretch, beyond
from coordinator_replay.pipeline.rewriting import Replacing
from coordinator_replay.pipeline.sums import Bools, as_bools, numbers_of
from coordinator_replay.pipeline.task_rows import are_among
from coordinator_replay.pipeline.warehouse import Warehouse, literal

_MOST_GROUPS = 1000
_WAITED = ("log_partition", "log_offset", "pending_since", "owner_member_id", "group_state")


@dataclass(frozen=True, slots=True)
class Restart:
    """Where a derivation begins.

    Attributes:
        offsets: the first log offset that is derived anew, by log partition; of one that is not named, all are.
        groups: groups that are derived from their first record on.
        since_us: no record at or behind the restart has an earlier time, in microseconds; None where that is not known.
    """

    offsets: Mapping[int, int]
    groups: frozenset[str] = frozenset()
    since_us: int | None = None

    def covers(self, column: str = "log_offset") -> str:
        """A condition in SQL for what lies at or behind the restart."""
        return " OR ".join((self._elsewhere(), *self._behind(column), *self._is_anew()))

    def are_covered(self, rows: pa.RecordBatch, column: str = "log_offset") -> Bools:
        """Which rows lie at or behind the restart: what ``covers`` says, of a batch."""
        return self._are_behind(rows, column) | self._are_anew(rows)

    def _are_anew(self, rows: pa.RecordBatch) -> Bools:
        """Which rows are of groups that are derived from their first record on."""
        groups = rows.column("group_id")
        if not self.groups:
            return np.zeros(len(groups), np.bool_)
        return are_among(groups, pa.array(sorted(self.groups), pa.string()))

    def _are_behind(self, rows: pa.RecordBatch, column: str) -> Bools:
        """Which rows lie at or behind the restart, by their log partition and an offset that is no null."""
        partitions, at = (numbers_of(rows.column(name), -1) for name in ("log_partition", column))
        known = np.array(sorted(self.offsets), np.int64)
        firsts = np.array([self.offsets[one] for one in sorted(self.offsets)], np.int64)
        places = np.searchsorted(known, partitions)
        is_known = np.isin(partitions, known)
        covered: Bools = ~is_known
        covered[is_known] = at[is_known] >= firsts[places[is_known]]
        return covered

    def first_at(self) -> datetime | None:
        """The moment before which no commit is covered; None where that is not known."""
        known = self.since_us is not None and not self.groups
        return moment_of(self.since_us or 0) if known else None

    def replaces(self) -> str:
        """A condition in SQL for rows that new ones come in place of: those that are open, or ended behind it."""
        ended = " OR ".join((self._elsewhere(), *self._behind("to_offset")))
        if self.since_us is not None:
            # It says nothing new of a row, but lets Delta pass over files: each holds rows of many log partitions.
            ended = f"({ended}) AND (valid_to IS NULL OR valid_to >= TIMESTAMP_MICROS({self.since_us}))"
        return " OR ".join(("to_offset IS NULL", f"({ended})", *self._is_anew()))

    def are_replaced(self, rows: pa.RecordBatch) -> Bools:
        """Which rows new ones come in place of: what ``replaces`` says, of a batch."""
        replaced = self._are_behind(rows, "to_offset")
        if self.since_us is not None:
            replaced &= numbers_of(rows.column("valid_to"), self.since_us) >= self.since_us
        replaced |= as_bools(rows.column("to_offset").is_null())
        return replaced | self._are_anew(rows)

    def may_replace(self, file: HeldFile) -> bool:
        """Whether a file of ``offset_history`` or ``pending_offsets`` may hold rows that new ones come in place of."""
        first_at, newest = self.first_at(), file.highest.get("valid_to")
        is_settled = file.nulls.get("to_offset") == 0 and file.nulls.get("valid_to") == 0
        return not (is_settled and first_at is not None and newest is not None and newest < first_at)

    def replacing(self) -> Replacing:
        """The same rows, for files that are written anew without them."""
        return Replacing(self.replaces(), self.are_replaced, self.may_replace)

    def held(self, rows: DataFrame) -> DataFrame:
        """The intervals that were open here: rows of ``offset_history`` or ``pending_offsets``."""
        return rows.where(f"({self.replaces()}) AND NOT ({self.covers('from_offset')})")

    def markers(self, control_records: DataFrame) -> DataFrame:
        """The markers that what is derived anew may need."""
        return control_records if self.groups else control_records.where(self.covers())

    def __str__(self) -> str:
        anew = f"; {len(self.groups)} groups from their first record on" if self.groups else ""
        return f"went on from where it ended{anew}"

    def _elsewhere(self) -> str:
        known = ", ".join(str(partition) for partition in self.offsets) or "-1"
        return f"log_partition NOT IN ({known})"

    def _behind(self, column: str) -> Iterator[str]:
        return (f"(log_partition = {partition} AND {column} >= {at})" for partition, at in self.offsets.items())

    def _is_anew(self) -> tuple[str, ...]:
        return (f"group_id IN ({', '.join(map(literal, sorted(self.groups)))})",) if self.groups else ()


def waiting_commits(commits: DataFrame, pending: DataFrame, restart: Restart) -> DataFrame:
    """Commits that waited for a marker at the restart.

    Args:
        commits: rows of ``offset_commits`` of one cluster.
        pending: rows of ``pending_offsets`` of the same cluster.
        restart: where the derivation begins.

    Returns:
        the columns of ``commits``, and what was told of each: pending_since, owner_member_id, group_state; is_waiting.
    """
    waiting = restart.held(pending).withColumn("log_offset", F.col("from_offset")).select(*_WAITED)
    return commits.join(F.broadcast(waiting), ["log_partition", "log_offset"]).withColumn("is_waiting", F.lit(True))


Groups = frozenset[str] | None
"""Some groups by their ids; None where they are too many to be named."""


def _named(groups: DataFrame) -> Groups:
    ids = [row["group_id"] for row in groups.select("group_id").distinct().limit(_MOST_GROUPS + 1).collect()]
    return frozenset(ids) if len(ids) <= _MOST_GROUPS else None


def unfinished_groups(warehouse: Warehouse, cluster: str, last_run_id: str) -> Groups:
    """Groups that a run replayed which did not end, so that it is not known what became of their offsets.

    Args:
        warehouse: holds the tables.
        cluster: whose groups.
        last_run_id: of the newest run that is done; ids rise with time.
    """
    state = warehouse.read("group_state").where(F.col("cluster") == cluster)
    return _named(state.where(F.col("run_id") > last_run_id))


def groups_anew(warehouse: Warehouse, cluster: str, replayed: DataFrame | None, unfinished: frozenset[str]) -> Groups:
    """Groups whose offsets are derived from their first record on: what was said of their earlier commits may differ.

    Their own life is told anew. Or they had none in the log before: their commits went into an Empty group then, and
    still do, unless records that are missing may have told otherwise.

    Args:
        warehouse: holds the tables.
        cluster: whose groups.
        replayed: group_id of groups that were replayed from their first record on, and is_first: whether they were
            never replayed before; None for none.
        unfinished: from ``unfinished_groups``.
    """
    if replayed is None:
        return unfinished
    commits = warehouse.read("offset_commits").where(F.col("cluster") == cluster)
    told = commits.join(F.broadcast(replayed.select("group_id", "is_first")), "group_id")
    named = _named(told.where(~F.col("is_first") | (F.col("missing_before") > 0)))
    return None if named is None or len(named | unfinished) > _MOST_GROUPS else named | unfinished


def has_strays(warehouse: Warehouse, cluster: str, ranges: Mapping[int, Sequence[tuple[int, int]]]) -> bool:
    """Whether records lie between those that finished runs have read: left by a run that did not end.

    Args:
        warehouse: holds the tables of records.
        cluster: whose.
        ranges: from ``audited_ranges``.
    """
    return bool(extremes_of(warehouse, cluster, RECORDS, [Stretch(*one) for one in between(ranges)]))


def restart_at(
    warehouse: Warehouse, cluster: str, ends: Mapping[int, int], groups: frozenset[str] = frozenset()
) -> Restart:
    """Where to begin in each log partition, given where the tables that are derived end.

    Args:
        warehouse: holds the tables of records, those of this run too.
        cluster: whose.
        ends: the first log offset that the derived tables do not cover, by log partition.
        groups: groups that are derived from their first record on.
    """
    since = _earliest(warehouse, cluster, beyond(ends))
    later = [Stretch(one, 0, ends[one], moment_of(at)) for one, at in since.items() if one in ends]
    told = extremes_of(warehouse, cluster, ["offset_commits"], later)
    first = {partition: known.low for partition, known in told.items()}
    again = _earliest(warehouse, cluster, [Stretch(partition, at, ends[partition]) for partition, at in first.items()])
    earliest = min((*since.values(), *again.values()), default=None)
    return Restart({**ends, **first}, groups, earliest)


def _earliest(warehouse: Warehouse, cluster: str, stretches: Sequence[Stretch]) -> dict[int, int]:
    """The earliest time of records of some stretches, by log partition, in microseconds."""
    found = extremes_of(warehouse, cluster, RECORDS, stretches)
    return {partition: known.earliest for partition, known in found.items() if known.earliest is not None}
