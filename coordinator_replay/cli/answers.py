"""Code for the commands that answer questions: their common arguments, and the printing of answers."""

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, cast

import click

from coordinator_replay.answer_columns import AnswerColumn, columns_of
from coordinator_replay.cli import clock, output, work
from coordinator_replay.cli.completion import CAUSE_NAME, GROUP_NAME
from coordinator_replay.cli.option_types import END_TIME, TIME
from coordinator_replay.cli.options import Common, Function
from coordinator_replay.cli.output import Row, print_note, print_rows, print_table
from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted

if TYPE_CHECKING:
    from coordinator_replay.api.answer import Answer
    from coordinator_replay.api.page import Page, Pages, Trace


_DOUBTS = {
    "absent_from": AnswerColumn("absent_from", "ABSENT-FROM", 1),
    "is_exact": AnswerColumn("is_exact", "EXACT", 1),
    "is_proven": AnswerColumn("is_proven", "PROVEN", 1),
    "is_stable": AnswerColumn("is_stable", "STABLE", 1),
    "is_topic_current": AnswerColumn("is_topic_current", "SAME-TOPIC", 1),
}
"""Headings of columns that are shown only if the log does not prove a row of the answer, or if a row no longer
counts."""

_SCREEN = 16
"""Largest number of lines of a table on a screen. The other lines are for headings and notes."""

_HEADINGS = 7
"""Number of lines that a second table takes in addition to its rows."""

_LEAST = 5
"""Number of lines that a table may always have, even if there are many notes."""


at_option = click.option("--at", type=TIME, help="Point in time; default: the end of the log.")
_FROM = "From this time on; default: the start of the log."
_to_option = click.option(
    "--to",
    "--until",
    "end",
    type=END_TIME,
    help="End of the range, not included; a date means the end of that day. Default: now, which is the "
    "end of the log, included.",
)


def range_options(function: Function) -> Function:
    """Add the options ``--from`` (or ``--since``) and ``--to``. The command takes them as ``start`` and ``end``."""
    return click.option("--from", "--since", "start", type=TIME, help=_FROM)(_to_option(function))


def range_options_beside_since(function: Function) -> Function:
    """Add the options ``--from`` and ``--to`` to a command in which ``--since`` has another meaning.

    The command takes them as ``start`` and ``end``.
    """
    return click.option("--from", "start", type=TIME, help=_FROM)(_to_option(function))


_group_option = click.option(
    "--group",
    "named_group",
    type=GROUP_NAME,
    help="The same as GROUP; Kafka's own tools have this option.",
    metavar="GROUP",
)
_all_groups_option = click.option("--all-groups", is_flag=True, help="All groups, as without GROUP.")


def group_argument(function: Function) -> Function:
    """Add a parameter for the id of a consumer group to a command.

    The user gives the id as an argument, or with ``--group`` as in Kafka's tools.
    """

    @functools.wraps(function)
    def run(*arguments: Any, group: str | None, named_group: str | None, **asked: Any) -> Any:
        group = _either(group, named_group)
        if group is None:
            raise UsageError("give the group; coordinator-replay groups lists them")
        return function(*arguments, group=group, **asked)

    decorated: Any = click.argument("group", type=GROUP_NAME, required=False)(_group_option(run))
    return cast("Function", decorated)


def any_group_argument(function: Function) -> Function:
    """Add a group to a command, see ``group_argument``. Without a group, the command is about all groups."""

    @functools.wraps(function)
    def run(*arguments: Any, group: str | None, named_group: str | None, all_groups: bool, **asked: Any) -> Any:
        group = _either(group, named_group)
        if group is not None and all_groups:
            raise UsageError("give either the group or --all-groups")
        return function(*arguments, group=group, **asked)

    decorated: Any = click.argument("group", type=GROUP_NAME, required=False)(_group_option(_all_groups_option(run)))
    return cast("Function", decorated)


def several_groups_argument(function: Function) -> Function:
    """Add groups to a command, by names and patterns. The command takes them as ``groups``.

    The user gives names and patterns of groups, or chooses groups by ``--all-groups`` or by conditions, but not both.
    """

    @functools.wraps(function)
    def run(*arguments: Any, groups: Sequence[str], named_groups: Sequence[str], all_groups: bool, **asked: Any) -> Any:
        typed = (*groups, *named_groups)
        is_chosen = all_groups or any(asked.get(kind) for kind in ("hosts", "clients", "names"))
        if bool(typed) == is_chosen:
            raise UsageError("give groups, or --all-groups; coordinator-replay groups lists them")
        return function(*arguments, groups=typed, **asked)

    decorated: Any = run
    for option in (
        click.option("--all-groups", is_flag=True, help="All groups at that time."),
        click.option(
            "--group",
            "named_groups",
            multiple=True,
            type=GROUP_NAME,
            help="The same as GROUP; Kafka's own tools have this option.",
        ),
        click.argument("groups", type=GROUP_NAME, nargs=-1, metavar="GROUP..."),
    ):
        decorated = option(decorated)
    return cast("Function", decorated)


def _either(argument: str | None, option: str | None) -> str | None:
    """Return the group that the user named, either as an argument or by an option.

    Raises:
        UsageError: both are given and name different groups.
    """
    if argument is not None and option is not None and argument != option:
        raise UsageError(f"give one group: {argument!r} and --group {option!r} are two")
    return option if argument is None else argument


_WHO_OPTIONS = {
    "hosts": ("--host", "Only groups with a member on this host."),
    "clients": ("--client", "Only groups with a member of this client id."),
    "topics": ("--topic", "Only groups that read this topic."),
    "names": ("--name", "Only groups of this name."),
    "excluded": ("--exclude", "Leave out groups of this name, such as canaries."),
}


def who_options(*kinds: str) -> Callable[[Function], Function]:
    """Add conditions on groups to a command, which takes them as ``who``.

    Args:
        kinds: the conditions to add, as names of fields of ``Who``; empty for all fields.
    """
    chosen = kinds or tuple(_WHO_OPTIONS)

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*arguments: Any, **asked: Any) -> Any:

            return function(*arguments, who=work.Who(**{kind: asked.pop(kind) for kind in chosen}), **asked)

        decorated: Any = run
        for kind in reversed(chosen):
            name, about = _WHO_OPTIONS[kind]
            text = f"{about} * stands for anything; can be given again."
            decorated = click.option(name, kind, multiple=True, metavar="PATTERN", help=text)(decorated)
        return cast("Function", decorated)

    return decorate


cause_option = click.option(
    "--cause",
    "causes",
    multiple=True,
    type=CAUSE_NAME,
    help="Only rebalances that have this cause, or may have it (these are marked); can be given again.",
)
last_option = click.option(
    "--last",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only the latest N rebalances, in the order in which they began.",
)


def show(common: Common, answer: "Answer[Any]", what: str = "row") -> None:
    """Print an answer, and on standard error its basis and its notes.

    Args:
        common: the options of the command, such as the output form.
        answer: the answer to print.
        what: the noun for one row, such as ``member``, to say how many rows are not printed.
    """
    show_screen(common, columns_for(answer.row_type), answer, what, answer.notes)
    say_notes(answer)


def columns_for(row_type: type, asked: Collection[str] = ()) -> list[AnswerColumn]:
    """Return the columns that a command shows, given the dataclass of its rows.

    Args:
        row_type: the dataclass.
        asked: conditions that are met, such as ``share groups``. Some columns are shown only under a condition
            (``AnswerColumn.only_with``).
    """
    return [column for column in columns_of(row_type) if not column.only_with or column.only_with in asked]


def with_group(columns: Iterable[AnswerColumn]) -> list[AnswerColumn]:
    """Return the columns with the group's id as a column that is never left out, for an answer about several groups."""
    return [replace(column, rank=1) if column.name == "group_id" else column for column in columns]


def show_part(
    common: Common,
    answers: Sequence[object],
    most_lines: int,
    what: str,
    columns: Sequence[AnswerColumn] | None = None,
) -> None:
    """Print rows of one kind as a table of limited length, and the number of rows left out.

    With ``--wide``, and if there is no terminal, print all rows.

    Args:
        common: the output form.
        answers: the rows, with an attribute for each column.
        most_lines: largest number of lines of the table.
        what: the noun for one row, such as ``member``, to say how many rows are not printed.
        columns: the columns to print; None for the columns of the rows' class.
    """
    if not answers:
        return
    shown = columns_for(type(answers[0])) if columns is None else columns
    rows = _values(shown, answers)
    _print_part(common, with_doubts(shown, rows), rows, most_lines, what)


def _print_part(
    common: Common, columns: Sequence[AnswerColumn], rows: Sequence[Row], most_lines: int, what: str
) -> int:
    most = inf if common.wide or output.terminal_width() is None else most_lines
    printed = print_table(columns, rows, is_wide=common.wide, most_lines=most)
    left = len(rows) - printed
    say(f"{counted(left, f'more {what}')}: --wide and --output json have them." if left else None)
    return printed


def show_screen(
    common: Common,
    shown: Sequence[AnswerColumn],
    answers: Iterable[object],
    what: str,
    beside: Sequence[str] = (),
    *,
    shared_with: int = 0,
) -> int:
    """Print some columns of rows.

    A table on a terminal has no more lines than a screen; with ``--wide``, it has all rows.

    Args:
        common: the output form.
        shown: the columns.
        answers: the rows, with an attribute for each column.
        what: the noun for one row, such as ``member``, to say how many rows are not printed.
        beside: sentences that the caller prints above or below the table. The table leaves room for them.
        shared_with: number of rows of another table on the same screen.

    Returns:
        The number of printed rows.
    """
    rows = _values(shown, answers)
    return print_screen(common, with_doubts(shown, rows), rows, what, beside, shared_with=shared_with)


def print_screen(
    common: Common,
    columns: Sequence[AnswerColumn],
    rows: Sequence[Row],
    what: str,
    beside: Sequence[str] = (),
    *,
    shared_with: int = 0,
) -> int:
    """Print rows and return how many were printed. See ``show_screen``; here, each row is a sequence of values."""
    if common.output == "table":
        return _print_part(common, columns, rows, _room(beside, shared_with), what)
    print_rows(columns, rows, common.output, is_wide=common.wide)
    return len(rows)


def _room(beside: Iterable[str], shared_with: int) -> int:
    """Return how many lines a table may have if its screen also shows other text.

    The first sentence takes no line from the table: a screen always has a line free for a sentence.

    Args:
        beside: sentences on the screen.
        shared_with: number of rows of another table on the screen; 0 if there is none.
    """
    taken = sum(len(output.text_lines(text, err=True)) for text in beside)
    left = _SCREEN - max(taken - 1, 0)
    if shared_with:
        left = max((left - _HEADINGS) // 2, left - _HEADINGS - shared_with)
    return max(left, _LEAST)


def _values(shown: Sequence[AnswerColumn], answers: Iterable[object]) -> list[list[object]]:
    return [[getattr(answer, column.name) for column in shown] for answer in answers]


def show_rows(common: Common, shown: Sequence[AnswerColumn], answers: Iterable[object]) -> None:
    """Print some columns of all rows, however many lines they take."""
    rows = _values(shown, answers)
    print_rows(with_doubts(shown, rows), rows, common.output, is_wide=common.wide)


def with_doubts(shown: Sequence[AnswerColumn], rows: Sequence[Sequence[object]]) -> Sequence[AnswerColumn]:
    """Return the columns of a table with their headings.

    A column that says whether rows are proven is shown only if a row of the answer is not proven. Otherwise the column
    gets no heading, and the table leaves it out.

    Args:
        shown: the columns.
        rows: the values of each row.
    """
    doubts = _DOUBTS if all(column.name != "is_unstable" for column in shown) else _DOUBTS.keys() - {"is_stable"}
    return [_with_doubt(column, [row[place] for row in rows], doubts) for place, column in enumerate(shown)]


def _with_doubt(shown: AnswerColumn, values: Sequence[object], doubts: Collection[str]) -> AnswerColumn:
    """Return a column, with a heading if the table needs the column.

    A column that tells whether each row is proven gets a heading only if a row is not proven. A column that marks rows
    with only a bound of a value (``AnswerColumn.bound``) gets a heading only if a row is marked. All other columns keep
    their headings.

    Args:
        shown: the column.
        values: the values of the column.
        doubts: names of the columns that tell whether rows are proven.
    """
    if shown.name in doubts and any(value not in (None, True) for value in values):
        return _DOUBTS[shown.name]
    return replace(shown, heading=shown.bound) if shown.bound and any(value is True for value in values) else shown


def say(*texts: str | None) -> None:
    """Print sentences about the answer on standard error, if there are any."""
    for text in texts:
        if text:
            print_note(text)


def say_basis(answer: "Answer[Any] | Page | Pages | Trace") -> None:
    """Print the basis of an answer, in one line on standard error."""
    say(None if answer.basis is None else answer.basis.line(clock.now()))


def say_notes(answer: "Answer[Any] | Page | Pages | Trace") -> None:
    """Print the basis of an answer and its notes on standard error."""
    say_basis(answer)
    say(*answer.notes)


def say_bases(answers: "Sequence[Answer[Any]]") -> None:
    """Print the basis of each of several answers on standard error. Print a basis that several answers share once."""
    now = clock.now()
    say(*dict.fromkeys(answer.basis.line(now) for answer in answers if answer.basis is not None))
