"""Records without a time, as message format 0 has none: what they tell has no time either, and is never of 1970."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hostile import recordings
from tests.hostile.questions import ask, faults, one_group, whole_cluster
from tests.pipeline.in_process import audit, contents

__all__ = ["audit"]

NONE = -1


@pytest.fixture
def groups(tmp_path: Path) -> dict[str, int]:
    """Writes lives of all kinds twice: without any time, and with none in their first half.

    Returns:
        how many records of each group have no time.
    """
    chosen = [life for life in recordings.recorded_lives() if 6 <= len(life) <= 40][::7]
    counts, entries = {}, []
    for number, life in enumerate(chosen):
        for name, count in (("never", len(life)), ("late", len(life) // 2)):
            group = f"{name}-{number}"
            counts[group] = count
            timed = [
                recordings.Entry(one.record, NONE if place < count else one.at_ms)
                for place, one in enumerate(recordings.renamed(life, group))
            ]
            entries += recordings.encoded(tuple(timed))
    recordings.write_log(tmp_path / "dump", entries, batch=1)
    return counts


def rows_of(tables: dict[str, list[str]], name: str) -> list[dict[str, Any]]:
    return [json.loads(row) for row in tables[name]]


def test_nothing_is_of_1970_and_what_is_over_is_over(groups, audit, tmp_path):
    done = audit(tmp_path / "warehouse", tmp_path / "dump")
    assert done.run.groups_failed == 0, done.run.notes
    tables = contents(tmp_path / "warehouse")
    for name, rows in tables.items():
        assert [row for row in rows if "1970-01-01" in row] == [], name
    members = [row for row in rows_of(tables, "member_timeline") if row["group_id"].startswith("never")]
    assert members
    assert {(row["valid_from"], row["valid_to"]) for row in members} == {(None, None)}
    rebalances = [row for row in rows_of(tables, "rebalances") if row["group_id"].startswith("late")]
    assert any(row["completed_at"] is None and row["completed_offset"] is not None for row in rebalances)
    assert any(row["completed_at"] is not None for row in rebalances)
    names = {row["group_id"] for row in rows_of(tables, "group_timeline")}
    assert names >= {name for name in groups if name.startswith("never")}


def test_what_they_were_at_the_end_is_what_they_are_with_times(groups, audit, tmp_path):
    audit(tmp_path / "warehouse", tmp_path / "dump")
    for group in groups:
        if group.startswith("never"):
            twin = group.replace("never", "late")
            for question in (["describe"], ["offsets"]):
                found, expected = (
                    ask(tmp_path / "warehouse", [*question, one, "--output", "json"]) for one in (group, twin)
                )
                if expected.exit_code:
                    continue
                assert found.exit_code == 0, found.output
                told, wanted = ([json.loads(line) for line in one.stdout.splitlines()] for one in (found, expected))
                assert places(told) == places(wanted), (group, question)


def places(told: Any) -> Any:
    """Who has what, without times and the group's name."""
    if isinstance(told, dict):
        kept = ("state", "members", "member_id", "current_assignment", "topic", "partition", "partitions")
        return {name: places(value) for name, value in told.items() if name in (*kept, "committed_offset")}
    return [places(one) for one in told] if isinstance(told, list) else told


@pytest.mark.long
def test_every_question_is_answered(groups, audit, tmp_path):
    audit(tmp_path / "warehouse", tmp_path / "dump")
    questions = [
        *whole_cluster(tmp_path),
        *(one for group in sorted(groups)[::5] for one in one_group(group, tmp_path)),
    ]
    wrong = [fault for question in questions for fault in faults(ask(tmp_path / "warehouse", question), question)]
    assert wrong == []
