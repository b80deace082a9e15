"""What tables tell about groups, out of their files: the events that Spark makes of the same rows."""

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.audit import Options, run_audit
from coordinator_replay.pipeline.commit_shares import SHARED
from coordinator_replay.pipeline.context_files import context_files
from coordinator_replay.pipeline.offset_events import Sources, context_events
from coordinator_replay.pipeline.warehouse import Warehouse
from tests.conftest import DATA

pytestmark = pytest.mark.spark


def in_micros(rows: DataFrame) -> DataFrame:
    moments = [name for name, type_ in rows.dtypes if type_ == "timestamp"]
    return rows.withColumns({name: F.unix_micros(name) for name in moments})


def test_files_tell_what_spark_tells(spark, tmp_path):
    for cluster in ("group-lifecycles", "expiration"):
        folder = sorted(path for path in (DATA / cluster).rglob("__consumer_offsets-*"))[0].parent
        run_audit(spark, Options(inputs=[str(folder)], warehouse=str(tmp_path), cluster=cluster))
    warehouse = Warehouse(spark, str(tmp_path))

    def mine(name):
        return warehouse.read(name).where("cluster = 'group-lifecycles'")

    told = {"rules": "expiry_rules", "ownership": "partition_ownership", "timeline": "group_timeline"}
    commits, markers = mine("offset_commits"), mine("control_records")
    sources = Sources(commits=commits, markers=markers, **{name: mine(table) for name, table in told.items()})
    rows = in_micros(context_events(sources)).collect()
    groups = sorted({row["group_id"] for row in rows})
    assert len(groups) > 5
    wanted = groups[::2]
    files = context_files(warehouse, "group-lifecycles")
    batches = list(files.events(pa.array(wanted, pa.string())))
    assert all(batch.schema == SHARED for batch in batches)
    plain = [pa.field(one.name, pa.int64()) if pa.types.is_timestamp(one.type) else one for one in SHARED]
    every = pa.Table.from_batches(batches).cast(pa.schema(plain))
    found = sorted(repr(row) for row in every.to_pylist())
    assert found == sorted(repr(row.asDict()) for row in rows if row["group_id"] in wanted)
    assert {row["kind"] for row in rows} == set(every.column("kind").to_pylist())
