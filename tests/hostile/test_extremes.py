"""No value of any field, and no time of the log, ends an audit or changes what is said about others.

Each of a hundredth of all lives has an extreme value, or several; sixty innocent groups share their log partitions. The
long tests take all lives, in twenty parts. EXTREMES_SEED sets another beginning.
"""

import json
import os
import random
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.hostile import extremes
from tests.hostile.questions import ask, faults, one_group, whole_cluster
from tests.pipeline.in_process import audit_here, contents

SEED = int(os.environ.get("EXTREMES_SEED", "1"))
PARTS = 20
SHARES = [
    # By day test_every_field.py tries extremes of every field beside neighbours that must live as they do alone.
    pytest.param((0, 100), id="a hundredth", marks=[pytest.mark.long]),
    *(pytest.param((n, PARTS), id=f"part {n + 1} of {PARTS}", marks=[pytest.mark.long]) for n in range(PARTS)),
]

Tables = dict[str, list[str]]

_RUN = re.compile(r"\b20\d{6}T\d{6}\.\d{6}Z")


class Tried(NamedTuple):
    """A log of extremes, the warehouse of it, and that of its twin; of so many parts of all lives it has one."""

    log: extremes.Log
    warehouse: Path
    twin: Path
    parts: int


@pytest.fixture(scope="module", params=SHARES)
def tried(request, tmp_path_factory) -> Tried:
    part, parts = request.param
    folder = tmp_path_factory.mktemp("extremes")
    lives = extremes.hostile_lives(SEED, part, parts)
    log = extremes.write(folder, lives, random.Random(f"{SEED}, {part} of {parts}"))
    audit_here(folder / "twin-warehouse", log.twin)
    done = audit_here(folder / "warehouse", log.dump, **logged(log))
    assert done.run.groups_failed == 0, done.run.notes
    return Tried(log, folder / "warehouse", folder / "twin-warehouse", parts)


def logged(log: extremes.Log) -> dict[str, Any]:
    """The broker's log, as an audit takes it."""
    return {"broker_logs": [str(log.broker_log)], "broker_log_zone": "UTC"}


def of_innocent(tables: Tables, log: extremes.Log) -> Tables:
    innocent = set(log.innocent)
    return {name: [row for row in rows if json.loads(row).get("group_id") in innocent] for name, rows in tables.items()}


def alike_in_nights(tables: Tables) -> Tables:
    """Without the file that a record was in."""
    rows = (json.loads(row) for row in tables["quarantine"])
    kept = [{column: value for column, value in row.items() if column != "source"} for row in rows]
    return {**tables, "quarantine": sorted(json.dumps(row, sort_keys=True) for row in kept)}


def assert_same(found: Tables, expected: Tables, log: extremes.Log) -> None:
    for table, rows in expected.items():
        others = set(found[table]) ^ set(rows)
        named = {log.told.get(json.loads(row).get("group_id") or "", row) for row in others}
        assert not named, (table, sorted(named)[:5], sorted(others)[:4])


def test_extremes_end_no_audit_and_change_nothing_for_others(tried, tmp_path):
    expected = contents(tried.warehouse)
    alone = of_innocent(contents(tried.twin), tried.log)
    assert len(tried.log.innocent) == extremes.INNOCENT
    assert all(alone[name] for name in ("group_timeline", "offset_history", "rebalances", "findings"))
    assert any(json.loads(row)["reasons"] for row in expected["rebalances"])
    assert_same(of_innocent(expected, tried.log), alone, tried.log)
    expected = alike_in_nights(expected)
    again = [(tried.log.dump, {}), (tried.log.dump, {"full": True})] if tried.parts == PARTS else []
    for dump, options in ((tried.log.nights[0], {}), (tried.log.nights[1], {}), *again):
        audit_here(tmp_path / "nights", dump, **logged(tried.log), **options)
        if dump != tried.log.nights[0]:
            assert_same(alike_in_nights(contents(tmp_path / "nights")), expected, tried.log)


def answers(warehouse: Path, group: str, folder: Path) -> dict[str, str]:
    """Answers about a group, but for the run that a finding was stored by."""
    return {str(question): _RUN.sub("run", ask(warehouse, question).output) for question in one_group(group, folder)}


@pytest.mark.long
def test_every_question_is_answered_and_innocent_groups_have_the_answers_that_they_have_alone(tried, tmp_path):
    rng = random.Random(SEED)
    questions = [*whole_cluster(tmp_path), ["report", "--out", str(tmp_path / "pages")]]
    wrong = [fault for question in questions for fault in faults(ask(tried.warehouse, question), question)]
    for group in rng.sample(sorted(tried.log.told), 8):
        for question in one_group(group, tmp_path):
            wrong += [f"{tried.log.told[group]}: {one}" for one in faults(ask(tried.warehouse, question), question)]
    assert wrong == []
    for group in rng.sample(tried.log.innocent, 2):
        assert answers(tried.warehouse, group, tmp_path) == answers(tried.twin, group, tmp_path)
