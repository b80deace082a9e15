"""A table fits any terminal, and what it shortens stays different."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from coordinator_replay.answer_columns import LAST, AnswerColumn
from coordinator_replay.cli.layout import Cell, TextTable, cut, lay_out, shortened_ids

START = datetime(2026, 11, 20, 2, 13, 5, tzinfo=UTC)


def lines_of(told: TextTable) -> list[str]:
    return [line for lines in told.rows for line in lines]


def table(
    columns: list[AnswerColumn], rows: list[list[Cell]], width: int | None, numbers: list[bool] | None = None
) -> TextTable:
    numbers = numbers or [False] * len(columns)
    return lay_out(columns, rows, width=width, numbers=numbers, nothing="-")


texts = st.text(st.characters(exclude_categories=["C", "M", "Z"]), max_size=60)
columns = st.builds(
    AnswerColumn,
    name=st.just("name"),
    heading=st.text("ABCDEFGHIJ-", min_size=1, max_size=24),
    rank=st.integers(1, 9),
    least=st.one_of(st.none(), st.integers(8, 20)),
    is_id=st.booleans(),
    is_sentence=st.booleans(),
)


@given(st.data(), st.integers(20, 200))
def test_no_line_is_wider_than_the_terminal_and_every_row_has_one(data: st.DataObject, width: int):
    shape = data.draw(st.lists(columns, min_size=1, max_size=8))
    cell = st.one_of(texts, st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)))  # noqa: DTZ001
    rows = data.draw(st.lists(st.tuples(*(cell for _ in shape)).map(list), max_size=6))
    told = table(shape, rows, width)
    assert len(lines_of(told)) >= len(rows)
    assert all(cell_len(line) <= width for line in (*told.heading.split("\n"), *lines_of(told)))


@given(st.data(), st.integers(30, 120))
def test_every_column_with_values_is_shown_or_named_as_left_out(data: st.DataObject, width: int):
    """Only a column of the last rank with one value for all rows may be silent: the question names that value."""
    shape = [
        AnswerColumn(f"c{place}", f"C{place}", data.draw(st.integers(1, LAST)), 4, is_cut=data.draw(st.booleans()))
        for place in range(data.draw(st.integers(1, 12)))
    ]
    cell = st.sampled_from(["-", "one", "another value", "a value that is longer than all the others are"])
    rows = data.draw(st.lists(st.tuples(*(cell for _ in shape)).map(list), min_size=1, max_size=5))
    told = table(shape, rows, width)
    below = {line.strip().partition(":")[0] for line in lines_of(told)}
    seen = {*told.heading.split(), *below, *told.left_out, *(text.split()[0] for text in told.everywhere)}
    for place, column in enumerate(shape):
        values = {row[place] for row in rows}
        if values != {"-"} and (column.rank < LAST or len(values) > 1):
            assert column.heading in seen


@given(st.lists(texts.filter(bool), unique=True, max_size=20), st.integers(1, 70))
def test_shortened_ids_stay_different(ids: list[str], width: int):
    short = shortened_ids(ids, width)
    assert len(set(short.values())) == len(ids)
    assert all(cell_len(text) <= max(width, cell_len(whole)) for whole, text in short.items())


@given(st.sets(st.uuids(), min_size=2, max_size=30), st.integers(8, 50))
def test_member_ids_of_one_client_stay_different(uuids: set[UUID], width: int):
    short = shortened_ids([f"consumer-payments-1-{uuid}" for uuid in uuids], width)
    assert len(set(short.values())) == len(uuids)


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (60, ["worker-1-8d05801b-e2a9-4a6a-8288-9a03038e6a27", "worker-2-8d05801b-e2a9-4a6a-8288-9a03038e6a27"]),
        (16, ["worker-1-8d0580…", "worker-2-8d0580…"]),
        (14, ["worker-1-8d05…", "worker-2-8d05…"]),
        (8, ["worker-1…", "worker-2…"]),
    ],
)
def test_a_client_s_name_is_kept_longer_than_the_uuid_behind_it(width: int, expected: list[str]):
    ids = [f"worker-{number}-8d05801b-e2a9-4a6a-8288-9a03038e6a27" for number in (1, 2)]
    assert list(shortened_ids(ids, width).values()) == expected


def test_ids_that_begin_alike_are_told_apart_by_their_ends_in_a_few_cells():
    ids = ["consumer-payments-settler-1", "consumer-payments-settler-2", "consumer-payments-writer-1"]
    assert [shortened_ids(ids, 8)[one] for one in ids] == ["…ttler-1", "…ttler-2", "…riter-1"]


@given(texts, st.integers(0, 70))
def test_cut_text_is_as_wide_as_it_may_be(text: str, width: int):
    assert cell_len(cut(text, width)) <= width
    assert cut(text, width) == text or cell_len(text) > width


def test_lists_of_partitions_go_on_after_a_comma():
    shape = [AnswerColumn("a", "A", 1), AnswerColumn("b", "OWNED", 1, 8)]
    rows: list[list[Cell]] = [["x", "orders:10,12,14,16"], ["y", "-"]]
    assert lines_of(table(shape, rows, 16)) == ["x  orders:10,12,", "   14,16", "y  -"]


def test_a_column_of_rank_1_without_room_stands_below_and_is_never_left_out():
    shape = [AnswerColumn("a", "FIRST", 1), AnswerColumn("b", "SECOND", 1), AnswerColumn("c", "THIRD", 2)]
    told = table(shape, [["x" * 10, "y" * 10, "z" * 10]], 20)
    assert (told.heading, lines_of(told)) == ("FIRST", ["x" * 10, "    SECOND:", "      " + "y" * 10])
    assert (told.left_out, told.everywhere) == ([], ["THIRD zzzzzzzzzz"])


def test_columns_give_way_by_rank_and_are_named():
    shape = [AnswerColumn("a", "FIRST", 1), AnswerColumn("b", "SECOND", 3), AnswerColumn("c", "THIRD", 2)]
    told = table(shape, [["x" * 10, "y" * 10, "z" * 10]], 24)
    assert (told.heading, lines_of(told)) == ("FIRST       THIRD", ["x" * 10 + "  " + "z" * 10])
    assert (told.left_out, told.everywhere) == ([], ["SECOND yyyyyyyyyy"])
    rows: list[list[Cell]] = [["x" * 10, text * 10, text * 10] for text in "yz"]
    assert (table(shape, rows, 24).left_out, table(shape, rows, 24).everywhere) == (["SECOND"], [])


def test_a_column_with_one_value_gives_way_to_columns_that_tell_rows_apart_and_is_said_once():
    shape = [AnswerColumn("a", "A", 1), AnswerColumn("host", "HOST", 2), AnswerColumn("b", "B", 5)]
    rows: list[list[Cell]] = [["x" * 10, "10.0.0.1", text * 10] for text in "yz"]
    told = table(shape, rows, 24)
    assert (told.heading, told.left_out, told.everywhere) == ("A           B", [], ["HOST 10.0.0.1"])
    assert table(shape, rows, 32).everywhere == []
    other: list[list[Cell]] = [[*rows[0]], ["x" * 10, "10.0.0.2", "z" * 10]]
    assert (table(shape, other, 24).heading, table(shape, other, 24).left_out) == ("A           HOST", ["B"])
    long: list[list[Cell]] = [["x" * 10, "h" * 41, text * 10] for text in "yz"]
    assert (table(shape, long, 24).left_out, table(shape, long, 24).everywhere) == (["HOST"], [])
    sometimes: list[list[Cell]] = [[*rows[0]], ["x" * 10, "-", "z" * 10]]
    assert (table(shape, sometimes, 24).left_out, table(shape, sometimes, 24).everywhere) == (["B"], [])


def test_columns_without_any_value_are_the_first_to_go_and_not_missed():
    shape = [AnswerColumn("a", "FIRST", 1), AnswerColumn("b", "EMPTY", 2), AnswerColumn("c", "LAST", 5, 4)]
    told = table(shape, [["x" * 10, "-", "z" * 10]], 22)
    assert (lines_of(told), told.left_out, told.is_cut) == (["x" * 10 + "  " + "z" * 10], [], False)
    assert table(shape, [["x" * 10, "-", "z" * 10]], 29).heading == "FIRST       EMPTY  LAST"


GROUP, TOPIC = AnswerColumn("g", "GROUP", 1, is_id=True), AnswerColumn("t", "TOPIC", 1, is_id=True)


def test_ids_that_the_next_command_takes_stand_above_their_rows_where_the_answer_does_not_fit_beside_them():
    shape = [GROUP, TOPIC, AnswerColumn("r", "RULE", 1)]
    rows: list[list[Cell]] = [[group * 12, "t" * 8, "rule" * 4] for group in "aab"]
    assert lines_of(table(shape, rows, 40)) == ["  ".join(map(str, row)) for row in rows]
    told = table(shape, rows, 39)
    below = "  " + "t" * 8 + "  " + "rule" * 4
    assert (told.heading, lines_of(told)) == ("  TOPIC     RULE", ["a" * 12, below, below, "b" * 12, below])
    assert not (told.left_out or told.is_cut)
    told = table(shape, rows, 22)
    assert lines_of(told)[:2] == ["a" * 12 + "  " + "t" * 8, "  " + "rule" * 4]
    assert not told.is_cut
    assert table(shape, rows, 21).is_cut


def test_ids_leave_half_of_the_line_to_an_answer_without_other_columns_of_rank_1():
    shape = [GROUP, AnswerColumn("n", "COUNT", 5)]
    assert lines_of(table(shape, [["g" * 20, "1"]], 40)) == ["g" * 20 + "  1"]
    assert lines_of(table(shape, [["g" * 21, "1"]], 40)) == ["g" * 21, "  1"]


def test_sentences_stand_below_their_rows_where_they_do_not_fit():
    shape = [AnswerColumn("a", "AT", 1), AnswerColumn("r", "reason", is_sentence=True)]
    rows: list[list[Cell]] = [["1", "the consumer is being closed"], ["2", "-"]]
    assert lines_of(table(shape, rows, 32)) == ["1   the consumer is being closed", "2   -"]
    told = table(shape, rows, 31)
    assert (told.heading, lines_of(told)) == ("AT", ["1", "    reason: the consumer is", "      being closed", "2"])
    assert not (told.left_out or told.is_cut)
    assert lines_of(table(shape, rows, None)) == ["1   the consumer is being closed", "2   -"]


def test_texts_go_on_in_their_column_where_there_is_no_room_and_below_the_row_where_that_takes_fewer():
    shape = [AnswerColumn("a", "NAME", 1), AnswerColumn("b", "TEXT", 1, 8)]
    assert lines_of(table(shape, [["n" * 10, "t" * 20]], 32)) == ["n" * 10 + "  " + "t" * 20]
    rows: list[list[Cell]] = [["n" * 10, "left or was removed"], ["m" * 10, "joined"]]
    told = table(shape, rows, 24)
    assert lines_of(told) == ["n" * 10 + "  left or was", " " * 12 + "removed", "m" * 10 + "  joined"]
    assert not told.is_cut
    sentence = "was removed from the group, in which it was since the evening before, by an admin of the cluster"
    told = table(shape, [["n" * 24, sentence]], 40)
    assert lines_of(told) == [
        "n" * 24,
        "    TEXT: was removed from the group,",
        "      in which it was since the evening",
        "      before, by an admin of the cluster",
    ]


def test_the_day_that_all_times_share_stands_above_the_table():
    shape = [AnswerColumn("a", "TIME", 1), AnswerColumn("b", "TEXT", 1)]
    rows: list[list[Cell]] = [[START, "a"], [START + timedelta(hours=1), "b"]]
    told = table(shape, rows, 80)
    assert (told.date, lines_of(told)) == ("2026-11-20, UTC", ["02:13:05  a", "03:13:05  b"])
    told = table(shape, [*rows, [START + timedelta(days=1), "c"]], 80)
    assert (told.date, lines_of(told)[0]) == ("2026, UTC", "11-20 02:13:05  a")
    told = table(shape, [*rows, [START + timedelta(days=400), "c"]], 80)
    assert (told.date, lines_of(told)[0]) == ("UTC", "2026-11-20 02:13:05  a")
    told = table(shape, rows, None)
    assert (told.date, lines_of(told)[0]) == ("", "2026-11-20T02:13:05.000Z  a")


def test_milliseconds_go_where_room_is_short_unless_they_tell_two_times_apart():
    shape = [AnswerColumn("a", "TIME", 1), AnswerColumn("b", "TEXT", 2)]
    rows: list[list[Cell]] = [[START + timedelta(milliseconds=5), "a" * 10], [START + timedelta(seconds=1), "b" * 10]]
    assert lines_of(table(shape, rows, 24))[0] == "02:13:05.005  " + "a" * 10
    assert lines_of(table(shape, rows, 23))[0] == "02:13:05  " + "a" * 10
    told = table(shape, [*rows, [START, "c" * 10]], 23)
    assert (lines_of(told)[0], told.left_out) == ("02:13:05.005", ["TEXT"])


def test_numbers_stand_to_the_right_and_are_never_cut():
    told = table(
        [AnswerColumn("a", "N", 1, 2), AnswerColumn("b", "T", 1, 2)], [["12345678", "text text"]], 14, [True, False]
    )
    assert lines_of(told) == ["12345678  text", "          text"]


def test_a_column_without_a_value_is_not_shown_while_another_one_is_left_out():
    shape = [AnswerColumn("a", "A", 1), AnswerColumn("none", "NONE", 2), AnswerColumn("wide", "WIDE", 3)]
    rows: list[list[Cell]] = [["x" * 10, "-", text * 20] for text in "yz"]
    assert table(shape, rows, 20).heading == "A"
    assert table(shape, rows, 20).left_out == ["WIDE"]
    assert table(shape, rows, 60).heading.split() == ["A", "NONE", "WIDE"]
