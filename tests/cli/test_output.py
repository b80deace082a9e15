import csv
import io
import json
import unicodedata
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.answer_columns import AnswerColumn
from coordinator_replay.cli import output
from coordinator_replay.cli.output import print_rows, print_table
from coordinator_replay.safe_text import neutral

COLUMNS = [AnswerColumn("group_id", "GROUP"), AnswerColumn("count", "#COUNT"), AnswerColumn("hidden", "")]


def printed(
    capsys: pytest.CaptureFixture[str], columns: list[AnswerColumn], rows: list[list[object]], form: str
) -> str:
    print_rows(columns, rows, form)
    return capsys.readouterr().out


def test_table_aligns_numbers_right_and_leaves_out_columns_without_heading(capsys):
    rows = [["a", 5, "x"], ["long name", 1000, "y"], [None, None, None], ["", 7, ""]]
    assert printed(capsys, COLUMNS, rows, "table") == (
        "GROUP      #COUNT\n"
        "a               5\n"
        "long name    1000\n"
        "-               -\n"
        "-               7\n"
    )  # fmt: skip


def test_table_shows_counts_by_name_as_words_the_most_frequent_first(capsys):
    rows = [["a", {"MEMBER_JOIN": 2, "SESSION_TIMEOUT": 11}, None], ["b", {"topic": "x"}, None]]
    columns = [AnswerColumn("group_id", "GROUP"), AnswerColumn("causes", "CAUSES"), AnswerColumn("none", "NONE")]
    shown = printed(capsys, columns, rows, "table").splitlines()[1:]
    assert shown == ["a      SESSION_TIMEOUT 11, MEMBER_JOIN 2  -", 'b      {"topic":"x"}                      -']


def test_table_counts_wide_characters_as_two_cells(capsys):
    lines = printed(capsys, COLUMNS, [["注文", 1, ""], ["ab", 2, ""]], "table").splitlines()
    assert lines == ["GROUP  #COUNT", "注文        1", "ab          2"]


def test_table_shows_control_characters_and_never_obeys_them(capsys):
    told = printed(capsys, COLUMNS, [["\x1b[2J\x00\u202eevil\n[red]x[/red]\x9b", 1, ""]], "table")
    assert told.splitlines()[1].startswith("\\x1b[2J\\x00\\u202eevil\\x0a[red]x[/red]\\x9b")


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_a_terminal_never_obeys_the_name_of_a_column(monkeypatch, form, is_wide):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    for text in ("a\x1b[2Jb", "pay\u202ements", "x\x9b31m"):
        print_rows([AnswerColumn(text, text, 1)], [[1]], form, is_wide=is_wide)
    shown = terminal.getvalue()
    assert not set(shown) & {"\x1b", "\u202e", "\x9b"}
    assert "2Jb" in shown


@given(st.text())
def test_neutral_text_has_nothing_a_terminal_obeys(text):
    shown = neutral(text)
    assert "Cc" not in {unicodedata.category(character) for character in shown}
    assert len(shown.splitlines()) <= 1


def test_json_is_one_object_a_line_with_types_kept(capsys):
    moment = datetime(2026, 11, 20, 2, 13, tzinfo=UTC)
    columns = [AnswerColumn(name, "") for name in ("text", "number", "moment", "list", "bytes", "nothing", "exact")]
    told = printed(
        capsys, columns, [["a\x1b\x9b\u2028ü", 1, moment, [{"a": moment}], b"\x01", None, Decimal(3)]], "json"
    )
    assert told.count("\n") == 1
    assert not set(told) & {"\x1b", "\x9b", "\u2028"}
    assert json.loads(told) == {
        "text": "a\x1b\x9b\u2028ü",
        "number": 1,
        "moment": "2026-11-20T02:13:00.000Z",
        "list": [{"a": "2026-11-20T02:13:00.000Z"}],
        "bytes": "01",
        "nothing": None,
        "exact": 3,
    }


def test_what_has_a_text_form_is_shown_in_it_in_tables_and_as_an_object_elsewhere(capsys):
    @dataclass(frozen=True)
    class Pair:
        topic: str
        partition: int

        def __str__(self) -> str:
            return f"{self.topic}-{self.partition}"

    column = [AnswerColumn("pairs", "PAIRS")]
    rows = [[(Pair("a", 1), Pair("b", 2))]]
    assert printed(capsys, column, rows, "table") == "PAIRS\na-1; b-2\n"
    assert json.loads(printed(capsys, column, rows, "json")) == {
        "pairs": [{"topic": "a", "partition": 1}, {"topic": "b", "partition": 2}]
    }


texts = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))


@given(st.lists(st.tuples(texts, texts)))
def test_csv_reads_back_as_written(pairs):
    buffer = io.StringIO(newline="")
    columns = [AnswerColumn("one", ""), AnswerColumn("two", "")]
    with redirect_stdout(buffer):
        print_rows(columns, pairs, "csv")
    found = list(csv.reader(io.StringIO(buffer.getvalue(), newline="")))
    assert found[0] == ["one", "two"]
    for cells, pair in zip(found[1:], pairs, strict=True):
        for cell, text in zip(cells, pair, strict=True):
            assert cell == text or (cell == f"'{text}" and set(text) & set("=+-@\t\r\uff1d\uff20\uff0b\uff0d"))


def test_csv_ends_lines_as_the_rfc_asks_and_quotes_what_needs_it(capsys):
    columns = [AnswerColumn("a", ""), AnswerColumn("b", "")]
    rows = [['1+1,"x"', None], [True, [1, 2]]]
    assert printed(capsys, columns, rows, "csv") == 'a,b\r\n"1+1,""x""",\r\ntrue,"[1,2]"\r\n'


FORMULAS = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "\t=1", "-1\n=1", "\uff1d1+1"]


@pytest.mark.parametrize("text", FORMULAS)
@pytest.mark.parametrize(
    "unseen", ["", "\x1b[m", "\x1b[1;31m \x1b[0K", "\x1b", "\x9b", "\u202e", "\u200b", "\ufeff", "\n", "\xa0"]
)
def test_csv_has_no_formula_behind_what_is_not_seen(capsys, unseen, text):
    (_, [cell]) = csv.reader(
        io.StringIO(printed(capsys, [AnswerColumn("a", "")], [[unseen + text]], "csv"), newline="")
    )
    assert cell == f"'{unseen}{text}"


@pytest.mark.parametrize(
    "text", ["\x1b[31mpayments\x1b[0m", "a\x1b[2Jb", "\x1b]0;title\x07x", "pay\u202ements", "\x1b[m"]
)
def test_csv_names_a_group_as_json_does(capsys, text):
    (_, [cell]) = csv.reader(io.StringIO(printed(capsys, [AnswerColumn("a", "")], [[text]], "csv"), newline=""))
    assert {"a": cell} == json.loads(printed(capsys, [AnswerColumn("a", "")], [[text]], "json")) == {"a": text}


def test_csv_has_no_formula_as_the_name_of_a_column(capsys):
    assert printed(capsys, [AnswerColumn("=1+1", "")], [[1]], "csv") == "'=1+1\r\n1\r\n"


@pytest.mark.parametrize("text", FORMULAS)
def test_csv_never_begins_a_cell_with_a_formula(capsys, text):
    (_, cell) = csv.reader(io.StringIO(printed(capsys, [AnswerColumn("a", "")], [[text]], "csv"), newline=""))
    assert cell == [f"'{text}"]


@pytest.mark.parametrize("text", ["-1", "+2.5", "-", "orders-1", "", "'=1"])
def test_csv_leaves_numbers_and_plain_text_alone(capsys, text):
    (_, *cells) = csv.reader(
        io.StringIO(printed(capsys, [AnswerColumn("a", ""), AnswerColumn("b", "")], [[text, 1]], "csv"))
    )
    assert cells == [[text, "1"]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_gets_lines_of_its_width_and_a_bold_heading(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    columns = [AnswerColumn("text", "TEXT", 1, 8), AnswerColumn("count", "#COUNT", 1), AnswerColumn("hidden")]
    print_rows(columns, [["[bold]word " * 4, 12, ""]], "table")
    assert terminal.getvalue() == (
        "\x1b[1mTEXT          #COUNT\x1b[0m\n"
        "[bold]word        12\n"
        "[bold]word\n"
        "[bold]word\n"
        "[bold]word\n"
    )  # fmt: skip


def test_wide_tables_have_every_column_in_full_on_a_terminal_too(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("NO_COLOR", "1")
    print_rows(COLUMNS, [["a long name of a group", 12, "x"]], "table", is_wide=True)
    assert terminal.getvalue() == (
        "GROUP                   #COUNT  HIDDEN\n"
        "a long name of a group      12  x\n"
    )  # fmt: skip


def test_what_was_left_out_is_said_beside_the_table(monkeypatch, capsys):
    monkeypatch.setattr(output, "terminal_width", lambda *, err=False: 20)
    shape = [AnswerColumn("a", "A", 1), AnswerColumn("b", "B", 2)]
    print_rows(shape, [["x" * 15, "y" * 15], ["x" * 15, "z" * 15]], "table")
    told = capsys.readouterr()
    assert told.out == "A\n" + f"{'x' * 15}\n" * 2
    assert told.err == "Left out: B. --wide\n  shows everything\n  in full.\n"
    for rows, head in ([["x" * 15, "y" * 9]], "Also"), ([["x" * 15, "y" * 9]] * 2, "In all rows"):
        print_rows(shape, rows, "table")
        assert capsys.readouterr().err.replace("\n ", "").startswith(f"{head}: B yyyyyyyyy.")
    print_rows(shape, [["x" * 15, "yyyy zzzz"]], "table")
    assert capsys.readouterr().err.startswith('Also: B "yyyy')


def test_no_color_is_respected(monkeypatch, capsys):
    monkeypatch.setenv("NO_COLOR", "1")
    output.print_note("a\x1b[31m")
    assert capsys.readouterr().err == "a\\x1b[31m\n"


MANY = [[f"g{row:02}", "-" if row < 4 else "late", "first" * 3 if row < 4 else "-", "x" * 30] for row in range(9)]


@pytest.mark.parametrize(
    ("most_lines", "headings", "beside"),
    [
        (4, "GROUP  EARLY", "In these rows: SAME xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx."),
        (1, "GROUP  EARLY", "In this row: SAME xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx."),
        (9, "GROUP  LATE  EARLY", "In all rows: SAME xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx."),
    ],
)
def test_a_column_that_the_printed_rows_leave_empty_takes_no_room(
    monkeypatch, capsys, most_lines: int, headings: str, beside: str
):
    monkeypatch.setattr(output, "terminal_width", lambda *, err=False: 30)
    columns = [
        AnswerColumn("group", "GROUP", 1),
        AnswerColumn("late", "LATE", 2),
        AnswerColumn("early", "EARLY", 3),
        AnswerColumn("same", "SAME", 4),
    ]
    rows = [[None if cell == "-" else cell for cell in row] for row in MANY]
    assert print_table(columns, rows, most_lines=most_lines) == most_lines
    told = capsys.readouterr()
    assert told.out.splitlines()[0].strip().startswith(headings)
    assert told.err.replace("\n  ", "").startswith(beside)
    assert "LATE" not in told.err


def test_headings_take_two_lines_before_a_column_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr(output, "terminal_width", lambda *, err=False: 31)
    columns = [
        AnswerColumn("group", "GROUP", 1),
        AnswerColumn("offset", "CURRENT-OFFSET", 2),
        AnswerColumn("client", "GROUP-INSTANCE-ID", 3, 8),
        AnswerColumn("last", "LAST-COLUMN", 4),
    ]
    rows = [["payments", 12, "one", "x" * 20], ["orders", 7, "two", "y" * 20]]
    print_table(columns, rows)
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "          CURRENT-  GROUP-",
        "GROUP       OFFSET  INSTANCE-ID",
        "payments        12  one",
        "orders           7  two",
    ]
    assert told.err.startswith("Left out: LAST-COLUMN.")
    monkeypatch.setattr(output, "terminal_width", lambda *, err=False: 80)
    print_table(columns, rows)
    assert capsys.readouterr().out.splitlines()[0] == "GROUP     CURRENT-OFFSET  GROUP-INSTANCE-ID  LAST-COLUMN"


def test_an_excerpt_promises_no_option_that_shows_the_rest(monkeypatch, capsys):
    monkeypatch.setattr(output, "terminal_width", lambda *, err=False: 30)
    columns = [AnswerColumn("a", "A", 1), AnswerColumn("b", "B", 2), AnswerColumn("c", "C", 3)]
    rows = [["x" * 20, "y" * 9, "z" * place] for place in (13, 12)]
    print_table(columns, rows, is_excerpt=True)
    assert capsys.readouterr().err == "In these rows: B yyyyyyyyy.\n  Left out: C.\n"
