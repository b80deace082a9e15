"""Replay of decoded records as DataFrames, without a warehouse.

The records may come from the data source, from ``decode_record`` over somebody's copy of the topic, or from the
tables of an audit. Spark sends all records of a group to the same task. A task replays its groups one after the other.
So it holds only the state of one group and a batch of rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import StructType

from coordinator_replay.analysis.rows import Row
from coordinator_replay.errors import InputError
from coordinator_replay.garbage import few_collections
from coordinator_replay.pipeline.groups.input_rows import InputRow, records_in_order
from coordinator_replay.pipeline.groups.replay import ReplayContext
from coordinator_replay.pipeline.groups.replay import replay_groups as replay_rows
from coordinator_replay.pipeline.groups.signs import LastCommits, find_departures
from coordinator_replay.records.kinds import record_kinds
from coordinator_replay.store.duckdb_connection import connected
from coordinator_replay.store.scan import reader_of
from coordinator_replay.store.writer import batch_of
from coordinator_replay.tables.definition import table

TABLES = ("group_timeline", "member_timeline", "partition_ownership", "rebalances")
"""Results of a replay, under the names of an audit's tables."""

_INTERNAL = ("settled_at_offset", "bucket", "is_open")
"""Columns that only an incremental audit needs."""

_NEEDED = ("group_id", "kind", "key_json", "value_json", "log_partition", "log_offset")
_CHUNK_ROWS = 5_000

STREAM = pa.schema(
    [
        *table("group_records").arrow_schema([*_NEEDED, "value_version", "missing_before", "record_bytes"]),
        ("timestamp_ms", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("is_commit", pa.bool_()),
    ]
)
"""The input columns of a replay: the columns of ``InputRow``, and topic and partition of commits."""

_RECORDS_AND_COMMITS = """
CREATE TEMP TABLE stream AS
SELECT * EXCLUDE (timestamp_ms), make_timestamp(timestamp_ms * 1000) AS log_timestamp FROM batches;
CREATE TEMP VIEW records AS SELECT *, value_json IS NULL AS is_tombstone FROM stream WHERE NOT is_commit;
CREATE TEMP VIEW commits AS SELECT *, false AS is_tombstone FROM stream WHERE is_commit;
"""


def table_schema(name: str) -> pa.Schema:
    """Return the columns of one of TABLES."""
    whole = table(name).arrow_schema().remove_metadata()
    return pa.schema([field.remove_metadata() for field in whole if field.name not in _INTERNAL])


ROW = pa.schema([(name, pa.struct(list(table_schema(name)))) for name in TABLES])
"""Columns for one row of one table: a struct for each table. All structs are null except the struct of the row's
table."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Replayed history of groups, as DataFrames in the columns of an audit's tables.

    Spark replays the records each time one of the DataFrames is used. After ``persist``, Spark replays them only once.

    Attributes:
        group_timeline: one row for each event of a group.
        member_timeline: one row for each time range in which a member did not change.
        partition_ownership: one row for each time range in which a member owned a partition.
        rebalances: one row for each rebalance, with its cause and evidence.
        rows: all rows, with a struct for each table; exactly one struct is not null.
    """

    group_timeline: DataFrame
    member_timeline: DataFrame
    partition_ownership: DataFrame
    rebalances: DataFrame
    rows: DataFrame

    def persist(self) -> "Replay":
        """Let Spark keep ``rows`` in memory and on disk after the first use, and return this object.

        The four DataFrames of tables read ``rows``.
        """
        self.rows.persist()
        return self

    def unpersist(self) -> None:
        """Let Spark drop the rows that ``persist`` kept."""
        self.rows.unpersist()


def replay_groups(
    records: DataFrame,
    *,
    cluster: str = "default",
    topic_names: Mapping[str, str] | None = None,
    tasks: int | None = None,
) -> Replay:
    """Replay all groups of a DataFrame of decoded records.

    Nothing runs until a DataFrame of the result is used.

    Args:
        records: rows with group_id, kind, key_json, value_json, log_partition and log_offset, as in the data source,
            ``decode_record`` and the table ``group_records``. The columns log_timestamp, value_version, missing_before,
            record_bytes, topic and partition are used too if present. Offset commits may show which members were alive
            before a rebalance, and so its cause. Rows without a group (control records, damaged bytes) are left out. No
            record may come twice.
        cluster: the cluster's name in the results.
        topic_names: topic name by id, for KIP-848, share and streams groups, whose records name topics by id alone.
        tasks: number of tasks over which the groups are spread; None for ``spark.sql.shuffle.partitions``.

    Raises:
        InputError: the DataFrame lacks a column, or ``log_timestamp`` is no timestamp. If a record comes twice, the
            error comes only when Spark runs the job, and names the record.
    """
    count = tasks or int(str(records.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    context = ReplayContext(cluster=cluster, topic_names=dict(topic_names or {}))

    def replay(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _replayed(batches, context)

    # A partition has whole groups, so Spark maps it as a stream and needs no sort. The explicit number of partitions
    # keeps adaptive execution from merging tasks: adaptive execution sees only bytes, not the work in Python.
    by_group = replay_input(records).repartition(count, "group_id")
    rows = by_group.mapInArrow(replay, from_arrow_schema(ROW, prefer_timestamp_ntz=False))
    made = {name: rows.where(F.col(name).isNotNull()).select(f"{name}.*") for name in TABLES}
    return Replay(rows=rows, **made)


def replay_group(
    records: DataFrame,
    group_id: str,
    *,
    cluster: str = "default",
    topic_names: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Replay one group in this process, record by record, for people who debug.

    This function first fetches all records of the group from Spark.

    Args:
        records: as for ``replay_groups``.
        group_id: id of the group.
        cluster: the cluster's name in the results.
        topic_names: topic name by id.

    Yields:
        The name of a table and one of its rows, as soon as a record makes the row final; open rows come last. Times are
        milliseconds since 1970.

    Raises:
        InputError: as for ``replay_groups``; or there is no record of the group.
    """
    rows = replay_input(records).where(F.col("group_id") == group_id).collect()
    own = [pa.RecordBatch.from_pylist([row.asDict() for row in rows], STREAM)] if rows else []
    if not own:
        raise InputError(f"the DataFrame has no record of group {group_id!r}")
    context = ReplayContext(cluster=cluster, topic_names=dict(topic_names or {}))
    for name, row in _replay(own, context):
        if name in TABLES:
            yield name, {column: value for column, value in row.items() if column not in _INTERNAL}


def replay_input(records: DataFrame) -> DataFrame:
    """Return decoded records with the columns of STREAM.

    The columns ``key_json`` and ``value_json`` are null for offset commits. Leave out rows without a group and
    tombstones of offsets. If there is no column ``topic``, leave out all offset commits.

    Raises:
        InputError: a column of ``_NEEDED`` is missing, or ``log_timestamp`` is no timestamp.
    """
    types = {field.name: field.dataType.typeName() for field in records.schema}
    missing = [name for name in _NEEDED if name not in types]
    if missing:
        raise InputError(
            f"the DataFrame lacks {', '.join(missing)}: wanted are decoded records (at least {', '.join(_NEEDED)}), "
            f"found {', '.join(types) or 'no columns'}"
        )
    if "log_timestamp" in types and types["log_timestamp"] != "timestamp":
        raise InputError(f"column log_timestamp is of type {types['log_timestamp']}; wanted is timestamp")
    commit_kinds = [kind.name for kind in record_kinds().values() if kind.is_offset_commit]
    is_commit = F.col("kind").isNull() | F.col("kind").isin(commit_kinds)
    computed = {
        "timestamp_ms": F.unix_millis("log_timestamp") if "log_timestamp" in types else F.lit(None),
        "key_json": F.when(~is_commit, F.col("key_json")),
        "value_json": F.when(~is_commit, F.col("value_json")),
        "is_commit": is_commit,
    }
    defaults = {"missing_before": 0, "record_bytes": 0}

    def column(field: pa.Field) -> Column:
        expression = computed.get(field.name, F.col(field.name) if field.name in types else F.lit(None))
        typed = expression.cast(from_arrow_type(field.type))
        default = defaults.get(field.name)
        return (typed if default is None else F.coalesce(typed, F.lit(default))).alias(field.name)

    is_tombstone = F.col("is_tombstone") if "is_tombstone" in types else F.col("value_json").isNull()
    stores = ~is_tombstone if "topic" in types else F.lit(False)
    kept = records.where(F.col("group_id").isNotNull() & (~is_commit | stores))
    return kept.select(*map(column, STREAM))


def replay_schema(name: str) -> StructType:
    """Return the columns of one of TABLES, for ``replay_in_pandas``."""
    return from_arrow_schema(table_schema(name), prefer_timestamp_ntz=False)


def replay_in_pandas(
    name: str, *, cluster: str = "default", topic_names: Mapping[str, str] | None = None
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return the function that ``groupBy("group_id").applyInPandas`` takes to replay groups one by one.

    Use it for your own grouped maps. Spark calls the function once for each group, which costs more than
    ``replay_groups``. The records come from ``replay_input``, the columns of the result from ``replay_schema``::

        replay_input(log).groupBy("group_id").applyInPandas(replay_in_pandas("rebalances"), replay_schema("rebalances"))

    Args:
        name: the table whose rows the returned function makes; one of TABLES.
        cluster: the cluster's name in the results.
        topic_names: topic name by id.
    """
    context, schema = ReplayContext(cluster=cluster, topic_names=dict(topic_names or {})), table_schema(name)

    def replay(records: pd.DataFrame) -> pd.DataFrame:
        batch = pa.RecordBatch.from_pandas(records, schema=STREAM, preserve_index=False)
        own = [row for table_name, row in _replay([batch], context) if table_name == name]
        rows: pd.DataFrame = batch_of(own, schema).to_pandas()
        return rows

    return replay


def _replay(batches: Iterable[pa.RecordBatch], context: ReplayContext) -> Iterator[Row]:
    """Replay groups, and yield each row with the name of its table. Also yield rows of tables that are not in TABLES.

    Args:
        batches: all records of the groups, with the columns of STREAM, in any order.
        context: values that are the same for all groups, such as names of topics.
    """
    with connected() as connection:
        connection.register("batches", reader_of(batches, STREAM))
        connection.execute(_RECORDS_AND_COMMITS)
        signs = None if find_departures(connection) is None else LastCommits(connection)
        yield from replay_rows(_each_once(records_in_order(connection)), context, signs=signs)


def _each_once(rows: Iterable[InputRow]) -> Iterator[InputRow]:
    """Yield records unchanged, and check that no record comes twice.

    Args:
        rows: records sorted by group, log partition and log offset.

    Raises:
        InputError: a record comes twice.
    """
    before = None
    for row in rows:
        if before == (place := row[:3]):
            raise InputError(
                f"group {row.group_id!r}: the record at offset {row.log_offset} of log partition {row.log_partition} "
                f"comes twice; drop duplicates by log_partition and log_offset first"
            )
        before = place
        yield row


def _replayed(batches: Iterable[pa.RecordBatch], context: ReplayContext) -> Iterator[pa.RecordBatch]:
    """Replay groups, and yield the rows of TABLES in batches with the columns of ROW.

    Args:
        batches: all records of the groups, with the columns of STREAM, in any order.
        context: values that are the same for all groups, such as names of topics.
    """
    waiting: dict[str, list[Mapping[str, Any]]] = {name: [] for name in TABLES}
    with few_collections():
        for name, row in _replay(batches, context):
            if name not in waiting:
                continue
            waiting[name].append(row)
            if len(waiting[name]) >= _CHUNK_ROWS:
                yield _batch(name, waiting[name])
                waiting[name] = []
        yield from (_batch(name, rows) for name, rows in waiting.items() if rows)


def _batch(name: str, rows: list[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return rows of one table as a batch with the columns of ROW."""
    structs = batch_of(rows, table_schema(name)).to_struct_array()
    columns = [structs if field.name == name else pa.nulls(len(rows), field.type) for field in ROW]
    return pa.RecordBatch.from_arrays(columns, schema=ROW)
