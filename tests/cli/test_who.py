"""Conditions on groups: hosts, clients, topics and names, of every command that asks about several groups."""

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator_replay.cli.main import main
from coordinator_replay.query.end_offsets import read_end_offsets
from coordinator_replay.query.offsets import partitions_asked
from tests.query.small_warehouse import event, log_partition, member, write_rows, write_small_warehouse


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_small_warehouse(tmp_path_factory.mktemp("who"))
    gone = member("payments", "gone", "02:03", "02:04", 91, client_id="client-gone", client_host="/10.9.9.9")
    write_rows(folder, "member_timeline", [gone])
    return folder


@pytest.fixture
def ask(folder: Path):
    def run(*arguments: str) -> Result:
        result = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(folder)}).invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return result

    return run


def groups(result: Result) -> list[str]:
    return [json.loads(line)["group_id"] for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("conditions", "wanted"),
    [
        pytest.param(["--host", "10.0.0.1"], {"payments"}, marks=pytest.mark.long),
        pytest.param(["--host", "/10.0.0.1"], {"payments"}, marks=pytest.mark.long),
        pytest.param(["--client", "client-m-1"], {"payments"}, marks=pytest.mark.long),
        (["--client", "client-*", "--host", "10.*"], {"payments"}),
        pytest.param(["--name", "s*"], {"simple"}, marks=pytest.mark.long),
        (["--name", "payments", "--name", "simple"], {"payments", "simple"}),
        (["--exclude", "pay*"], {"simple", "txn-only"}),
        pytest.param(["--topic", "orders"], {"payments"}, marks=pytest.mark.long),
    ],
)
def test_groups_that_meet_conditions(ask, conditions: list[str], wanted: set[str]):
    told = set(groups(ask("groups", *conditions, "--json")))
    assert wanted <= told
    assert "legacy" not in told
    if "--exclude" not in conditions:
        assert told == wanted or "--topic" in conditions


def test_conditions_count_at_the_time_asked_about(ask):
    # The static member two came at 02:10 from another host.
    assert groups(ask("groups", "--client", "client-m-2", "--at", "02:12", "--json")) == ["payments"]
    early = CliRunner().invoke(main, ["groups", "--client", "client-m-2", "--at", "02:05"])
    assert early.exit_code == 2


def test_a_client_of_another_time_is_named_with_its_time(folder: Path):
    """Another client's name would lead away from the one that was asked for."""

    def told(*asked: str) -> str:
        result = CliRunner().invoke(main, [*asked, "--warehouse", str(folder)])
        assert result.exit_code == 2
        return result.stderr

    early = told("groups", "--client", "client-m-2", "--at", "02:05")
    assert "it came into group 'payments' at 2026-11-20T02:10:00.000Z; ask about a later time" in early
    assert "on record at the end of the log: it was in group" in told("groups", "--client", "client-gone")
    late = told("rebalances", "--client", "client-gone", "--from", "02:15")
    assert "it was in group 'payments' until 2026-11-20T02:04:00.000Z; ask about an earlier time" in late
    host = told("groups", "--host", "10.9.9.9")
    assert "it was in group 'payments' until 2026-11-20T02:04:00.000Z" in host
    assert "did you mean" not in early + late + host
    assert "did you mean" in told("groups", "--client", "client-m-9")


@pytest.mark.parametrize("command", [["rebalances"], ["findings"], ["expired"]])
def test_groups_can_be_left_out_of_every_list(ask, command: list[str]):
    everybody = set(groups(ask(*command, "--json")))
    assert "payments" in everybody
    # Of zombie there is nothing but an offset that expired, which no log has like that.
    left = set(groups(ask(*command, "--json", "--exclude", "payments")))
    assert left | {"zombie"} == (everybody | {"zombie"}) - {"payments"}


def test_metrics_leave_out_series_and_findings(ask):
    text = ask("metrics", "--exclude", "payments").stdout
    assert "payments" not in text
    assert 'group="simple"' in text
    assert text.count("coordinator_replay_findings{") < ask("metrics").stdout.count("coordinator_replay_findings{")


def test_a_setting_leaves_groups_out(ask, tmp_path: Path):
    config = tmp_path / "audit.toml"
    config.write_text('exclude = ["pay*"]\n')
    for command in (["groups"], ["findings"]):
        assert "payments" not in groups(ask(*command, "--json", "--config", str(config)))


def test_a_reset_file_of_several_groups_names_them(ask, tmp_path: Path):
    file = tmp_path / "all.csv"
    told = ask("offsets", "--all-groups", "--at", "02:12", "--reset-file", str(file), "--json")
    rows = list(csv.reader(io.StringIO(file.read_text())))
    assert {row[0] for row in rows} <= set(groups(told))
    assert len({row[0] for row in rows}) > 1
    assert all(len(row) == 4 for row in rows)
    one = tmp_path / "one.csv"
    ask("offsets", "payments", "--at", "02:12", "--reset-file", str(one))
    assert [",".join(row[1:]) for row in rows if row[0] == "payments"] == one.read_text().splitlines()


def test_several_groups_are_described(ask):
    assert groups(ask("describe", "payments", "simple", "--json")) == ["payments", "simple"]
    assert groups(ask("describe", "pay*", "--json")) == ["payments"]
    assert len(groups(ask("describe", "--all-groups", "--json"))) >= 3


def test_describe_shows_parts_as_kafkas_tool_does(ask):
    assert "MEMBER-STATE" not in ask("describe", "payments", "--state").stdout
    assert "GROUP-EPOCH" not in ask("describe", "payments", "--members").stdout
    assert ask("describe", "payments", "--offsets").stdout.split()[1:4] == ["TOPIC", "PARTITION", "CURRENT-OFFSET"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("orders", ("orders", ())),
        ("orders:0,1", ("orders", (0, 1))),
        ("orders-4", ("orders", (4,))),
        ("orders-2026", ("orders-2026", ())),
        ("nothing-4", ("nothing-4", ())),
    ],
)
def test_partitions_in_every_form(text: str, wanted: tuple[str, tuple[int, ...]]):
    assert partitions_asked(text, ["orders", "orders-2026"]) == wanted


def test_end_offsets_of_kafkas_tool(tmp_path: Path):
    file = tmp_path / "ends.txt"
    file.write_text("orders:0:170\norders:1:0\nshop.a-b:2:-1\n")
    assert read_end_offsets(file) == {("orders", 0): 170, ("orders", 1): 0, ("shop.a-b", 2): -1}


def test_expiry_says_how_far_it_looked_and_that_the_log_is_older(ask):
    told = ask("expired", "--until", "2026-11-21", "--json").stderr
    assert "Offsets that expire up to 2026-11-22T00:00:00.000Z were looked for." in told
    assert told.startswith("The log ended before 2026-11-22T00:00:00.000Z")
    # That there are none is said once.
    nothing = ask("expired", "--until", "2026-11-21", "--status", "due", "--json").stderr
    assert "has none" not in nothing
    assert nothing.count("No DUE offset matches") == 1
    past = ask("expired", "--status", "expired").stderr
    assert "were looked for" not in past
    assert "The log ended before" not in past
    assert "The log ended before" not in ask("expired", "--within", "5000w", "--json").stderr


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse whose log lacks records: c-late is there when the records begin, c-cut when they end."""
    folder = write_small_warehouse(
        tmp_path_factory.mktemp("torn"),
        log_partitions=[log_partition(3, "02:00", "02:20", complete_ranges=[], missing_offsets=60)],
    )
    write_rows(folder, "group_timeline", [
        event("torn", 0, "02:12", "RECORDS_MISSING", "Stable>Stable", is_state_exact=False, log_offset=111),
    ])  # fmt: skip
    stays = {
        "c-late": member("torn", "t-1", "02:10", None, 105, client_id="c-late", is_begin_open=True),
        "c-cut": member("torn", "t-2", "02:05", "02:12", 110, client_id="c-cut"),
        "c-maybe": member("torn", "t-3", "02:05", "02:12", 120, client_id="c-maybe", is_exact=False),
    }
    write_rows(folder, "member_timeline", list(stays.values()))
    return folder


def told(folder: Path, *asked: str) -> str:
    return CliRunner().invoke(main, [*asked, "--warehouse", str(folder)]).stderr


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (["--client", "c-late", "--at", "02:05"],
         "it is first on record in group 'torn' at 2026-11-20T02:10:00.000Z, and may have been there before"),
        (["--client", "c-cut", "--at", "02:15"],
         "it was in group 'torn' until 2026-11-20T02:12:00.000Z at least: from then on records of the group are"),
        (["--client", "c-maybe", "--at", "02:15"],
         "it may have been in group 'torn' until 2026-11-20T02:12:00.000Z: records of that time are missing"),
        (["--client", "c-?", "--at", "02:15"], "No group on record matches"),
        (["--client", "c-?", "--at", "02:15"],
         "3 more groups may match: not all of their members at that time are on record."),
        (["--client", "c-?", "--at", "02:15", "--name", "torn"],
         "1 more group may match: not all of its members at that time are on record."),
    ],
)  # fmt: skip
def test_a_stay_beside_missing_records_is_no_exact_one(torn: Path, asked: list[str], wanted: str):
    assert wanted in told(torn, "groups", *asked)


@pytest.mark.parametrize("command", [["rebalances"], ["findings"], ["expired"], ["offsets", "--all-groups"]])
def test_groups_of_unknown_members_are_counted_in_every_answer(torn: Path, command: list[str]):
    assert "may match: not all of" in told(torn, *command, "--client", "c-?")
    assert "may match" not in told(torn, *command, "--name", "t*")


def test_member_intervals_beside_missing_records_are_marked(torn: Path):
    heading, *rows = (
        CliRunner().invoke(main, ["timeline", "torn", "--members", "--warehouse", str(torn)]).stdout.splitlines()
    )
    assert heading.split()[-2:] == ["MAYBE-EARLIER", "MAYBE-LATER"]
    marks = {row.split()[2]: row.split()[-2:] for row in rows}
    assert marks == {"c-late": ["true", "false"], "c-cut": ["false", "true"], "c-maybe": ["false", "false"]}
