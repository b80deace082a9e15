"""The groups that exist at the end of the log, counted."""

from collections import Counter
from collections.abc import Iterator, Sequence

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.engine.model import GroupState
from coordinator_replay.pipeline.task_rows import dealt, per_task, rows_where
from coordinator_replay.pipeline.warehouse import Warehouse

_TABLE = "group_evidence"
_COUNTED = pa.schema([("group_type", pa.string()), ("state", pa.string()), ("count", pa.int64())])


def _by_spark(warehouse: Warehouse, cluster: str) -> DataFrame:
    rows = warehouse.read(_TABLE).where((F.col("cluster") == cluster) & (F.col("tag") == int(Evidence.STANDING)))
    now = rows.select(F.from_json("told", "group_type STRING, state STRING").alias("now")).select("now.*")
    return now.groupBy("group_type", "state").count()


def _by_files(warehouse: Warehouse, paths: Sequence[str], cluster: str) -> DataFrame:
    def count(mine: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = (pc.field("cluster") == cluster) & (pc.field("tag") == int(Evidence.STANDING))
        counts: Counter[tuple[str, str]] = Counter()
        for rows in rows_where(mine, ["told"], wanted):
            told = map(orjson.loads, rows.column("told").to_pylist())
            counts.update((one["group_type"], one["state"]) for one in told)
        rows_of = [{"group_type": type_, "state": state, "count": n} for (type_, state), n in counts.items()]
        yield pa.RecordBatch.from_pylist(rows_of, schema=_COUNTED)

    return per_task(warehouse.spark, dealt(warehouse.spark, paths), count, from_arrow_schema(_COUNTED))


def standing_groups(warehouse: Warehouse, cluster: str) -> dict[tuple[str, str], int]:
    """How many groups of a cluster exist, by type and state: an action.

    Args:
        warehouse: holds what the replay of groups wrote.
        cluster: whose groups.
    """
    held = warehouse.held(_TABLE)
    if held is None:
        counted = _by_spark(warehouse, cluster)
    else:
        # How a group stands is never final; files of final rows are not opened.
        counted = _by_files(warehouse, [one.path for one in held if one.nulls.get("settled_at_offset") != 0], cluster)
    groups: Counter[tuple[str, str]] = Counter()
    for row in counted.collect():
        if row["state"] != str(GroupState.DEAD):
            groups[(row["group_type"], row["state"])] += row["count"]
    return dict(groups)
