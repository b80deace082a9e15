"""Many small dumps, audited one after the other, end in the tables of one audit of everything.

Twelve are more runs than any table has commits between two checkpoints; twenty-five are more than any cache or retry
of a writer covers.
Through the command line, and judged by what the tables hold: nothing here knows how they are written.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from tests.acceptance.processes import QUICK, tables
from tests.pipeline.test_incremental import cut
from tests.samples import Sample

pytestmark = pytest.mark.spark

INTERNAL = {"group_state", "removed_offsets", "commit_totals"}
"""What only the next run reads: two histories of runs may leave it in different forms."""


def audit(dump: Path | str, warehouse: Path) -> None:
    thresholds = [part for threshold in QUICK for part in ("--threshold", threshold)]
    result = CliRunner().invoke(main, ["audit", str(dump), "--warehouse", str(warehouse), *thresholds])
    assert result.exit_code == 0, result.output


def contents(warehouse: Path) -> dict[str, list[str]]:
    return {name: rows for name, rows in tables(warehouse).items() if name not in INTERNAL}


@pytest.mark.parametrize("count", [12, pytest.param(25, marks=pytest.mark.long)])
def test_nights_end_in_the_tables_of_one_run_over_everything(count, spark, tmp_path):
    sample = Sample("group-lifecycles")
    nights = [tmp_path / f"night-{number:02}" for number in range(count)]
    cut(sample.segments, nights)
    for night in nights:
        # Each night is a process of its own: nothing that an earlier one has read of a table is at hand.
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        audit(night, tmp_path / "nights")
    audit(sample.segments, tmp_path / "whole")
    found, expected = contents(tmp_path / "nights"), contents(tmp_path / "whole")
    assert found.keys() == expected.keys()
    assert {name for name, rows in expected.items() if rows} >= {"offset_history", "group_timeline", "findings"}
    for name, rows in expected.items():
        # Which copies there were, and which of their records are kept to recognise the log, depends on the nights.
        if name not in ("log_copies", "log_partitions"):
            assert found[name] == rows, name
