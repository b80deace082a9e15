"""Help: a command's own options come first, commands stand by purpose, and every exit code is told."""

import re

import click
import pytest
from click.testing import CliRunner

from coordinator_replay.cli.help_text import EXIT_CODES, MORE_EXIT_CODES
from coordinator_replay.cli.main import SECTIONS, main
from coordinator_replay.cli.options import Command


def told(*arguments: str) -> str:
    return CliRunner().invoke(main, [*arguments, "--help"]).output


@pytest.mark.parametrize("name", sorted(main.commands))
def test_own_options_come_before_those_of_every_command(name: str):
    text = told(name)
    own, _, common = text.partition("\nCommon options:")
    assert "--warehouse DIR" not in own
    for param in main.commands[name].params:
        if isinstance(param, click.Option) and param.name in ("at", "start", "causes", "inputs"):
            assert param.opts[0] in own
    if "--cluster" in common:
        assert common.index("--warehouse") < common.index("--cluster")


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_exit_code_is_told(name: str):
    command = main.commands[name]
    assert isinstance(command, Command)
    section = told(name).partition("\nExit codes:\n")[2]
    codes = re.findall(r"^  (\d+) ", section, re.MULTILINE)
    more = [MORE_EXIT_CODES[name][0]] if name in MORE_EXIT_CODES else []
    assert codes == sorted([*EXIT_CODES, *more], key=int)


def test_every_command_has_one_section():
    listed = [str(command.name) for section in SECTIONS.values() for command in section]
    assert sorted(listed) == sorted(main.commands)


@pytest.mark.parametrize("more", [["-o", "json"], ["--json"], ["--output", "json"]])
def test_json_has_short_names(more: list[str]):
    result = CliRunner().invoke(main, ["sql", "--list", *more])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith('{"name":')
