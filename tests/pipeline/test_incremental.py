"""A log audited in slices ends in the tables that one audit of all of it gives."""

from pathlib import Path

import pytest

from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.log.segment import walk_batches
from coordinator_replay.pipeline.audit import FOUND_TABLES, Options, run_audit
from coordinator_replay.pipeline.offset_tables import OFFSET_TABLES
from coordinator_replay.pipeline.replay import GROUP_TABLES
from tests.samples import Sample

pytestmark = pytest.mark.spark

QUICK = Thresholds(stuck_ms=2000, storm_rebalances=6, silent_ms=5000, patience=1, never_committed_ms=5000)
"""So that lives of seconds have findings."""


def cut(segments: str, into: list[Path]) -> None:
    """Cut each segment at batch boundaries into as many files as there are folders."""
    for file in Path(segments).rglob("*.log"):
        raw = file.read_bytes()
        starts = [(int(p), int(o)) for s in walk_batches(raw) for p, o in zip(s.positions, s.base_offsets, strict=True)]
        marks = [starts[len(starts) * part // len(into)] for part in range(len(into))] if starts else []
        for (start, base), end, folder in zip(marks, [mark[0] for mark in marks[1:]] + [len(raw)], into, strict=False):
            place = folder / file.parent.name
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{base:020d}.log").write_bytes(raw[start:end])


def content(spark, warehouse, table):
    rows = spark.read.format("delta").load(f"{warehouse}/{table}").collect()
    return sorted(repr(row.asDict(recursive=True)) for row in rows)


def test_slices_end_in_the_tables_of_one_run_over_everything(spark, tmp_path):
    sample = Sample("java-clients")
    slices = [tmp_path / "night-1", tmp_path / "night-2"]
    cut(sample.segments, slices)
    whole, sliced = str(tmp_path / "whole"), str(tmp_path / "sliced")
    run_audit(spark, Options(inputs=[sample.segments], warehouse=whole, thresholds=QUICK))
    for folder in slices:
        run_audit(spark, Options(inputs=[str(folder)], warehouse=sliced, thresholds=QUICK))
    for table in ("offset_commits", "group_records", "topics", *GROUP_TABLES, *OFFSET_TABLES, *FOUND_TABLES):
        assert content(spark, sliced, table) == content(spark, whole, table), table
    found = spark.read.format("delta").load(f"{whole}/findings").select("rule").distinct().collect()
    assert {row["rule"] for row in found} >= {"stuck_group", "rebalance_storm", "offset_rewind", "silent_group"}
    # Other thresholds, no news: every group is judged anew.
    again = run_audit(spark, Options(inputs=[sample.segments], warehouse=sliced))
    assert again.findings == {"warning": 1}


def test_a_full_run_makes_up_for_one_that_wrote_records_only(spark, tmp_path):
    sample = Sample("transactions")
    late, whole = str(tmp_path / "late"), str(tmp_path / "whole")
    run_audit(spark, Options(inputs=[sample.segments], warehouse=late, records_only=True))
    assert not content(spark, late, "offset_history")
    run_audit(spark, Options(inputs=[sample.segments], warehouse=late))
    run_audit(spark, Options(inputs=[sample.segments], warehouse=whole))
    for table in (*OFFSET_TABLES, *GROUP_TABLES):
        assert content(spark, late, table) == content(spark, whole, table), table
