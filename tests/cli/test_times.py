"""Options that take times, through commands that ask."""

from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from coordinator_replay.api import Warehouse
from coordinator_replay.cli.main import main
from coordinator_replay.cli.option_types import ABSOLUTE_TIME, CLOCK_RULE, DURATION, TIME
from coordinator_replay.errors import UsageError
from tests.nightly import rest_at_night
from tests.query.small_warehouse import write_small_warehouse


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_warehouse(tmp_path_factory.mktemp("times"))


@pytest.fixture
def ask(folder: Path):
    def run(*arguments: str) -> Result:
        return CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(folder)}).invoke(main, arguments)

    return run


def test_a_day_means_its_end_in_every_option_that_ends_a_range():
    ends = {
        name: param.type.convert("2026-11-20", param, None)
        for name, command in main.commands.items()
        for param in command.params
        if {"--to", "--until"} & {*param.opts}
    }
    # These are two points in time.
    assert ends.pop("diff") == datetime(2026, 11, 20, tzinfo=UTC)
    assert ends.keys() >= {"expired", "impact", "rebalances", "report", "what-if", "why"}
    assert {*ends.values()} == {datetime(2026, 11, 21, tzinfo=UTC)}
    for name, command in main.commands.items():
        told = CliRunner().invoke(command, ["--help"]).stdout
        assert ("in --to and --until its end" in " ".join(told.split())) == (name in ends), name


def test_a_day_is_the_same_point_in_time_for_both_sides_of_a_comparison(ask, folder):
    asked = "2026-11-20T02:00"
    with pytest.raises(UsageError) as refused:
        Warehouse(folder).diff(asked, "2026-11-20")
    assert str(refused.value) in ask("diff", "--from", asked, "--to", "2026-11-20").stderr
    assert "2026-11-20T00:00:00.000Z" in str(refused.value)


def test_options_of_these_types_say_which_option_is_wrong():
    @click.command()
    @click.option("--at", type=TIME)
    @click.option("--as-of", type=ABSOLUTE_TIME)
    @click.option("--within", type=DURATION)
    def asked(at, as_of, within):
        click.echo(f"{at.isoformat()} {within}")

    runner = CliRunner()
    assert (
        runner.invoke(asked, ["--at", "2026-11-20", "--within", "3d"]).output
        == "2026-11-20T00:00:00+00:00 3 days, 0:00:00\n"
    )
    assert "Invalid value for '--at': invalid time 'soon'" in runner.invoke(asked, ["--at", "soon"]).output
    assert "Invalid value for '--within': invalid duration '3'" in runner.invoke(asked, ["--within", "3"]).output
    assert "Invalid value for '--as-of': invalid time '-6h'" in runner.invoke(asked, ["--as-of", "-6h"]).output
    assert runner.invoke(asked, ["--at", "2026-11-20", "--as-of", "now"]).exit_code == 0


TYPED = [
    ("-10m", "2026-11-20T02:10:00"),
    ("now", "2026-11-20T02:20:00"),
    ("02:10", "2026-11-20T02:10:00"),
    ("02:10:05", "2026-11-20T02:10:05"),
    ("today 02:10", "2026-11-20T02:10:00"),
]


@pytest.mark.parametrize(("typed", "same"), rest_at_night(TYPED, [TYPED[0], TYPED[4]], several=True))
def test_times_are_counted_from_the_end_of_the_log(ask, typed: str, same: str):
    told = ask("describe", "payments", "--at", typed, "--output", "json")
    assert told.exit_code == 0, told.output
    assert told.stdout == ask("describe", "payments", "--at", same, "--output", "json").stdout


def test_each_cluster_counts_from_the_end_of_its_own_log(ask):
    assert '"group_id":"payments"' in ask("groups", "--cluster", "other", "--at", "now", "--output", "json").stdout
    assert "lies before the start of the log" in ask("groups", "--at", "yesterday").stderr


def test_a_configuration_file_can_hold_times(ask, tmp_path: Path):
    config = tmp_path / "c.toml"
    for written in ("02:10:00", '"-10m"', "2026-11-20T02:10:00Z"):
        config.write_text(f"at = {written}\n")
        told = ask("groups", "--config", str(config), "--output", "json")
        assert told.stdout == ask("groups", "--at", "02:10", "--output", "json").stdout


@pytest.mark.parametrize("name", ["groups", "describe", "offsets", "timeline", "why", "report"])
def test_the_rule_is_told_in_the_help_of_every_command_that_takes_a_time(ask, name: str):
    told = " ".join(ask(name, "--help").output.split())
    assert 'Times: 2026-11-20T02:13:00Z, 20.11.2026 02:13, "2026-11-20 02:13 Europe/Berlin"' in told
    assert "Counted from the end of the log: -6h" in told


RANGED = (
    ("timeline", "payments"),
    ("timeline", "payments", "--members"),
    ("rebalances",),
    ("why", "payments"),
    ("offsets", "payments", "--history", "orders"),
)


@pytest.mark.parametrize("question", rest_at_night(RANGED, RANGED[1:3]), ids=" ".join)
def test_a_range_up_to_now_is_the_range_that_has_no_end(ask, question: tuple[str, ...]):
    whole = ask(*question, "--output", "json")
    assert whole.stdout
    for ends in (("--to", "now"), ("--to", "-0s"), ("--from", "02:00", "--to", "now"), ("--from", "1970-01-01")):
        assert ask(*question, *ends, "--output", "json").stdout == whole.stdout


AT = (("groups",), ("groups", "--deleted"), ("describe", "payments"), ("offsets", "payments"), ("why", "payments"),
      ("owner", "payments", "orders", "0"))  # fmt: skip


@pytest.mark.parametrize("question", rest_at_night(AT, AT[4:]), ids=" ".join)
def test_now_is_the_end_of_the_log_for_every_question_about_a_point_in_time(ask, question: tuple[str, ...]):
    now = ask(*question, "--at", "now", "--output", "json")
    assert now.exit_code == 0
    assert now.stdout == ask(*question, "--at", "-0s", "--output", "json").stdout
    if question[0] != "why":
        # Without a time, that command tells all rebalances.
        assert now.stdout == ask(*question, "--output", "json").stdout


@pytest.mark.parametrize("question", rest_at_night(AT, [AT[0], AT[5]]), ids=" ".join)
def test_what_a_message_about_a_time_advises_is_taken(ask, question: tuple[str, ...]):
    late = ask(*question, "--at", "2027-01-01")
    assert late.exit_code == 2
    assert "leave the time out for the end of the log" in late.stderr
    assert ask(*question).exit_code == 0
    zero = ask(*question, "--at", "0")
    assert zero.exit_code == 2
    assert "invalid time '0': write 2026-11-20T02:13:00Z" in zero.stderr
    assert "epoch milliseconds (12 digits or more)" in zero.stderr
    early = ask(*question, "--at", "100000000000")
    assert "1973-03-03T09:46:40.000Z lies before the start of the log" in early.stderr
    covered = early.stderr.partition("is covered from ")[2].split()
    for time in (covered[0], covered[2]):
        assert ask(*question, "--at", time).exit_code == 0


@pytest.mark.parametrize("question", rest_at_night(RANGED, RANGED[2:4]), ids=" ".join)
def test_ranges_that_hold_nothing_are_told_for_what_they_are(ask, question: tuple[str, ...]):
    assert "is empty: it ends at 2026-11-20T02:00:00.000Z, before it begins at" in (
        ask(*question, "--from", "02:10", "--to", "02:00").stderr
    )
    assert "is empty: it ends at 2026-11-20T02:10:00.000Z, when it begins at 2026-11-20T02:10:00.000Z" in (
        ask(*question, "--from", "02:10", "--to", "02:10").stderr
    )
    assert "that time range is not covered" in ask(*question, "--from", "2027-01-01").stderr


def test_a_time_of_a_saved_query_follows_the_same_rule_and_is_named(ask):
    for time in ("now", "-10m", "yesterday", "2026-11-20"):
        assert ask("sql", "--query", "rebalance-storms", "--param", f"from={time}").exit_code == 0
    refused = ask("sql", "--query", "rebalance-storms", "--param", "from=0")
    assert refused.exit_code == 2
    assert "parameter from: invalid time '0': write 2026-11-20T02:13:00Z" in refused.stderr


@pytest.mark.parametrize("typed", ["soon", "-6h", "yesterday", "0"])
def test_as_of_advises_what_it_takes(ask, tmp_path: Path, typed: str):
    refused = ask("audit", str(tmp_path), "--as-of", typed)
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.split())
    assert said.endswith(f"write {CLOCK_RULE}")
    assert CLOCK_RULE in " ".join(ask("audit", "--help").output.split())
    for time in ("2026-11-20T02:13:00Z", "2026-11-20", "now"):
        assert time in CLOCK_RULE
        assert ABSOLUTE_TIME.convert(time, None, None).tzinfo is not None


def test_the_python_api_reads_times_by_the_same_rule(folder: Path):
    warehouse = Warehouse(folder)
    assert list(warehouse.groups(at=1795141800000)) == list(warehouse.groups(at="2026-11-20T02:30"))
    assert list(warehouse.groups(at="now")) == list(warehouse.groups())
    assert list(warehouse.timeline("payments", end="now")) == list(warehouse.timeline("payments"))
    for wrong in (0, 1.5, True, "0"):
        with pytest.raises(UsageError, match="invalid time"):
            warehouse.groups(at=wrong)


def test_a_time_that_clocks_show_twice_is_refused_wherever_it_is_typed(ask, folder):
    said = "2026-10-25 02:05:00 exists twice in Europe/Berlin"
    for words in (
        ("groups", "--at", "2026-10-25 02:05 Europe/Berlin"),
        ("rebalances", "payments", "--from", "2026-10-25 02:05", "--zone", "Europe/Berlin"),
        ("rebalances", "payments", "--to", "2026-10-25 02:05", "--zone", "Europe/Berlin"),
        ("sql", "--query", "rewinds", "--param", "from=2026-10-25 02:05", "--zone", "Europe/Berlin"),
    ):
        refused = ask(*words)
        assert refused.exit_code == 2, words
        assert said in refused.stderr
    with pytest.raises(UsageError, match=said):
        Warehouse(folder, zone="Europe/Berlin").groups(at="2026-10-25 02:05")
