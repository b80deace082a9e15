"""Options that take times, through commands that ask."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from coordinator_replay.cli.main import main
from coordinator_replay.cli.times import ABSOLUTE_TIME, DURATION, TIME
from tests.query.small_warehouse import write_small_warehouse


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_warehouse(tmp_path_factory.mktemp("times"))


@pytest.fixture
def ask(folder: Path):
    def run(*arguments: str) -> Result:
        return CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(folder)}).invoke(main, arguments)

    return run


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


@pytest.mark.parametrize(
    ("typed", "same"),
    [
        ("-10m", "2026-11-20T02:10:00"),
        ("now", "2026-11-20T02:20:00"),
        ("02:10", "2026-11-20T02:10:00"),
        ("02:10:05", "2026-11-20T02:10:05"),
        ("today 02:10", "2026-11-20T02:10:00"),
    ],
)
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
    assert "Times: 2026-11-20T02:13:00Z (UTC where no zone is given)" in told
    assert "Counted from the end of the log: -6h" in told
