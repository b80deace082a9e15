"""What each committed offset was, when, and what was pending: ``offset_history`` and ``pending_offsets``.

Both come from staged rows, which one pass over the sorted events makes (``offset_pass``).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.pipeline.commit_shares import Context, Covers, Share, kept_context, kept_others, share_of_events
from coordinator_replay.pipeline.commit_sums import HISTORY as SUMMED
from coordinator_replay.pipeline.commit_sums import interval_sums
from coordinator_replay.pipeline.data_files import (
    WRITTEN,
    DataFile,
    DataFiles,
    Part,
    conform,
    files_of,
    keep,
    paths_of,
    some,
    written_rows,
)
from coordinator_replay.pipeline.offset_events import Sources, context_events, offset_events, other_events
from coordinator_replay.pipeline.offset_pass import stage_offsets
from coordinator_replay.pipeline.offset_stage import HISTORY, PRODUCER, STAGED, Staged
from coordinator_replay.pipeline.session import short_rows
from coordinator_replay.pipeline.task_rows import per_task

HISTORY_PART, PENDING_PART = "offset_history", "pending_offsets"
HELD_PART, WAITING_PART = "held", "waiting"
OPEN_PART, REMOVED_PART = "open", "removed"
_PARTS = {
    Staged.CLOSED: (HISTORY_PART,),
    Staged.OPEN: (HELD_PART, OPEN_PART),
    Staged.REMOVED: (REMOVED_PART,),
}
"""Where intervals of each kind are written."""


class Beside(NamedTuple):
    """What tasks of shares read themselves beside plain commits.

    Attributes:
        context: tells what is known of groups.
        held: tells the offsets that hold when the commits begin; None where none do.
        may_wait: whether any commit may wait for a transaction's marker.
    """

    context: Context
    held: Callable[[], Iterator[pa.RecordBatch]] | None = None
    may_wait: bool = True


_KEY = ("log_partition", "group_id", "topic", "partition")
_ENDED = {"ended_confidence": "string", "ended_alternatives": "array<string>", "ended_evidence": "array<string>"}


def staged_offsets(sources: Sources, until: datetime | None = None) -> DataFrame:
    """Derive intervals and pending commits: rows in the columns of ``STAGED``, ``kind`` saying what each is.

    Args:
        sources: the tables that tell about offsets.
        until: as if the log ended at this moment; None for its real end.
    """
    stage = partial(stage_offsets, knows_states=sources.timeline is not None)
    return offset_events(sources, until).mapInArrow(stage, from_arrow_schema(STAGED, prefer_timestamp_ntz=False))


def write_offsets(
    sources: Sources,
    parts: Mapping[str, Part],
    cluster: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    shares: Sequence[Share] | None = None,
    are_covered: Covers | None = None,
    beside: Beside | None = None,
    staging: str = "",
) -> dict[str, list[DataFile]]:
    """Derive intervals and pending commits and write them: an action.

    Rows of ``offset_history`` that no tombstone ended, and those of ``pending_offsets``, are written as they stand in
    their tables; those that are open or ended lately in files of their own, since the next run puts others in their
    place. What expiry has to look at is kept as staged rows beside.

    Args:
        sources: the tables that tell about offsets.
        parts: where the rows of HISTORY_PART and HELD_PART go, those of PENDING_PART and WAITING_PART, and those of
            OPEN_PART and REMOVED_PART; with ``until``, those of HISTORY_PARTS.
        cluster: name of the cluster.
        since: from when on an end is late; None for none.
        until: add all rows of the history up, those from before this moment apart; None does not.
        shares: from ``plan_shares``, of the files that hold ``sources.commits`` and those of other clusters; None
            shuffles them.
        are_covered: tells which commits of those files are ``sources.commits``; None takes all of the cluster.
        beside: what tasks of shares read beside commits; None makes it of ``sources``.
        staging: a folder for what shares need beside their files.

    Returns:
        the files of each part.
    """
    parts = dict(parts)
    late = pa.scalar(since or datetime.max.replace(tzinfo=UTC), pa.timestamp("us", tz="UTC"))
    stage = partial(stage_offsets, knows_states=beside is not None or sources.timeline is not None)

    def add(files: DataFiles, names: Sequence[str], rows: pa.RecordBatch) -> None:
        for name in names if rows.num_rows else ():
            files.add(name, conform(rows, parts[name].schema, cluster=cluster, commits_merged=0))

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = DataFiles(parts)
        for batch in stage(batches):
            kinds = batch.column("kind").to_numpy(zero_copy_only=False)
            _add_up(files, some(batch, kinds != Staged.PENDING), until)
            is_open = batch.column("to_offset").is_null().to_numpy(zero_copy_only=False)
            ended = pc.fill_null(pc.greater_equal(batch.column("valid_to"), late), False)
            is_late = ended.to_numpy(zero_copy_only=False) & (kinds == Staged.CLOSED)
            add(files, (HELD_PART,), some(batch, is_late))
            for kind, names in _PARTS.items():
                add(files, names, some(batch, (kinds == kind) & ~is_late))
            is_pending = kinds == Staged.PENDING
            add(files, (PENDING_PART,), some(batch, is_pending & ~is_open))
            add(files, (WAITING_PART,), some(batch, is_pending & is_open))
        yield from written_rows(files.close())

    if shares is not None:
        return files_of(_per_share(sources, cluster, shares, are_covered, beside, staging, write))
    events = offset_events(sources)
    # The strings of a commit are at most 32 KiB each, and most are a few bytes.
    with short_rows(events.sparkSession):
        return files_of(events.mapInArrow(write, WRITTEN))


def _add_up(files: DataFiles, rows: pa.RecordBatch, until: datetime | None) -> None:
    """Write what rows of the history come to, if that is asked for."""
    if until is None or not rows.num_rows:
        return
    columns = {name: rows.column(name) for name in SUMMED if name in STAGED.names}
    columns["commits_merged"] = pa.repeat(0, rows.num_rows)
    for name, sums in interval_sums(columns, until):
        files.add(name, sums)


def _per_share(
    sources: Sources,
    cluster: str,
    shares: Sequence[Share],
    are_covered: Covers | None,
    beside: Beside | None,
    staging: str,
    write: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> DataFrame:
    """One task a share; returns what they wrote, in WRITTEN."""

    def kept(name: str, rows: DataFrame | None) -> list[str]:
        return [] if rows is None else paths_of(keep(rows, f"{staging}/{name}"))

    with ThreadPoolExecutor(1) as pool:
        # Most logs have next to no others: finding that out takes as long as writing the context.
        may_wait = beside is None or beside.may_wait
        finding = pool.submit(kept, "others", other_events(sources)) if may_wait else None
        told = Beside(kept_context(kept("context", context_events(sources)))) if beside is None else beside
        marked = kept_others([] if finding is None else finding.result())

    def others(share: Share) -> Iterator[pa.RecordBatch]:
        return marked(share) if told.held is None else chain(marked(share), told.held())

    def each(share: Share) -> Iterator[pa.RecordBatch]:
        return write(share_of_events(share, cluster, others, told.context, are_covered=are_covered))

    return per_task(sources.commits.sparkSession, shares, each, WRITTEN)


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
        return history_of(staged.where(F.col("kind") != int(Staged.PENDING)), cluster)
    others = history_of(of_kind(staged, Staged.CLOSED, Staged.OPEN), cluster)
    return others.unionByName(history_of(causes, cluster))


def history_of(rows: DataFrame, cluster: str, *more: str) -> DataFrame:
    """Staged rows, or those of ``tombstone_causes``, in the columns of ``offset_history``, and some more of theirs."""
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
    return history_of(of_kind(staged, Staged.PENDING), cluster, *PRODUCER.names)


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
