"""The tables about offsets, derived from what the tables of records hold: history, pending commits, expiry.

They are derived anew from all records of the cluster whenever there are new ones, and put in place of the old in one
commit each: whatever the order of dumps, the result is that of one run over all of them.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.types import StructType

from coordinator_replay.analysis.expiration import DEFAULT_RETENTION_MS
from coordinator_replay.pipeline.decode import staged_type
from coordinator_replay.pipeline.expiry import expired_offsets
from coordinator_replay.pipeline.group_facts import group_facts
from coordinator_replay.pipeline.offsets import offset_history, thin_history
from coordinator_replay.pipeline.pending import pending_offsets
from coordinator_replay.pipeline.retention import infer_retention
from coordinator_replay.pipeline.tombstones import removed_offsets, tombstone_causes
from coordinator_replay.pipeline.transactions import tombstones, transactional_commits
from coordinator_replay.pipeline.warehouse import Warehouse

OFFSET_TABLES = ("offset_history", "pending_offsets", "expired_offsets")
"""The tables that are derived here."""

_POSITION = (
    "log_partition",
    "log_offset",
    "log_timestamp",
    "producer_id",
    "producer_epoch",
    "is_transactional",
    "control_type",
    "missing_before",
)


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


def held_records(warehouse: Warehouse, cluster: str) -> DataFrame:
    """All records of a cluster as the tables hold them, in the shape that ``settle`` gives."""
    nested = {field.name: field.dataType for field in staged_type() if isinstance(field.dataType, StructType)}
    del nested["coverage"]

    def part(table: str, struct: str | None) -> DataFrame:
        rows = warehouse.read(table).where(F.col("cluster") == cluster)
        there = set(rows.columns)
        columns = [(F.col(name) if name in there else F.lit(None)).alias(name) for name in _POSITION]
        if "control_type" not in there:
            columns[_POSITION.index("control_type")] = F.lit(None).cast("string").alias("control_type")
        if "is_transactional" not in there:
            columns[_POSITION.index("is_transactional")] = F.lit(True).alias("is_transactional")
        for name, type_ in nested.items():
            made = F.struct(*(F.col(inner.name) for inner in type_)) if name == struct else F.lit(None)
            columns.append(made.cast(type_).alias(name))
        return rows.select(*columns)

    every = part("offset_commits", "commit").unionByName(part("group_records", "record"))
    return every.unionByName(part("control_records", None))


def _retention(inferred: DataFrame, given_ms: int | None) -> tuple[int, bool, str]:
    """The retention to judge by, whether it is more than a default, and a sentence that says where it is from."""
    if given_ms is not None:
        return given_ms, True, f"offset retention: {given_ms // 60_000} minutes, as given"
    row = inferred.first()
    if row is not None and row["retention_ms"] is not None:
        minutes = row["retention_ms"] // 60_000
        return row["retention_ms"], True, f"offset retention: {minutes} minutes, inferred from observed expirations"
    return DEFAULT_RETENTION_MS, False, "offset retention: 7 days, Kafka's default; none was given or observed"


def write_offset_tables(warehouse: Warehouse, cluster: str, expiry: Expiry, staging: str) -> Derived:
    """Derive and write the tables about offsets.

    Args:
        warehouse: holds the tables of records, timelines and ownership.
        cluster: whose tables to derive.
        expiry: what is asked of expiry.
        staging: a folder for what is needed more than once.
    """
    records = held_records(warehouse, cluster)
    spark = records.sparkSession

    def keep(name: str, df: DataFrame) -> DataFrame:
        df.write.parquet(f"{staging}/{name}")
        return spark.read.parquet(f"{staging}/{name}")

    facts = keep("facts", group_facts(records))
    # Kept as files, Spark sees that they are few and sends them to the commits instead of shuffling all of those.
    waiting = keep("waiting", transactional_commits(records))
    gone = keep("gone", tombstones(records))
    removed = keep("removed", removed_offsets(records, facts, removals=gone, transactional=waiting))
    inferred = infer_retention(records, removed, facts)
    retention_ms, is_known, said = _retention(inferred, expiry.retention_ms)
    causes = keep("causes", tombstone_causes(removed, retention_ms=retention_ms, retention_is_known=is_known))
    mine = F.col("cluster") == cluster
    told = {
        "ownership": warehouse.read("partition_ownership").where(mine),
        "timeline": warehouse.read("group_timeline").where(mine),
    }
    history = offset_history(records, cluster, transactional=waiting, causes=causes, **told)
    if expiry.history_every_ms is not None:
        history = thin_history(history, expiry.history_every_ms)
    with ThreadPoolExecutor(2) as pool:
        writes = [
            pool.submit(warehouse.replace_cluster, "offset_history", history, cluster),
            pool.submit(
                warehouse.replace_cluster,
                "pending_offsets",
                pending_offsets(records, cluster, transactional=waiting, **told),
                cluster,
            ),
        ]
        versions = dict(zip(OFFSET_TABLES[:2], [write.result() for write in writes], strict=True))
    last = records.agg(F.max("log_timestamp").alias("end")).first()
    end: datetime | None = last["end"] if last is not None else None
    as_of = expiry.as_of or end
    if as_of is not None:
        expired = expired_offsets(
            warehouse.read("offset_history"),
            warehouse.read("pending_offsets"),
            causes,
            facts,
            as_of=as_of,
            retention_ms=retention_ms,
            horizon_ms=expiry.horizon_ms,
            cluster=cluster,
            retention_is_known=is_known,
            **told,
        )
        versions["expired_offsets"] = warehouse.replace_cluster("expired_offsets", expired, cluster)
    return Derived(versions, said, end)
