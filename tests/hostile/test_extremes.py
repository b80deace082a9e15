"""No value of any field, and no time of the log, ends an audit or changes what is said about others.

Each of a share of all lives (a hundredth in every run of the tests, all of them in the long one) has an extreme value,
or several; sixty innocent groups share their log partitions. EXTREMES_SEED sets another beginning.
"""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.hostile import extremes
from tests.hostile.questions import ask, faults, one_group, whole_cluster
from tests.pipeline.in_process import audit, contents

__all__ = ["audit"]

SEED = int(os.environ.get("EXTREMES_SEED", "1"))
SHARES = [pytest.param(0.01, id="a share"), pytest.param(1.0, id="all", marks=[pytest.mark.long])]

Tables = dict[str, list[str]]


class Tried(NamedTuple):
    """A log of extremes, the warehouse of it, and that of its twin."""

    log: extremes.Log
    warehouse: Path
    twin: Path


def write_and_audit(audit: Callable[..., Any], folder: Path, share: float) -> Tried:
    rng = random.Random(SEED)
    log = extremes.write(folder, extremes.hostile_lives(rng, share), rng)
    audit(folder / "twin-warehouse", log.twin)
    done = audit(folder / "warehouse", log.dump)
    assert done.run.groups_failed == 0, done.run.notes
    return Tried(log, folder / "warehouse", folder / "twin-warehouse")


def of_innocent(tables: Tables, log: extremes.Log) -> Tables:
    innocent = set(log.innocent)
    return {name: [row for row in rows if json.loads(row).get("group_id") in innocent] for name, rows in tables.items()}


def without_pauses(tables: Tables, log: extremes.Log) -> Tables:
    """Without the pauses of groups whose times jump: they end an hour after the rebalance by these times."""
    rows = []
    for text in tables["rebalances"]:
        row = json.loads(text)
        if row["group_id"] in log.told:
            row.pop("commit_pause_ms")
            row.pop("is_open")
        rows.append(json.dumps(row, sort_keys=True))
    return {**tables, "rebalances": sorted(rows)}


def assert_same(found: Tables, expected: Tables, log: extremes.Log) -> None:
    for table, rows in expected.items():
        others = set(found[table]) ^ set(rows)
        named = {log.told.get(json.loads(row).get("group_id") or "", row) for row in others}
        assert not named, (table, sorted(named)[:5], sorted(others)[:4])


@pytest.mark.parametrize("share", SHARES)
def test_extremes_end_no_audit_and_change_nothing_for_others(share, audit, tmp_path):
    tried = write_and_audit(audit, tmp_path, share)
    expected = contents(tried.warehouse)
    alone = of_innocent(contents(tried.twin), tried.log)
    assert len(tried.log.innocent) == extremes.INNOCENT
    assert all(alone[name] for name in ("group_timeline", "offset_history", "rebalances", "findings"))
    assert_same(of_innocent(expected, tried.log), alone, tried.log)
    expected = without_pauses(expected, tried.log)
    for dump, options in (
        (tried.log.nights[0], {}),
        (tried.log.nights[1], {}),
        (tried.log.dump, {}),
        (tried.log.dump, {"full": True}),
    ):
        audit(tmp_path / "nights", dump, **options)
        if dump != tried.log.nights[0]:
            assert_same(without_pauses(contents(tmp_path / "nights"), tried.log), expected, tried.log)


def answers(warehouse: Path, group: str, folder: Path) -> dict[str, str]:
    return {str(question): ask(warehouse, question).output for question in one_group(group, folder)}


@pytest.mark.long
def test_every_question_is_answered_and_innocent_groups_have_the_answers_that_they_have_alone(audit, tmp_path):
    tried = write_and_audit(audit, tmp_path, 0.05)
    rng = random.Random(SEED)
    wrong = [
        fault for question in whole_cluster(tmp_path) for fault in faults(ask(tried.warehouse, question), question)
    ]
    for group in rng.sample(sorted(tried.log.told), 12):
        for question in one_group(group, tmp_path):
            wrong += [f"{tried.log.told[group]}: {one}" for one in faults(ask(tried.warehouse, question), question)]
    assert wrong == []
    for group in rng.sample(tried.log.innocent, 5):
        assert answers(tried.warehouse, group, tmp_path) == answers(tried.twin, group, tmp_path)
