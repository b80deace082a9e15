"""Dumps that are tables, read by Spark."""

import pytest

from coordinator_replay.errors import InputError
from coordinator_replay.log.dump import Dump
from coordinator_replay.log.dump_format import Format
from coordinator_replay.pipeline.read.sources import read_tables


@pytest.mark.parametrize("form", [Format.PARQUET, Format.DELTA])
@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "gs"])
def test_a_store_that_spark_has_no_connector_for_is_told_with_a_way_out(spark, scheme, form):
    dump = Dump(form, paths=[f"{scheme}://dumps/2026-11-20"])
    with pytest.raises(InputError, match=f"^{scheme}://dumps/2026-11-20: .* has no connector .*docs/cluster.md"):
        read_tables(spark, dump)
