"""A year of tiny nights with upkeep once a week: tables as after one run, files bounded, questions as quick as ever."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.pipeline.audit import Summary
from coordinator_replay.query.offsets import offsets_at
from coordinator_replay.query.rebalances import rebalances_of
from coordinator_replay.query.tables import Tables
from coordinator_replay.store.maintain import Upkeep, run_maintain
from tests.fleet import write_fleet
from tests.pipeline.in_process import audit, contents, cut

__all__ = ["audit"]

QUICK = Thresholds(stuck_ms=2000, storm_rebalances=6, silent_ms=5000, patience=1, never_committed_ms=5000)
"""So that a small log has findings of many kinds."""

NIGHTS = 365
MONTH = 28
WEEK = 7


def question_seconds(warehouse: Path) -> float:
    """Processor time of two questions, the best of five."""

    def ask() -> float:
        began = time.process_time()
        asked = Tables(str(warehouse))
        rebalances_of(asked, None)
        offsets_at(asked, "team-000001")
        return time.process_time() - began

    return min(ask() for _ in range(5))


@pytest.mark.long
def test_a_year_of_nights_is_as_one_run(audit: Callable[..., Summary], tmp_path: Path):
    dump, warehouse = write_fleet(tmp_path / "dump"), tmp_path / "warehouse"
    nights = [tmp_path / f"night-{number:03}" for number in range(NIGHTS)]
    cut(str(dump), nights)
    quick: list[float] = []
    files: list[int] = []
    for number, night in enumerate(nights):
        audit(warehouse, night, thresholds=QUICK, buckets=None)
        if number % WEEK == WEEK - 1:
            later = datetime.now(UTC) + timedelta(days=2)
            kept = run_maintain(
                Upkeep(warehouse=str(warehouse), vacuum_after=timedelta(hours=1), force=True), now=later
            )
            if number >= MONTH - 1:
                quick.append(question_seconds(warehouse))
                files.append(sum(one.after.files for one in kept))
    audit(tmp_path / "whole", dump, thresholds=QUICK, buckets=None)
    found, expected = contents(warehouse), contents(tmp_path / "whole")
    assert [name for name in expected if found[name] != expected[name]] == []
    assert len(quick) > 2
    # Each bucket has its open and its closed rows, and they become more only as buckets come into use.
    assert files[-1] <= 2 * files[0] + 50
    assert min(quick[-3:]) <= 1.5 * min(quick[:3])
