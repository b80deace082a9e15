"""What is found in the recorded dumps, all of it and nothing else; and metrics against what the broker said."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from coordinator_replay.query.findings import findings_of
from coordinator_replay.query.tables import Tables
from tests.acceptance.conftest import AUDITED, audit
from tests.acceptance.test_checkpoints import moment, quiet
from tests.samples import NAMES

EXPECTED = json.loads((Path(__file__).parents[1] / "data" / "findings.json").read_text(encoding="utf-8"))
REST = sorted(set(NAMES) - set(AUDITED))


@pytest.fixture(scope="module")
def others(tmp_path_factory) -> Path:
    """The other samples, audited."""
    warehouse = tmp_path_factory.mktemp("others")
    for name in REST:
        audit(warehouse, name)
    return warehouse


def check(warehouse: Path, name: str) -> None:
    found = [
        {
            "rule": one.rule,
            "group": one.group_id,
            "topic": one.topic,
            "partition": one.partition,
            "times": one.occurrences,
        }
        for one in findings_of(Tables(str(warehouse), name))
    ]
    wanted = [{key: one[key] for key in one if key != "why"} for one in EXPECTED[name]]
    assert sorted(found, key=str) == sorted(wanted, key=str)
    assert all(one["why"] for one in EXPECTED[name])


@pytest.mark.parametrize("name", AUDITED)
def test_findings_of_a_sample_are_those_on_the_list(audited, name):
    check(audited, name)


@pytest.mark.long
@pytest.mark.parametrize("name", REST)
def test_findings_of_the_other_samples_are_those_on_the_list(others, name):
    check(others, name)


@pytest.mark.parametrize("name", AUDITED)
def test_groups_counted_at_the_end_of_a_minute_are_those_the_broker_listed(audited, name):
    """A checkpoint can be compared where nothing happened to any group between it and the end of its minute."""
    warehouse = Tables(str(audited), name)
    changed = [at for (at,) in warehouse.rows("SELECT log_timestamp FROM group_timeline WHERE cluster = $cluster")]
    compared = 0
    for checkpoint in quiet(name):
        at = moment(name, checkpoint)
        end = datetime.fromtimestamp((at.timestamp() // 60 + 1) * 60, UTC)
        if any(at < one < end for one in changed):
            continue
        rows = warehouse.rows(
            "SELECT group_type, state, group_count FROM group_metrics WHERE cluster = $cluster AND group_count > 0 "
            "AND bucket = (SELECT max(bucket) FROM group_metrics WHERE cluster = $cluster AND bucket <= $at)",
            at=at,
        )
        theirs = Counter((group["type"].lower(), group["state"]) for group in checkpoint["groups"])
        assert {(kind, state): count for kind, state, count in rows} == theirs, checkpoint["at"]
        compared += 1
    assert compared


@pytest.mark.parametrize("name", AUDITED)
def test_metrics_count_what_the_tables_count(audited, name):
    warehouse = Tables(str(audited), name)
    (sums,) = warehouse.rows(
        "SELECT sum(rebalance_count), sum(offset_commits), sum(expired_offsets + deleted_offsets) FROM group_metrics "
        "WHERE cluster = $cluster"
    )
    ((rebalances,),) = warehouse.rows(
        "SELECT count(*) FROM rebalances WHERE cluster = $cluster AND completed_at IS NOT NULL"
    )
    ((commits,),) = warehouse.rows("SELECT count(*) FROM offset_commits WHERE cluster = $cluster AND NOT is_tombstone")
    ((ended,),) = warehouse.rows(
        "SELECT count(*) FROM offset_history WHERE cluster = $cluster AND ended_by IS NOT NULL AND ended_by <> 'COMMIT'"
    )
    assert tuple(map(int, sums)) == (rebalances, commits, ended)
