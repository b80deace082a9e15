"""Offsets that went far ahead: beside progress, after a loss, and never across topics or records that are missing."""

from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import offset, write_small_warehouse


def committed(partition: int, value: int, start: str, end: str | None, at: int, **columns: Any) -> dict[str, Any]:
    places = {"from_offset": at, "to_offset": None if end is None else at + 1}
    return offset("x", partition, value, start, end, group_id="g", **places, **columns)


ROWS = [
    # 10 a second, then 6,000 in five seconds.
    committed(0, 0, "02:00", "02:10", 1),
    committed(0, 6000, "02:10", "02:10:05", 2, previous_offset=0),
    committed(0, 12_000, "02:10:05", None, 3, previous_offset=6000),
    # Expired at 500, and committed again at 9,000: nothing says what became of those between.
    committed(1, 500, "02:00", "02:05", 4, ended_by="EXPIRED"),
    committed(1, 9000, "02:06", None, 5),
    # A negative offset lost the position.
    committed(2, 10, "02:00", "02:01", 6),
    committed(2, -1, "02:01", "02:02", 7, replaced_offset=10),
    committed(2, 5010, "02:02", None, 8, replaced_offset=-1),
    # Another topic of the name, and records that are missing: no two offsets to compare.
    committed(3, 10, "02:00", "02:01", 9, topic_id="a"),
    committed(3, 8000, "02:01", None, 10, topic_id="b", replaced_offset=10),
    committed(4, 10, "02:00", "02:01", 11, ended_by="RECORDS_MISSING"),
    committed(4, 8000, "02:02", None, 12),
    # Too short a way, and back.
    committed(5, 10, "02:00", "02:01", 13),
    committed(5, 1000, "02:01", "02:02", 14, previous_offset=10),
    committed(5, 2, "02:02", None, 15, previous_offset=1000),
    # Back to the beginning, one a second, then 9,000 in five seconds.
    committed(6, 5000, "02:00", "02:01", 16),
    committed(6, 0, "02:01", "02:11", 17, previous_offset=5000),
    committed(6, 600, "02:11", "02:11:05", 18, previous_offset=0),
    committed(6, 9600, "02:11:05", None, 19, previous_offset=600),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = write_small_warehouse(Path(tmp_path_factory.mktemp("jumps")), offset_history=ROWS)
    names, rows = run_saved_query(Tables(str(folder)), "jumps-ahead", {"group": "g"})
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_jumps_are_listed_by_how_far_they_went(found: list[dict[str, Any]]):
    assert [(row["partition"], row["previous_offset"], row["delta"], row["lost_by"]) for row in found] == [
        (6, 600, 9000, None),
        (1, 500, 8500, "EXPIRED"),
        (0, 0, 6000, None),
        (0, 6000, 6000, None),
        (2, 10, 5000, "NEGATIVE_OFFSET"),
    ]


def test_the_time_since_the_commit_before_tells_a_jump_from_progress(found: list[dict[str, Any]]):
    paces = [(row["since_previous_ms"], row["usual_per_second"]) for row in found if row["partition"] == 0]
    assert paces == [(600_000, None), (5000, 10.0)]


def test_the_usual_pace_is_that_since_the_last_step_back(found: list[dict[str, Any]]):
    assert [row["usual_per_second"] for row in found if row["partition"] == 6] == [1.0]
