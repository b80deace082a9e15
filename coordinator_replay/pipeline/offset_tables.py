"""The tables about offsets, derived from what the tables of records and groups hold: history, pending commits, expiry.

A run derives what its records changed, from where the tables end (``restart``), and puts that in place of what was
open there, in one commit each; everything is derived anew where records came in between others. Whatever the order of
dumps, the result is that of one run over all of them.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.analysis.expiration import DEFAULT_RETENTION_MS
from coordinator_replay.pipeline.commit_shares import shares_of
from coordinator_replay.pipeline.commit_totals import LATELY, HistorySums, history_parts, kept_until
from coordinator_replay.pipeline.context_files import context_files
from coordinator_replay.pipeline.data_files import DataFile, Part, aside, keep, part_of, read_files, write_frame
from coordinator_replay.pipeline.expiry import expired_offsets
from coordinator_replay.pipeline.extremes import RECORDS, extremes_of, moment_of
from coordinator_replay.pipeline.held_files import held_files
from coordinator_replay.pipeline.offset_events import Sources
from coordinator_replay.pipeline.offset_stage import STAGED, Staged
from coordinator_replay.pipeline.offsets import (
    HELD_PART,
    HISTORY_PART,
    OPEN_PART,
    PENDING_PART,
    REMOVED_PART,
    WAITING_PART,
    Beside,
    history_of,
    staged_offsets,
    thin_history,
    write_offsets,
)
from coordinator_replay.pipeline.positions import Stretch
from coordinator_replay.pipeline.restart import Restart, waiting_commits
from coordinator_replay.pipeline.retention import infer_retention, survivors
from coordinator_replay.pipeline.rewriting import Replacing, put_files_where
from coordinator_replay.pipeline.sums import Bools, as_bools
from coordinator_replay.pipeline.tombstones import causes_type, removed_offsets, tombstone_causes
from coordinator_replay.pipeline.warehouse import Warehouse
from coordinator_replay.tables.definition import table

OFFSET_TABLES = ("offset_history", "pending_offsets", "expired_offsets")
"""The tables that are derived here."""

REMOVED_TABLE = "removed_offsets"
"""The internal table of what tombstones removed."""

OFFSETS_VERSION = 1
"""Of the rules of derivation: what other ones made is not gone on from."""

_KEY = ("log_partition", "group_id", "topic", "partition", "from_offset")
_CAUSE = ("ended_by", "ended_confidence", "ended_alternatives", "ended_evidence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What is asked of expiry.

    Attributes:
        as_of: the moment to judge at; None for the end of the log.
        retention_ms: the brokers' retention; None to infer it, or else to take Kafka's default.
        horizon_ms: how far ahead to look.
        history_every_ms: keep the last commit of each such stretch only; None for all.
    """

    as_of: datetime | None = None
    retention_ms: int | None = None
    horizon_ms: int = 3 * 86_400_000
    history_every_ms: int | None = None


class Newest(NamedTuple):
    """The latest time of the run's records; None where none carries one.

    Attributes:
        at: the time.
        is_end: whether the tables hold no other records, so that it is the end of the log.
    """

    at: datetime | None
    is_end: bool


class Derived(NamedTuple):
    """What deriving the tables about offsets came to.

    Attributes:
        versions: the tables' versions.
        said: a sentence on the retention that was used.
        end: timestamp of the last record; None where no record has one.
        causes: what each tombstone was, as ``tombstone_causes`` tells it.
        held: staged rows of the offsets that hold at the end of the log.
        sums: what all rows of ``offset_history`` come to; None where only some of them were derived.
    """

    versions: dict[str, int]
    said: str
    end: datetime | None
    causes: DataFrame
    held: DataFrame
    sums: HistorySums | None


def _sources(
    warehouse: Warehouse, cluster: str, restart: Restart | None = None, *, only_commits: bool = False
) -> Sources:
    """What tells about offsets: all of it, or from a restart on.

    Args:
        warehouse: holds the tables.
        cluster: whose offsets.
        restart: where to begin.
        only_commits: without what is known of groups, and of what held: tasks read that themselves.
    """

    def mine(name: str) -> DataFrame:
        return warehouse.read(name).where(F.col("cluster") == cluster)

    commits, markers, held, waiting = mine("offset_commits"), mine("control_records"), None, None
    if restart is not None:
        held = None if only_commits else restart.held(mine(HISTORY_PART))
        if not warehouse.is_new(PENDING_PART):
            waiting = waiting_commits(commits, mine(PENDING_PART), restart)
        commits, markers = commits.where(restart.covers()), restart.markers(markers)
    if only_commits:
        return Sources(commits=commits, markers=markers, waiting=waiting)
    return Sources(
        commits=commits,
        markers=markers,
        rules=mine("expiry_rules"),
        ownership=mine("partition_ownership"),
        timeline=mine("group_timeline"),
        held=held,
        waiting=waiting,
    )


def _end_of_log(warehouse: Warehouse, cluster: str, newest: Newest) -> datetime | None:
    """The latest time of any record; None where none carries one."""
    if newest.is_end:
        return newest.at
    # Nearly always a record of this run tells it, or one behind that; but what is in quarantine has times too.
    for since in dict.fromkeys((newest.at, None)):
        found = extremes_of(warehouse, cluster, RECORDS, [Stretch(None, since=since)])
        times = [one.latest for one in found.values() if one.latest is not None]
        if times:
            return moment_of(max(times))
    return None


def _with_tombstones(replacing: Replacing) -> Replacing:
    """Also all rows of the history that a tombstone ended."""

    def goes(rows: pa.RecordBatch) -> Bools:
        return replacing.goes(rows) | as_bools(pc.not_equal(rows.column("ended_by"), "COMMIT"))

    return Replacing(f"{replacing.condition} OR ended_by <> 'COMMIT'", goes, lambda _file: True)


def _retention(
    removed: DataFrame | None, staged: DataFrame, end: datetime | None, given_ms: int | None
) -> tuple[int, bool, str]:
    """The retention to judge by, whether it is more than a default, and a sentence that says where it is from."""
    if given_ms is not None:
        return given_ms, True, f"offset retention: {given_ms // 60_000} minutes, as given"
    row = None if end is None or removed is None else infer_retention(removed, survivors(staged, end)).first()
    if row is not None and row["retention_ms"] is not None:
        minutes = row["retention_ms"] // 60_000
        return row["retention_ms"], True, f"offset retention: {minutes} minutes, inferred from observed expirations"
    return DEFAULT_RETENTION_MS, False, "offset retention: 7 days, Kafka's default; none was given or observed"


class _Derivation:
    """One derivation; its steps share the session, the warehouse and what is asked."""

    def __init__(
        self,
        warehouse: Warehouse,
        cluster: str,
        expiry: Expiry,
        staging: str,
        restart: Restart | None,
        *,
        may_wait: bool,
    ) -> None:
        self.warehouse = warehouse
        self.cluster = cluster
        self.expiry = expiry
        self.staging = staging
        self.restart = restart
        self.may_wait = may_wait
        self.files: dict[str, list[DataFile]] = {}

    def part(self, name: str) -> Part:
        """Where rows of a table go; aside where more has to be done to them."""
        if name == HISTORY_PART and self.expiry.history_every_ms is not None:
            return part_of(table(name), f"{self.staging}/{name}")
        if self.restart is not None and self.warehouse.takes_files(name):
            return self.warehouse.own_part(name)
        return self.warehouse.part(name, self.staging)

    def derive(self, newest: datetime | None, end: datetime | None) -> None:
        """Let workers write what the pass over the commits gives; where the log's end is known, sums of it too."""
        parts = {HISTORY_PART: self.part(HISTORY_PART), PENDING_PART: self.part(PENDING_PART)}
        parts |= {HELD_PART: parts[HISTORY_PART], WAITING_PART: parts[PENDING_PART]}
        parts |= {name: aside(f"{self.staging}/{name}", STAGED) for name in (OPEN_PART, REMOVED_PART)}
        if end is not None:
            parts |= history_parts(self.staging)
        shares = shares_of(self.warehouse, None if self.restart is None else self.restart.first_at())
        beside = None if shares is None else self.beside()
        sources = _sources(self.warehouse, self.cluster, self.restart, only_commits=beside is not None)
        self.files = write_offsets(
            sources,
            parts,
            self.cluster,
            since=None if newest is None else newest - LATELY,
            until=None if end is None else kept_until(end),
            shares=shares,
            are_covered=None if self.restart is None else self.restart.are_covered,
            beside=beside,
            staging=self.staging,
        )

    def beside(self) -> Beside | None:
        """What tasks of shares read beside commits; None where only Spark can."""
        known = context_files(self.warehouse, self.cluster)
        if known is None:
            return None
        if self.restart is None:
            return Beside(known.events, may_wait=self.may_wait)
        held = held_files(self.warehouse, self.cluster, self.restart)
        return None if held is None else Beside(known.events, held.events, self.may_wait)

    def staged(self, name: str) -> DataFrame:
        """Staged rows of a part."""
        schema = from_arrow_schema(STAGED, prefer_timestamp_ntz=False)
        return read_files(self.warehouse.spark, self.files.get(name, []), schema)

    def written(self, *names: str) -> list[DataFile]:
        """The files of some parts."""
        return [file for name in names for file in self.files.get(name, [])]

    def removed_before(self) -> DataFrame | None:
        """What tombstones removed before the restart, and why as far as earlier runs knew; None where nothing."""
        if self.restart is None or self.warehouse.is_new(REMOVED_TABLE):
            return None
        rows = self.warehouse.read(REMOVED_TABLE).where(F.col("cluster") == self.cluster).drop("cluster")
        return rows.where(f"NOT ({self.restart.covers('to_offset')})")

    def removed(self, before: DataFrame | None) -> DataFrame | None:
        """All that tombstones removed; None where nothing."""
        now = self.staged(REMOVED_PART) if self.files.get(REMOVED_PART) else None
        if before is not None:
            earlier = before.drop(*_CAUSE).withColumn("kind", F.lit(int(Staged.REMOVED)))
            none = self.staged("") if now is None else now
            now = none.unionByName(earlier, allowMissingColumns=True)
        return None if now is None else removed_offsets(now)

    def run(self, newest: Newest) -> Derived:
        with ThreadPoolExecutor(len(OFFSET_TABLES)) as pool:
            finding_end = pool.submit(_end_of_log, self.warehouse, self.cluster, newest)
            is_whole = newest.is_end and self.restart is None and self.expiry.history_every_ms is None
            self.derive(newest.at, newest.at if is_whole else None)
            end = finding_end.result()
            opened = self.staged(OPEN_PART)
            before = self.removed_before()
            removed = self.removed(before)
            retention_ms, is_known, said = _retention(removed, opened, end, self.expiry.retention_ms)
            causes = self.causes(removed, retention_ms=retention_ms, retention_is_known=is_known)
            ended = None if removed is None else causes
            writes = {
                HISTORY_PART: pool.submit(lambda: self.write_history(ended, before)),
                PENDING_PART: pool.submit(self.write_pending),
            }
            as_of = self.expiry.as_of or end
            if as_of is not None:
                expired = expired_offsets(
                    self.as_of(opened),
                    causes,
                    as_of=as_of,
                    retention_ms=retention_ms,
                    horizon_ms=self.expiry.horizon_ms,
                    cluster=self.cluster,
                    retention_is_known=is_known,
                )
                write = self.warehouse.replace_cluster
                writes["expired_offsets"] = pool.submit(lambda: write("expired_offsets", expired, self.cluster))
            versions = {name: write.result() for name, write in writes.items()}
        # After the history: a run that is killed between the two finds again what it has to say of earlier tombstones.
        if ended is not None or (self.restart is None and not self.warehouse.is_new(REMOVED_TABLE)):
            mine = causes.withColumn("cluster", F.lit(self.cluster))
            versions[REMOVED_TABLE] = self.warehouse.replace_cluster(REMOVED_TABLE, mine, self.cluster)
        sums = HistorySums.of(self.warehouse.spark, self.files) if is_whole else None
        return Derived(versions, said, end, causes, opened, sums)

    def causes(self, removed: DataFrame | None, *, retention_ms: int, retention_is_known: bool) -> DataFrame:
        """Write what tombstones were, since four tables want it; most logs have none, and need no plan for it."""
        if removed is None:
            return self.warehouse.spark.createDataFrame([], causes_type())
        causes = tombstone_causes(removed, retention_ms=retention_ms, retention_is_known=retention_is_known)
        return keep(causes, f"{self.staging}/causes")

    def write_history(self, causes: DataFrame | None, before: DataFrame | None) -> int:
        """Write the history: what the pass wrote, and what tombstones ended, if any did."""
        every_ms, files = self.expiry.history_every_ms, self.written(HISTORY_PART, HELD_PART)
        ended = None if causes is None else history_of(causes, self.cluster)
        if self.warehouse.is_new(HISTORY_PART) and every_ms is None:
            added = [] if ended is None else write_frame(ended, HISTORY_PART, self.part(HISTORY_PART))
            return self.warehouse.add_files(HISTORY_PART, [*files, *added])
        if self.restart is not None:
            return self.go_on(self.restart, files, causes, before)
        rows = self.warehouse.rows(HISTORY_PART, files)
        whole = rows if ended is None else rows.unionByName(ended)
        thin = whole if every_ms is None else thin_history(whole, every_ms)
        return self.warehouse.replace_cluster(HISTORY_PART, thin, self.cluster)

    def go_on(self, restart: Restart, files: list[DataFile], causes: DataFrame | None, before: DataFrame | None) -> int:
        """Put rows in place of those that were open, and of what tombstones ended, if that is told otherwise now."""
        replacing = restart.replacing()
        if causes is None:
            return put_files_where(self.warehouse, HISTORY_PART, files, self.cluster, replacing)
        if before is not None and self.tells_otherwise(causes, before):
            replacing = _with_tombstones(replacing)
        ended = history_of(causes, self.cluster).where(replacing.condition)
        added = write_frame(ended, HISTORY_PART, self.part(HISTORY_PART))
        return put_files_where(self.warehouse, HISTORY_PART, [*files, *added], self.cluster, replacing)

    def tells_otherwise(self, causes: DataFrame, before: DataFrame) -> bool:
        """Whether the cause of an earlier tombstone is another one by what is known now."""
        then = before.select(*_KEY, F.struct(*_CAUSE).alias("then"))
        now = causes.select(*_KEY, F.struct(*_CAUSE).alias("now"))
        return not now.join(then, list(_KEY)).where(~F.col("now").eqNullSafe(F.col("then"))).isEmpty()

    def write_pending(self) -> int:
        """Write the commits that waited for a marker."""
        files = self.written(PENDING_PART, WAITING_PART)
        if self.restart is None or self.warehouse.is_new(PENDING_PART):
            return self.warehouse.put_files(PENDING_PART, files, self.cluster)
        return put_files_where(self.warehouse, PENDING_PART, files, self.cluster, self.restart.replacing())

    def as_of(self, opened: DataFrame) -> DataFrame:
        """Staged rows of offsets that hold, as if the log ended at the moment asked for."""
        moment = self.expiry.as_of
        return opened if moment is None else staged_offsets(_sources(self.warehouse, self.cluster), moment)


def write_offset_tables(
    warehouse: Warehouse,
    cluster: str,
    expiry: Expiry,
    staging: str,
    *,
    newest: Newest,
    restart: Restart | None = None,
    may_wait: bool = True,
) -> Derived:
    """Derive and write the tables about offsets.

    Args:
        warehouse: holds the tables of records, timelines and ownership.
        cluster: whose tables to derive.
        expiry: what is asked of expiry.
        staging: a folder for what is needed more than once.
        newest: the latest time of the run's records.
        restart: where to begin; None derives all of it. With ``history_every_ms``, it has to be None.
        may_wait: whether any commit may wait for a transaction's marker.
    """
    return _Derivation(warehouse, cluster, expiry, staging, restart, may_wait=may_wait).run(newest)
