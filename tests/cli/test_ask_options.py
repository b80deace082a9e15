"""Options that all commands share, through commands that ask."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from coordinator_replay.cli.main import main
from coordinator_replay.cli.options import Common, warehouse_command
from coordinator_replay.errors import CoordinatorReplayError, InputError, UsageError, WarehouseError


@click.group()
def program() -> None:
    """A program with commands of its own."""


@program.add_command
@warehouse_command()
@click.option("--at")
@click.option("--type", "types", multiple=True)
def show(common: Common, at: str | None, types: tuple[str, ...]) -> None:
    """Say which options arrived."""
    click.echo(f"{common.warehouse} {common.cluster} {common.output} {common.verbose} {at} {types}")


@program.add_command
@warehouse_command(needs_warehouse=False)
@click.option("--retention")
def other(common: Common, retention: str | None) -> None:
    """Say which options arrived."""
    click.echo(f"{common.warehouse!r} {retention}")


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(program, arguments)


def test_warehouse_comes_from_the_option_then_the_environment():
    assert run("show", "--warehouse", "w").output == "w None table False None ()\n"
    assert run("show", COORDINATOR_REPLAY_WAREHOUSE="e").output == "e None table False None ()\n"
    assert run("show", "--warehouse", "w", COORDINATOR_REPLAY_WAREHOUSE="e").output.startswith("w ")


def test_missing_warehouse_is_wrong_usage_unless_a_command_can_do_without():
    refused = run("show")
    assert refused.exit_code == 2
    assert "Missing option '--warehouse' (env var: 'COORDINATOR_REPLAY_WAREHOUSE')" in refused.output
    assert run("other").output == "'' None\n"


def test_every_option_can_stand_in_the_configuration_file(tmp_path: Path):
    config = tmp_path / "c.toml"
    config.write_text(
        'warehouse = "f"\ncluster = "all"\nretention = "7d"\n'
        '[show]\ncluster = "own"\ntype = ["a", "b"]\nverbose = true\n'
    )
    assert run("show", "--config", str(config)).output == "f own table True None ('a', 'b')\n"
    assert run("other", "--config", str(config)).output == "'f' 7d\n"


def test_environment_and_command_line_count_before_the_file(tmp_path: Path):
    config = tmp_path / "c.toml"
    config.write_text('warehouse = "f"\ncluster = "f"\n')
    told = run("show", "--config", str(config), "--cluster", "l", COORDINATOR_REPLAY_WAREHOUSE="e")
    assert told.output == "e l table False None ()\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clutser = 'x'", "no option is called 'clutser'; did you mean 'cluster'?"),
        ("[show]\nretention = '7d'", "no option is called 'retention'"),
        ("[shwo]\nat = 'x'", "no command is called 'shwo'"),
        ("cluster = ", "can't be read as TOML"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, message: str):
    config = tmp_path / "c.toml"
    config.write_text(text)
    refused = run("show", "--warehouse", "w", "--config", str(config))
    assert refused.exit_code == 2
    assert message in re.sub(r"\s+", " ", refused.output)


def test_missing_file_is_wrong_usage():
    refused = run("show", "--warehouse", "w", "--config", "there-is-none.toml")
    assert refused.exit_code == 2
    assert "there-is-none.toml" in refused.output


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError, 2), (InputError, 2), (WarehouseError, 2), (CoordinatorReplayError, 1)]
)
def test_an_error_is_one_sentence_and_the_exit_code_of_its_kind(error: type[CoordinatorReplayError], code: int):
    @warehouse_command(needs_warehouse=False)
    def fail(common: Common) -> None:
        try:
            raise OSError("disk on fire")
        except OSError as problem:
            raise error("it did\n  not work") from problem

    quiet = CliRunner().invoke(fail, [])
    assert (quiet.exit_code, quiet.stderr) == (code, "Error: it did not work\n")
    verbose = CliRunner().invoke(fail, ["-v"])
    assert (verbose.exit_code, verbose.stderr) == (
        code,
        "  because of OSError: disk on fire\nError: it did not work\n",
    )


@pytest.mark.parametrize("name", sorted({*main.commands} - {"demo"}))
def test_every_command_explains_itself_with_an_example(name: str):
    command = main.commands[name]
    told = CliRunner().invoke(command, ["--help"])
    assert told.exit_code == 0
    assert command.help
    assert re.search(rf"Examples:\n +coordinator-replay ({command.name}|rebalances) ", told.output)
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{command.name} {option.name}"


def test_a_plan_refuses_the_name_of_a_database_that_an_audit_would_refuse(tmp_path: Path):
    asked = ["audit", str(tmp_path), "--warehouse", str(tmp_path / "tables"), "--plan", "--database", "a b"]
    told = CliRunner().invoke(main, asked)
    assert (told.exit_code, told.stdout) == (2, "")
    assert "--database a b: give SCHEMA or CATALOG.SCHEMA" in told.stderr
