"""The table group_metrics, from the log of a simulated coordinator."""

from pathlib import Path

import pytest

from coordinator_replay import Warehouse
from tests.completeness.random_lives import Step, write_life
from tests.pipeline.in_process import audit_here

DELETED: list[Step] = [("store", "mirror", ("orders", 0)), ("time", 1000), ("delete", "mirror"), ("time", 1000)]
WAITING: list[Step] = [("wait", "mirror", 7, [("orders", 1)]), ("time", 1000)]


@pytest.mark.parametrize(
    ("steps", "groups"),
    [
        (DELETED, 1),
        ([*DELETED, *WAITING], 2),
        ([*DELETED, ("store", "mirror", ("orders", 1))], 2),
        (WAITING, 2),
        ([*WAITING, ("end", 7, True)], 2),
        ([*WAITING, ("end", 7, False)], 1),
        ([*WAITING, ("delete", "mirror")], 1),
    ],
)
def test_a_group_that_only_has_offsets_counts_while_it_has_an_offset_or_a_pending_commit(
    steps: list[Step], groups: int, tmp_path: Path
):
    write_life(tmp_path / "life", "range", 1, [*steps, ("time", 1000), ("join", 1)])
    audit_here(tmp_path / "w", tmp_path / "life" / "segments")
    statement = "SELECT sum(group_count) FROM group_metrics WHERE bucket = (SELECT max(bucket) FROM group_metrics)"
    assert [*Warehouse(str(tmp_path / "w")).sql(statement)] == [(groups,)]
