"""``what-if`` over a warehouse: from the tables to the terminal."""

import csv
import io
import json
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator_replay import Warehouse
from coordinator_replay.cli.main import main
from coordinator_replay.tables.definition import tables
from scripts.reasons.sample import Sample
from tests.query.small_warehouse import Row, write_rows

VARIANTS = Path(__file__).parent / "data" / "variants"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("variants")
    records = [row_of(line) for line in Sample(VARIANTS).records() if "kind" in line and "topic" not in line]
    first = min(row["log_timestamp"] for row in records)
    rows = {
        "group_records": records,
        "audit_runs": [{"run_id": "1", "cluster": "default", "status": "done", "started_at": first}],
        "topics": [],
    }
    for name in tables():
        write_rows(folder, name, rows.get(name, []))
    return folder


def row_of(line: Row) -> Row:
    value = line["value_json"]
    names = ("group_id", "kind", "value_version", "log_partition", "log_offset", "missing_before")
    return {
        **{name: line[name] for name in names},
        "cluster": "default",
        "key_json": json.dumps(line["key_json"]),
        "value_json": None if value is None else json.dumps(value),
        "is_tombstone": value is None,
        "log_timestamp": datetime.fromisoformat(line["log_timestamp"]),
    }


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["what-if", *arguments, "--warehouse", str(folder)])


def test_the_answer_begins_with_how_well_the_record_is_reproduced(folder: Path) -> None:
    result = run(folder, "shop-v-dynamic", "--alternative", "group.protocol=consumer,heartbeat.interval.ms=500")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("With the recorded settings the simulation reproduces 13 of 13 rebalances")
    assert next(line for line in lines if line.startswith("rebalances ")).split() == ["rebalances", "13", "13", "14"]
    assert any(line.startswith("group.protocol=consumer") and "13 rebalances become 14" in line for line in lines)


def test_several_alternatives_as_json_and_csv(folder: Path) -> None:
    asked = ("shop-v-new", "--set", "heartbeat.interval.ms=500", "--alternative", "group.instance.id=per-client")
    asked += ("--alternative", "group.remote.assignor=range")
    found = [json.loads(line) for line in run(folder, *asked, "--output", "json").stdout.splitlines()]
    assert [one["name"] for one in found] == [
        "recorded",
        "recorded settings, simulated",
        "heartbeat.interval.ms=500, group.instance.id=per-client",
        "heartbeat.interval.ms=500, group.remote.assignor=range",
    ]
    rows = list(csv.DictReader(io.StringIO(run(folder, *asked, "--output", "csv").stdout)))
    assert [int(row["rebalances"]) for row in rows] == [one["rebalances"] for one in found]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give either the group or --all"),
        (("shop-v-new", "--all", "--members", "2"), "give either the group or --all"),
        (("--all", "--set", "linger.ms=5"), "linger.ms can't be tried"),
        (("shop-v-new",), "give what to try"),
        (("shop-v-new", "--set", "group.protocol"), "not of the form NAME=VALUE"),
        (("shop-v-new", "--set", "linger.ms=5"), "linger.ms can't be tried"),
        (("nobody", "--members", "2"), "no group 'nobody'"),
    ],
)
def test_what_can_not_be_asked_is_said_in_a_sentence(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    result = run(folder, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_python_gets_typed_rows(folder: Path) -> None:
    answer = Warehouse(folder).what_if("shop-v-new", {"heartbeat.interval.ms": 500}, members=2)
    assert [one.rebalances for one in answer][:2] == [14, 14]
    assert answer.fidelity.matched == 14
    assert answer.to_pandas()["rebalances"].tolist() == [one.rebalances for one in answer]
    assert {one.name for one in Warehouse.what_if_settings()} >= {"group.protocol", "session.timeout.ms"}


def test_all_groups_are_ranked_by_what_they_would_gain(folder: Path) -> None:
    result = run(folder, "--all", "--set", "group.instance.id=per-client", "--output", "json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(found) == 6
    spared = [one["interruptions_spared"] for one in found]
    assert spared == sorted(spared, reverse=True)
    by_group = {one["group_id"]: one for one in found}
    assert by_group["shop-v-dynamic"]["rebalances"] == 7
    assert by_group["shop-v-static"]["rebalances_spared"] == 0
