"""What each committed offset was, when, and what was pending: ``offset_history`` and ``pending_offsets``.

Both come from staged rows, which one pass over the sorted events makes (``offset_pass``).
"""

from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinator_replay.pipeline.offset_events import Sources, offset_events
from coordinator_replay.pipeline.offset_pass import stage_offsets
from coordinator_replay.pipeline.offset_stage import HISTORY, PRODUCER, STAGED, Staged

_KEY = ("log_partition", "group_id", "topic", "partition")
_ENDED = {"ended_confidence": "string", "ended_alternatives": "array<string>", "ended_evidence": "array<string>"}


def staged_offsets_type() -> StructType:
    """The Spark schema of staged rows, the column that files are parted by last."""
    fields = from_arrow_schema(STAGED, prefer_timestamp_ntz=False).fields
    return StructType([*fields[1:], fields[0]])


def staged_offsets(sources: Sources, until: datetime | None = None) -> DataFrame:
    """Derive intervals and pending commits: rows in the columns of ``STAGED``, ``kind`` saying what each is.

    Args:
        sources: the tables that tell about offsets.
        until: as if the log ended at this moment; None for its real end.
    """
    stage = partial(stage_offsets, knows_states=sources.timeline is not None)
    return offset_events(sources, until).mapInArrow(stage, from_arrow_schema(STAGED, prefer_timestamp_ntz=False))


def of_kind(staged: DataFrame, *kinds: Staged) -> DataFrame:
    """Staged rows of some kinds."""
    return staged.where(F.col("kind").isin([int(kind) for kind in kinds]))


def offset_history(staged: DataFrame, cluster: str, causes: DataFrame | None = None) -> DataFrame:
    """What each committed offset was, when: rows of table ``offset_history``.

    Args:
        staged: from ``staged_offsets``.
        cluster: name of the cluster.
        causes: from ``tombstone_causes``, for the rows that tombstones ended; without it, none of them says why.
    """
    if causes is None:
        return _history(staged.where(F.col("kind") != int(Staged.PENDING)), cluster)
    others = _history(of_kind(staged, Staged.CLOSED, Staged.OPEN), cluster)
    return others.unionByName(_history(causes, cluster))


def _history(rows: DataFrame, cluster: str, *more: str) -> DataFrame:
    ended = {name: F.col(name) if name in rows.columns else F.lit(None).cast(type_) for name, type_ in _ENDED.items()}
    return rows.select(
        F.lit(cluster).alias("cluster"),
        *HISTORY.names,
        F.lit(0).cast("bigint").alias("commits_merged"),
        *(column.alias(name) for name, column in ended.items()),
        *more,
    )


def pending_offsets(staged: DataFrame, cluster: str) -> DataFrame:
    """Transactional commits while their transaction was open: rows of table ``pending_offsets``.

    Those with valid_to null are pending at the end of the log read.

    Args:
        staged: from ``staged_offsets``.
        cluster: name of the cluster.
    """
    return _history(of_kind(staged, Staged.PENDING), cluster, *PRODUCER.names)


def thin_history(history: DataFrame, every_ms: int) -> DataFrame:
    """Keep the last commit of each stretch of time, for clusters where that is enough.

    What is kept is exact, but for valid_to and to_offset, which move to the next row that is kept, so that every moment
    has an answer: the last kept commit at or before it. The first commit after nothing held, and the last one before a
    tombstone, are kept whatever their time. ``commits_merged`` counts those left out before each row.

    Args:
        history: from ``offset_history``.
        every_ms: the stretch; they begin at multiples of it since 1970, UTC.
    """
    stretch = [F.floor(F.unix_millis(F.col(name)) / every_ms) for name in ("valid_from", "valid_to")]
    in_order = Window.partitionBy(*_KEY).orderBy("from_offset")
    goes_on = F.coalesce(F.lag("ended_by").over(in_order) == "COMMIT", F.lit(False))
    # One that went backwards is worth a row whatever its time.
    goes_forward = ~F.coalesce(F.col("committed_offset") < F.col("previous_offset"), F.lit(False))
    is_left_out = (
        goes_on
        & goes_forward
        & F.coalesce(F.col("ended_by") == "COMMIT", F.lit(False))
        & F.coalesce(stretch[0] == stretch[1], F.lit(False))
    )
    counted = history.withColumn("is_left_out", is_left_out).withColumn("row", F.row_number().over(in_order))
    kept = counted.where(~F.col("is_left_out"))
    ends_by_commit = F.col("ended_by") == "COMMIT"
    moved = {
        "valid_to": F.when(ends_by_commit, F.lead("valid_from").over(in_order)).otherwise(F.col("valid_to")),
        "to_offset": F.when(ends_by_commit, F.lead("from_offset").over(in_order)).otherwise(F.col("to_offset")),
        "commits_merged": (F.col("row") - F.coalesce(F.lag("row").over(in_order), F.lit(0)) - 1).cast("bigint"),
    }
    return kept.withColumns(moved).drop("row", "is_left_out")
