"""What commits of each group and each minute come to: whole groups a task, and only sums leave it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.pipeline.commit_shares import Share, commits_of, shares_of
from coordinator_replay.pipeline.commit_sums import (
    COMMIT,
    GROUP_PART,
    GROUPS,
    MINUTE_PART,
    MINUTES,
    group_sums,
)
from coordinator_replay.pipeline.data_files import WRITTEN, DataFile, aside, files_of, read_files
from coordinator_replay.pipeline.group_rows import Files, Source
from coordinator_replay.pipeline.minute_states import STATES
from coordinator_replay.pipeline.task_rows import is_since, per_task
from coordinator_replay.pipeline.warehouse import Warehouse

AddUp = Callable[[Iterator[pa.RecordBatch], Callable[[], pa.Table]], Iterator[pa.RecordBatch]]

SHARE_ROWS = 5_000_000
"""A task keeps what its commits come to by partition and minute, not the commits."""


@dataclass(frozen=True, slots=True)
class Commits:
    """Commits of one cluster.

    Attributes:
        frame: rows of ``offset_commits``.
        shares: the files that hold them, in shares; None where only Spark can read them.
        cluster: whose they are.
    """

    frame: DataFrame
    shares: Sequence[Share] | None = None
    cluster: str = ""


class GroupSums(NamedTuple):
    """What commits come to.

    Attributes:
        groups: rows in GROUPS, several of a group where its commits are in several log partitions.
        minutes: rows in MINUTES, several of a minute.
    """

    groups: DataFrame
    minutes: DataFrame


def commits_since(warehouse: Warehouse, cluster: str, since: datetime | None) -> Commits:
    """The commits of a warehouse.

    Args:
        warehouse: holds them.
        cluster: whose commits.
        since: the moment before which they may be left out; None for no such.
    """
    rows = warehouse.read("offset_commits").where((F.col("cluster") == cluster) & is_since("log_timestamp", since))
    return Commits(rows, shares_of(warehouse, since, most_rows=SHARE_ROWS), cluster)


def sum_groups(
    commits: Commits,
    evidence: Source,
    *,
    hot: int,
    until: datetime,
    since: datetime | None,
    staging: str,
) -> GroupSums:
    """Add up commits by group and by minute.

    Args:
        commits: the commits.
        evidence: rows of ``group_evidence``, which tell what groups were when; STATES among their columns.
        hot: so many commits of each partition in a minute are too many.
        until: which minutes are over: those from before this moment.
        since: the moment before which commits do not count; None for no such.
        staging: a folder for what is needed more than once.
    """
    spark = commits.frame.sparkSession
    schemas = {GROUP_PART: GROUPS, MINUTE_PART: MINUTES}
    parts = {name: aside(f"{staging}/sums/{name}", schema) for name, schema in schemas.items()}
    add_up = group_sums(parts, hot=hot, until=until, since=since)
    if commits.shares is None or evidence.files is None:
        written = _shuffled(commits.frame, evidence.frame, add_up)
    else:
        written = _shared(spark, commits.shares, commits.cluster, evidence.files, add_up)
    files = files_of(written)
    return GroupSums(*(_rows(spark, files.get(name, []), schema) for name, schema in schemas.items()))


def _rows(spark: SparkSession, files: Sequence[DataFile], schema: pa.Schema) -> DataFrame:
    return read_files(spark, files, from_arrow_schema(schema, prefer_timestamp_ntz=False))


def _shared(spark: SparkSession, shares: Sequence[Share], cluster: str, evidence: Files, add_up: AddUp) -> DataFrame:
    """One task a share, which reads the commits' files."""

    def told() -> pa.Table:
        return evidence.read(STATES)

    def each(share: Share) -> Iterator[pa.RecordBatch]:
        return add_up(commits_of(share, cluster, COMMIT, whole_groups=True), told)

    return per_task(spark, shares, each, WRITTEN)


def _shuffled(commits: DataFrame, evidence: DataFrame, add_up: AddUp) -> DataFrame:
    """Commits and states of whole groups brought to tasks by Spark."""
    cluster = F.lit("").alias("cluster")
    states = evidence.where(F.col("tag") == int(Evidence.STATE)).select(*STATES.names)
    rows = commits.select(cluster, *COMMIT[1:]).unionByName(states, allowMissingColumns=True)

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []

        def commits_alone() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                is_state = pc.is_valid(batch.column("tag"))
                held.append(batch.filter(is_state).select(STATES.names).cast(STATES))
                yield batch.filter(pc.invert(is_state)).select(list(COMMIT))

        def told() -> pa.Table:
            return pa.Table.from_batches(held, STATES)

        yield from add_up(commits_alone(), told)

    return rows.repartition("group_id").mapInArrow(each, WRITTEN)
