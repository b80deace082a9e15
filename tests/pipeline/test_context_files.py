"""What tables tell about groups and what held, out of their files: the events that Spark makes of the same rows."""

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.audit import Options, run_audit
from coordinator_replay.pipeline.commit_shares import SHARED
from coordinator_replay.pipeline.context_files import context_files
from coordinator_replay.pipeline.held_files import held_files
from coordinator_replay.pipeline.offset_events import Sources, context_events, other_events
from coordinator_replay.pipeline.restart import Restart
from coordinator_replay.pipeline.warehouse import Warehouse
from tests.conftest import DATA

pytestmark = pytest.mark.spark


def in_micros(rows: DataFrame) -> DataFrame:
    moments = [name for name, type_ in rows.dtypes if type_ == "timestamp"]
    return rows.withColumns({name: F.unix_micros(name) for name in moments})


@pytest.fixture(scope="module")
def warehouse(spark, tmp_path_factory):
    """Two clusters in one warehouse."""
    folder = str(tmp_path_factory.mktemp("warehouse"))
    for cluster in ("group-lifecycles", "expiration"):
        dump = sorted(path for path in (DATA / cluster).rglob("__consumer_offsets-*"))[0].parent
        run_audit(spark, Options(inputs=[str(dump)], warehouse=folder, cluster=cluster))
    return Warehouse(spark, folder)


def read(warehouse, name):
    return warehouse.read(name).where("cluster = 'group-lifecycles'")


def as_told(batches):
    """What batches of events hold, times in microseconds."""
    assert all(batch.schema == SHARED for batch in batches)
    plain = [pa.field(one.name, pa.int64()) if pa.types.is_timestamp(one.type) else one for one in SHARED]
    return sorted(repr(row) for row in pa.Table.from_batches(batches).cast(pa.schema(plain)).to_pylist())


def test_files_tell_what_spark_tells_of_groups(warehouse):
    told = {"rules": "expiry_rules", "ownership": "partition_ownership", "timeline": "group_timeline"}
    known = {name: read(warehouse, table) for name, table in told.items()}
    commits, markers = read(warehouse, "offset_commits"), read(warehouse, "control_records")
    rows = in_micros(context_events(Sources(commits=commits, markers=markers, **known))).collect()
    groups = sorted({row["group_id"] for row in rows})
    assert len(groups) > 5
    wanted = groups[::2]
    batches = list(context_files(warehouse, "group-lifecycles").events(pa.array(wanted, pa.string())))
    assert as_told(batches) == sorted(repr(row.asDict()) for row in rows if row["group_id"] in wanted)
    assert len({row["kind"] for row in rows}) > 2


def test_files_tell_what_spark_tells_of_offsets_that_held(warehouse):
    history, markers = read(warehouse, "offset_history"), read(warehouse, "control_records")
    begins = history.groupBy("log_partition").agg(F.percentile_approx("from_offset", 0.6).alias("at")).collect()
    groups = frozenset(row["group_id"] for row in history.select("group_id").distinct().limit(2).collect())
    for anew in (frozenset(), groups):
        restart = Restart({row["log_partition"]: row["at"] for row in begins}, anew)
        held = restart.held(history)
        no_commits = read(warehouse, "offset_commits").where("FALSE")
        rows = in_micros(other_events(Sources(commits=no_commits, markers=markers, held=held))).collect()
        assert len(rows) > 5
        batches = list(held_files(warehouse, "group-lifecycles", restart).events())
        assert as_told(batches) == sorted(repr(row.asDict()) for row in rows)
