"""``what-if`` over a warehouse: from the tables to the terminal."""

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coordinator_replay import Warehouse
from coordinator_replay.cli.main import main
from coordinator_replay.query.tables import Tables
from coordinator_replay.simulation.recorded_groups import recorded_of
from coordinator_replay.simulation.what_if.ranges import OPEN_SESSION
from tests.query.small_warehouse import event, log_partition, member, write_rows
from tests.simulation.what_if.variants import record_rows, write_variants

CONSUMER = "group.protocol=consumer"
BEATS = " Unless given, heartbeats come every 5,000 ms, also Kafka's default."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_variants(tmp_path_factory.mktemp("variants"))


def records_of(*groups: str) -> list[dict[str, Any]]:
    """Rows of some of the groups."""
    return [row for row in record_rows() if row["group_id"] in groups]


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["what-if", *arguments, "--warehouse", str(folder)])


def test_the_answer_begins_with_what_changes_and_the_assumption_behind_it(folder: Path) -> None:
    result = run(folder, "shop-v-dynamic", "--alternative", "group.protocol=consumer,heartbeat.interval.ms=500")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    # The gains come first, then the costs.
    assert re.fullmatch(
        r"group\.protocol=consumer, heartbeat\.interval\.ms=500: members are interrupted \d+ \(\d+ to \d+\) times "
        r"instead of 27; 0 rebalances stop all members instead of 12; perhaps more rebalances: 14 \(13 to 16\) instead "
        r"of 13; \d+ \(\d+ to \d+\) partitions are reassigned instead of 32; partitions pause for .* ms in total "
        r"instead of [\d,]+ ms\.",
        lines[0],
    )
    assert lines[1].endswith(
        "Unless given, Kafka's default is simulated: 45,000 ms. Members of the recorded classic group have 6,000 ms. "
        "So differences in pauses may come from this timeout, too. --set session.timeout.ms=6000 keeps the recorded "
        "timeout."
    )
    assert lines[2].startswith("With the recorded settings the simulation reproduces 13 of 13 rebalances")
    row = next(line for line in lines if line.startswith("rebalances ")).split()
    assert row == ["rebalances", "13", "13", "14", "(13", "to", "16)"]
    given = run(folder, "shop-v-dynamic", "--set", "group.protocol=consumer,session.timeout.ms=6000").output
    assert "recorded classic group" not in given


@pytest.mark.parametrize(
    ("asked", "is_beat_assumed"),
    [
        (["--set", "group.protocol=consumer"], True),
        (["--alternative", f"{CONSUMER},heartbeat.interval.ms=500", "--alternative", CONSUMER], True),
        (["--alternative", f"{CONSUMER},heartbeat.interval.ms=500,group.instance.id=per-client"], False),
        (["--alternative", f"{CONSUMER},heartbeat.interval.ms=500,without-restarts=true"], False),
        (["--known", "heartbeat.interval.ms=5000", "--alternative", CONSUMER], False),
    ],
)
def test_assumed_settings_are_no_complete_list_of_reasons(
    folder: Path, asked: list[str], is_beat_assumed: bool
) -> None:
    [line] = [line for line in run(folder, "shop-v-dynamic", *asked).output.splitlines() if OPEN_SESSION in line]
    beats, source = (BEATS, "these settings") if is_beat_assumed else ("", "this timeout")
    assert f"have 6,000 ms.{beats} So differences in pauses may come from {source}, too. --set" in line


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
        (("--all", "--set", "linger.ms=5"), "linger.ms can't be tried; what-if --list-settings shows what can"),
        (("--all", "--set", "session.timeout=9"), ": did you mean 'session.timeout.ms'?"),
        (("--all", "--members", "2", "--known", "heartbeat.interval=9"), "did you mean 'heartbeat.interval.ms'?"),
        (("shop-v-new",), "give what to try"),
        (("shop-v-new", "--set", "group.protocol"), "not of the form NAME=VALUE"),
        (("shop-v-new", "--set", "linger.ms=5"), "linger.ms can't be tried"),
        (("nobody", "--members", "2"), "no group 'nobody'"),
        (("shop-v-new", "--alternative", "members=none"), "members is 'none'"),
        (("shop-v-new", "--alternative", "without-restarts=perhaps"), "without-restarts is 'perhaps'"),
    ],
)
def test_what_can_not_be_asked_is_said_in_a_sentence(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    result = run(folder, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_change_to_the_consumer_protocol_says_what_the_log_shows_against_it(tmp_path: Path) -> None:
    folder = write_variants(tmp_path, records_of("shop-v-dynamic", "shop-v-static"))
    classic = {"group_type": "classic", "epoch": 1, "member_count": 1}
    write_rows(folder, "group_timeline", [
        event(group, 0, "02:00", "MEMBER_JOINED", ">Stable", **classic)
        for group in ("shop-v-dynamic", "workers", *[f"plain-{number:02d}" for number in range(12)])
    ])  # fmt: skip
    write_rows(folder, "member_timeline", [
        member("workers", "w-1", "02:00", None, 300, group_type="classic", assignor="sessioned"),
    ])  # fmt: skip
    asked = ("--all", "--to", "2026-11-22T21:07:45Z", "--output", "json")
    found = run(folder, *asked, "--set", "group.protocol=consumer")
    by_group = {row["group_id"]: row["obstacle"] for row in map(json.loads, found.stdout.splitlines())}
    assert by_group.pop("shop-v-dynamic") == "none on record"
    assert set(by_group.values()) == {None}
    assert "Obstacles of groups not predicted: workers: assignor sessioned is none of Kafka's" in found.stderr
    assert "shop-v-dynamic: " not in found.stderr
    # Groups without an obstacle are not named: they would crowd out those that have one.
    assert "none on record" not in found.stderr
    assert "plain-00: " not in found.stderr
    kept = run(folder, *asked, "--set", "session.timeout.ms=45000")
    assert {row["obstacle"] for row in map(json.loads, kept.stdout.splitlines())} == {None}
    assert "Obstacles" not in kept.stderr


def test_an_alternative_may_be_a_life_without_restarts_or_with_more_members(folder: Path) -> None:
    asked = ("--alternative", "without-restarts", "--alternative", "members=6,group.instance.id=per-client")
    found = [json.loads(line) for line in run(folder, "shop-v-new", *asked, "--output", "json").stdout.splitlines()]
    assert [one["name"] for one in found[2:]] == ["without restarts", "group.instance.id=per-client, 6 members"]
    assert "MEMBER_RESTART" not in found[2]["causes"]


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.long)], ids=["an eighth", "all"])
def test_every_setting_of_the_list_can_be_tried(folder: Path, share: int) -> None:
    listed = [json.loads(line) for line in run(folder, "--list-settings", "--output", "json").stdout.splitlines()]
    tried = [
        f"{one['name']}={'7' if one['values'] == 'a number' else one['values'].split(', ')[-1]}" for one in listed
    ][::share]
    asked = [part for text in tried for part in ("--alternative", text)]
    result = run(folder, "shop-v-new", "--to", "2026-11-22T21:07:25Z", *asked, "--output", "json")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == len(tried) + 2


def test_python_gets_typed_rows(folder: Path) -> None:
    answer = Warehouse(folder).what_if("shop-v-new", {"heartbeat.interval.ms": 500}, members=2)
    assert [one.rebalances for one in answer][:2] == [14, 14]
    assert answer.fidelity.matched == 14
    assert answer.to_pandas()["rebalances"].tolist() == [one.rebalances for one in answer]
    assert {one.name for one in Warehouse.what_if_settings()} >= {"group.protocol", "session.timeout.ms"}


@pytest.mark.long
def test_all_groups_are_ranked_by_what_they_would_gain(folder: Path) -> None:
    result = run(folder, "--all", "--set", "group.instance.id=per-client", "--output", "json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(found) == 6
    spared = [one["interruptions_spared"] for one in found]
    assert spared == sorted(spared, reverse=True)
    by_group = {one["group_id"]: one for one in found}
    assert by_group["shop-v-dynamic"]["rebalances"] == 7
    assert by_group["shop-v-static"]["rebalances_spared"] == 0


def test_all_groups_have_ranges_where_the_log_leaves_something_open(tmp_path: Path) -> None:
    folder = write_variants(tmp_path, records_of("shop-v-patient", "shop-v-static"))
    write_rows(folder, "offset_history", [{"cluster": "default", "group_id": "simple", "owner_member_id": None}])
    asked = ("--all", "--set", "group.instance.id=none")
    answer = run(folder, *asked, "--output", "json")
    assert "1 group with only offsets on record: simple." in answer.stderr
    found = [json.loads(line) for line in answer.stdout.splitlines()]
    patient = next(one for one in found if one["group_id"] == "shop-v-patient")
    least, most = patient["ranges"]["rebalances"]
    assert least <= patient["rebalances"] <= most
    # What is spared is as open as what is predicted.
    spared = patient["rebalances_spared"]
    assert patient["ranges"]["rebalances_spared"] == [spared + patient["rebalances"] - bound for bound in (most, least)]
    shown = run(folder, *asked).stdout
    assert f"{patient['rebalances']} ({least} to {most})" in shown
    assert "{} ({} to {})".format(spared, *patient["ranges"]["rebalances_spared"]) in shown


def test_last_commits_of_members_come_from_the_tables(tmp_path: Path) -> None:
    folder = write_variants(tmp_path, records_of("shop-v-static"))
    at = datetime(2026, 11, 22, 21, 7, tzinfo=UTC)
    rows = [
        {
            "cluster": "default",
            "group_id": "shop-v-static",
            "owner_member_id": owner,
            "valid_from": at + timedelta(seconds=n),
        }
        for n, owner in enumerate(("one", "one", "two", None))
    ]
    write_rows(folder, "offset_history", rows)
    recorded = recorded_of(Tables(str(folder)), "shop-v-static")
    first_ms = round(at.timestamp() * 1000)
    assert recorded.last_commits == {"one": first_ms + 1000, "two": first_ms + 2000}


def test_a_record_without_a_key_is_one_that_is_missing(tmp_path: Path) -> None:
    records = records_of("shop-v-new")
    records[len(records) // 2]["key_json"] = None
    result = run(write_variants(tmp_path, records), "shop-v-new", "--members", "3")
    assert result.exit_code == 0, result.output
    assert "Records are missing before 1 operation of that time" in result.output


def test_numbers_are_lower_bounds_where_records_may_be_missing(tmp_path: Path) -> None:
    records = records_of("shop-v-static")
    folder = write_variants(tmp_path, records)
    place = {"missing_offsets": 3, "complete_from_offset": None, "complete_since": None}
    write_rows(folder, "log_partitions", [log_partition(records[0]["log_partition"], "02:00", "02:20", **place)])
    tried = ("--set", "session.timeout.ms=9000", "--to", "2026-11-22T21:07:20Z")
    heading, row, *_ = run(folder, "--all", *tried).output.splitlines()
    assert heading.split()[:4] == ["GROUP", "RECORDED", "AT-LEAST", "PREDICTED"]
    assert row.split()[:3] == ["shop-v-static", "2", "true"]
    alone = run(folder, "shop-v-static", *tried).output
    assert re.search(r"^rebalances +at least 2 +2 ", alone, re.MULTILINE)
    assert "the true numbers of the recorded group may be higher" in alone


def test_groups_without_a_rebalance_to_reproduce_are_named(tmp_path: Path) -> None:
    folder = write_variants(tmp_path, records_of("shop-v-static"))
    quiet = ("--from", "2026-11-22T21:07:30Z", "--to", "2026-11-22T21:07:50Z")
    result = run(folder, "--all", "--set", CONSUMER, *quiet)
    assert len(result.stdout.splitlines()) == 1
    why = "because no rebalance is on record that a simulation could reproduce: shop-v-static."
    assert f"1 group without a prediction, {why}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--what-if", "group.protocol=consumer", "--out", "page.html"), "give the group whose life is to be drawn"),
        (("--what-if", "group.protocol=consumer", "--out", "pages/"), "--what-if draws one group"),
        (("shop-v-new", "--what-if", "group.protocol", "--out", "page.html"), "not of the form NAME=VALUE"),
        (("shop-v-new", "--known", "heartbeat.interval.ms=500", "--out", "page.html"), "give what to try, too"),
    ],
)
def test_a_report_of_lives_that_can_not_be_drawn_is_refused_in_a_sentence(
    folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = CliRunner().invoke(main, ["report", *arguments, "--warehouse", str(folder)])
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_report_draws_the_recorded_life_beside_an_alternative(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    asked = ("shop-v-new", "--what-if", "group.instance.id=per-client", "--out", str(page))
    result = CliRunner().invoke(main, ["report", *asked, "--warehouse", str(folder), "--output", "json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["rebalances"], told["alternatives"]) == (14, 1)
    assert "what if 1: group.instance.id=per-client" in page.read_text("utf-8")
