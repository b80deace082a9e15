"""Many small dumps, audited one after the other, end in the tables of one audit of everything.

Twelve are more runs than any table has commits between two checkpoints; twenty-five, through the command line, are more
than any cache or retry of a writer covers. Judged by what the tables hold: nothing here knows how they are written.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from tests.acceptance.processes import QUICK, tables
from tests.pipeline import test_incremental
from tests.pipeline.in_process import audit_here, cut
from tests.samples import Sample

UNLIKE = {"group_state", "removed_offsets", "commit_totals", "log_copies", "log_partitions"}
"""What two histories of runs may leave in different forms: what only the next run reads, which copies there were."""


def contents(warehouse: Path) -> dict[str, list[str]]:
    return {name: rows for name, rows in tables(warehouse).items() if name not in UNLIKE}


def check_nights(count: int, folder: Path, audit: Callable[[Path | str, Path], None]) -> None:
    sample = Sample("group-lifecycles")
    nights = [folder / f"night-{number:02}" for number in range(count)]
    cut(sample.segments, nights)
    for night in nights:
        audit(night, folder / "nights")
    audit(sample.segments, folder / "whole")
    found, expected = contents(folder / "nights"), contents(folder / "whole")
    assert found.keys() == expected.keys()
    assert {name for name, rows in expected.items() if rows} >= {"offset_history", "group_timeline", "findings"}
    for name, rows in expected.items():
        assert found[name] == rows, name


@pytest.mark.long
def test_twelve_nights_end_in_the_tables_of_one_run_over_everything(tmp_path):
    def audit(dump: Path | str, warehouse: Path) -> None:
        audit_here(warehouse, dump, thresholds=test_incremental.QUICK)

    check_nights(12, tmp_path, audit)


@pytest.mark.long
@pytest.mark.spark
def test_twenty_five_nights_end_in_them_through_the_command_line(spark, tmp_path):
    def audit(dump: Path | str, warehouse: Path) -> None:
        # Each night is a process of its own: nothing that an earlier one has read of a table is at hand.
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        thresholds = [part for threshold in QUICK for part in ("--threshold", threshold)]
        result = CliRunner().invoke(main, ["audit", str(dump), "--warehouse", str(warehouse), *thresholds])
        assert result.exit_code == 0, result.output

    check_nights(25, tmp_path, audit)
