"""The tables about offsets, derived from what the tables of records and groups hold: history, pending commits, expiry.

They are derived anew from all records of the cluster whenever there are new ones, and put in place of the old in one
commit each: whatever the order of dumps, the result is that of one run over all of them.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.analysis.expiration import DEFAULT_RETENTION_MS
from coordinator_replay.pipeline.data_files import DataFile, Part, aside, part_of, read_files, write_frame
from coordinator_replay.pipeline.expiry import expired_offsets
from coordinator_replay.pipeline.offset_events import Sources
from coordinator_replay.pipeline.offset_stage import STAGED
from coordinator_replay.pipeline.offsets import (
    HISTORY_PART,
    OPEN_PART,
    PENDING_PART,
    REMOVED_PART,
    history_of,
    staged_offsets,
    thin_history,
    write_offsets,
)
from coordinator_replay.pipeline.retention import infer_retention, survivors
from coordinator_replay.pipeline.tombstones import removed_offsets, tombstone_causes
from coordinator_replay.pipeline.warehouse import Warehouse
from coordinator_replay.tables.definition import table

OFFSET_TABLES = ("offset_history", "pending_offsets", "expired_offsets")
"""The tables that are derived here."""


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


class Derived(NamedTuple):
    """What deriving the tables about offsets came to.

    Attributes:
        versions: the tables' versions.
        said: a sentence on the retention that was used.
        end: timestamp of the last record; None where no record has one.
        causes: what each tombstone was, as ``tombstone_causes`` tells it.
        held: staged rows of the offsets that hold at the end of the log.
    """

    versions: dict[str, int]
    said: str
    end: datetime | None
    causes: DataFrame
    held: DataFrame


def _sources(warehouse: Warehouse, cluster: str) -> Sources:
    def mine(name: str) -> DataFrame:
        return warehouse.read(name).where(F.col("cluster") == cluster)

    return Sources(
        commits=mine("offset_commits"),
        markers=mine("control_records"),
        rules=mine("expiry_rules"),
        ownership=mine("partition_ownership"),
        timeline=mine("group_timeline"),
    )


def _end_of_log(warehouse: Warehouse, cluster: str) -> datetime | None:
    """The latest time of any record; None where none carries one."""
    newest = [
        warehouse.read(name).where(F.col("cluster") == cluster).agg(F.max("log_timestamp").alias("at"))
        for name in ("offset_commits", "group_records", "control_records")
    ]
    times = [row["at"] for row in reduce(DataFrame.unionByName, newest).collect() if row["at"] is not None]
    return max(times, default=None)


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

    def __init__(self, warehouse: Warehouse, cluster: str, expiry: Expiry, staging: str) -> None:
        self.warehouse = warehouse
        self.cluster = cluster
        self.expiry = expiry
        self.staging = staging
        self.sources = _sources(warehouse, cluster)

    def part(self, name: str) -> Part:
        """Where rows of a table go; aside where more has to be done to them."""
        if name == HISTORY_PART and self.expiry.history_every_ms is not None:
            return part_of(table(name), f"{self.staging}/{name}")
        return self.warehouse.part(name, self.staging)

    def staged(self, files: Sequence[DataFile]) -> DataFrame:
        """What files of staged rows hold."""
        return read_files(self.warehouse.spark, files, from_arrow_schema(STAGED, prefer_timestamp_ntz=False))

    def run(self, known_end: datetime | None) -> Derived:
        with ThreadPoolExecutor(len(OFFSET_TABLES)) as pool:
            finding_end = pool.submit(lambda: known_end or _end_of_log(self.warehouse, self.cluster))
            parts = {name: self.part(name) for name in (HISTORY_PART, PENDING_PART)}
            parts |= {name: aside(f"{self.staging}/{name}", STAGED) for name in (OPEN_PART, REMOVED_PART)}
            files = write_offsets(self.sources, parts, self.cluster)
            end = finding_end.result()
            opened = self.staged(files.get(OPEN_PART, []))
            removed = removed_offsets(self.staged(files.get(REMOVED_PART, [])))
            observed = removed if files.get(REMOVED_PART) else None
            retention_ms, is_known, said = _retention(observed, opened, end, self.expiry.retention_ms)
            causes = tombstone_causes(removed, retention_ms=retention_ms, retention_is_known=is_known)
            causes = self.keep_causes(causes, any_removed=observed is not None)
            held, waited = files.get(HISTORY_PART, []), files.get(PENDING_PART, [])
            ended = None if observed is None else causes
            writes = {
                HISTORY_PART: pool.submit(lambda: self.write_history(held, ended)),
                PENDING_PART: pool.submit(lambda: self.warehouse.put_files(PENDING_PART, waited, self.cluster)),
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
            return Derived({name: write.result() for name, write in writes.items()}, said, end, causes, opened)

    def keep_causes(self, causes: DataFrame, *, any_removed: bool) -> DataFrame:
        """Write what tombstones were, since three tables want it; most logs have none, and need no plan for it."""
        spark = self.warehouse.spark
        if not any_removed:
            return spark.createDataFrame([], causes.schema)
        causes.write.parquet(f"{self.staging}/causes")
        return spark.read.schema(causes.schema).parquet(f"{self.staging}/causes")

    def write_history(self, files: Sequence[DataFile], causes: DataFrame | None) -> int:
        """Write the history: what the pass wrote, and what tombstones ended, if any did."""
        every_ms = self.expiry.history_every_ms
        ended = None if causes is None else history_of(causes, self.cluster)
        if self.warehouse.is_new(HISTORY_PART) and every_ms is None:
            added = [] if ended is None else write_frame(ended, HISTORY_PART, self.part(HISTORY_PART))
            return self.warehouse.add_files(HISTORY_PART, [*files, *added])
        history = self.warehouse.rows(HISTORY_PART, files)
        whole = history if ended is None else history.unionByName(ended)
        thin = whole if every_ms is None else thin_history(whole, every_ms)
        return self.warehouse.replace_cluster(HISTORY_PART, thin, self.cluster)

    def as_of(self, opened: DataFrame) -> DataFrame:
        """Staged rows of offsets that hold, as if the log ended at the moment asked for."""
        moment = self.expiry.as_of
        return opened if moment is None else staged_offsets(self.sources, moment)


def write_offset_tables(
    warehouse: Warehouse, cluster: str, expiry: Expiry, staging: str, end: datetime | None = None
) -> Derived:
    """Derive and write the tables about offsets.

    Args:
        warehouse: holds the tables of records, timelines and ownership.
        cluster: whose tables to derive.
        expiry: what is asked of expiry.
        staging: a folder for what is needed more than once.
        end: the latest time of any record, where it is known; None asks the tables.
    """
    return _Derivation(warehouse, cluster, expiry, staging).run(end)
