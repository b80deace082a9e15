"""Words that stand out on a terminal, and nowhere else."""

import io
import time

import click
import pytest

from coordinator_replay.answer_columns import AnswerColumn
from coordinator_replay.cli import output
from coordinator_replay.cli.layout import lay_out
from coordinator_replay.cli.output import print_table
from coordinator_replay.cli.waiting import Waiting

COLUMNS = [AnswerColumn("group_id", "GROUP", 1, is_id=True), AnswerColumn("state", "STATE", 1)]
ROWS = [["payments", "Stable"], ["orders", "Reconciling"], ["Empty", "Empty"]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch):
    written: list[str] = []
    monkeypatch.setattr(output.click, "echo", lambda text="", **_: written.append(text))
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)

    def show(width: int | None, **environment: str) -> list[str]:
        monkeypatch.setattr(output, "terminal_width", lambda *, err=False: width)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        written.clear()
        print_table(COLUMNS, ROWS)
        return list(written)

    return show


def test_states_have_colours_on_a_terminal(shown):
    _, stable, reconciling, empty = shown(80)
    assert click.style("Stable", fg="green") in stable
    assert click.style("Reconciling", fg="yellow") in reconciling
    # Only the state of the group of that name, not the name.
    assert empty.startswith("Empty ")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours_where_the_terminal_wants_none(shown, environment):
    assert not any("\x1b" in line for line in shown(80, **environment))


def test_no_colours_in_a_pipe(shown):
    lines = shown(None)
    assert not any("\x1b" in line for line in lines[1:])


@pytest.mark.parametrize("width", [9, 14, 20, 80])
def test_colours_take_no_room(width: int):
    plain, coloured = (
        lay_out(COLUMNS, ROWS, width=width, numbers=[False, False], nothing="-", has_styles=styles)
        for styles in (False, True)
    )
    assert [[click.unstyle(line) for line in lines] for lines in coloured.rows] == plain.rows


def test_a_sign_of_life_comes_after_a_while_and_goes():
    stream = io.StringIO()
    waiting = Waiting(stream, "reading", first=0.01)
    for _ in range(200):
        if stream.getvalue():
            break
        time.sleep(0.01)
    waiting.end()
    assert "reading … " in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_a_quick_answer_has_none():
    stream = io.StringIO()
    Waiting(stream, "reading", first=30).end()
    assert stream.getvalue() == ""
