"""The tables about offsets, derived from what the tables of records and groups hold: history, pending commits, expiry.

They are derived anew from all records of the cluster whenever there are new ones, and put in place of the old in one
commit each: whatever the order of dumps, the result is that of one run over all of them.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.expiration import DEFAULT_RETENTION_MS
from coordinator_replay.pipeline.expiry import expired_offsets
from coordinator_replay.pipeline.offset_events import Sources
from coordinator_replay.pipeline.offsets import (
    offset_history,
    pending_offsets,
    staged_offsets,
    staged_offsets_type,
    thin_history,
)
from coordinator_replay.pipeline.retention import infer_retention, survivors
from coordinator_replay.pipeline.tombstones import removed_offsets, tombstone_causes
from coordinator_replay.pipeline.warehouse import Warehouse

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
    """

    versions: dict[str, int]
    said: str
    end: datetime | None


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
    removed: DataFrame, staged: DataFrame, end: datetime | None, given_ms: int | None
) -> tuple[int, bool, str]:
    """The retention to judge by, whether it is more than a default, and a sentence that says where it is from."""
    if given_ms is not None:
        return given_ms, True, f"offset retention: {given_ms // 60_000} minutes, as given"
    row = None if end is None else infer_retention(removed, survivors(staged, end)).first()
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

    def keep(self, name: str, df: DataFrame) -> DataFrame:
        """Write what is needed more than once; each kind of staged row to files of its own."""
        schema = staged_offsets_type() if "kind" in df.columns else df.schema
        parts = ["kind"] if "kind" in df.columns else []
        df.write.parquet(f"{self.staging}/{name}", partitionBy=parts)
        return self.warehouse.spark.read.schema(schema).parquet(f"{self.staging}/{name}")

    def run(self) -> Derived:
        with ThreadPoolExecutor(len(OFFSET_TABLES)) as pool:
            finding_end = pool.submit(_end_of_log, self.warehouse, self.cluster)
            staged = self.keep("staged", staged_offsets(self.sources))
            end = finding_end.result()
            removed = removed_offsets(staged)
            retention_ms, is_known, said = _retention(removed, staged, end, self.expiry.retention_ms)
            causes = tombstone_causes(removed, retention_ms=retention_ms, retention_is_known=is_known)
            causes = self.keep("causes", causes)
            as_of = self.expiry.as_of or end
            rows = {
                "offset_history": self.history(staged, causes),
                "pending_offsets": pending_offsets(staged, self.cluster),
            }
            if as_of is not None:
                rows["expired_offsets"] = expired_offsets(
                    self.as_of(staged),
                    causes,
                    as_of=as_of,
                    retention_ms=retention_ms,
                    horizon_ms=self.expiry.horizon_ms,
                    cluster=self.cluster,
                    retention_is_known=is_known,
                )
            writes = {
                name: pool.submit(self.warehouse.replace_cluster, name, df, self.cluster) for name, df in rows.items()
            }
            return Derived({name: write.result() for name, write in writes.items()}, said, end)

    def history(self, staged: DataFrame, causes: DataFrame) -> DataFrame:
        history = offset_history(staged, self.cluster, causes)
        every_ms = self.expiry.history_every_ms
        return history if every_ms is None else thin_history(history, every_ms)

    def as_of(self, staged: DataFrame) -> DataFrame:
        """Staged rows as if the log ended at the moment asked for."""
        moment = self.expiry.as_of
        return staged if moment is None else staged_offsets(self.sources, moment)


def write_offset_tables(warehouse: Warehouse, cluster: str, expiry: Expiry, staging: str) -> Derived:
    """Derive and write the tables about offsets.

    Args:
        warehouse: holds the tables of records, timelines and ownership.
        cluster: whose tables to derive.
        expiry: what is asked of expiry.
        staging: a folder for what is needed more than once.
    """
    return _Derivation(warehouse, cluster, expiry, staging).run()
