"""The command ``what-if``: it simulates a recorded group under other settings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from coordinator_replay.answer_columns import AnswerColumn
from coordinator_replay.cli import output, work
from coordinator_replay.cli.answers import (
    columns_for,
    print_screen,
    range_options,
    say,
    say_basis,
    say_notes,
    show,
    show_rows,
    with_doubts,
)
from coordinator_replay.cli.completion import GROUP_NAME
from coordinator_replay.cli.options import Common, open_warehouse, warehouse_command
from coordinator_replay.cli.output import print_rows, print_table, print_text, text_lines
from coordinator_replay.cli.settings import known_option, settings_of
from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted

if TYPE_CHECKING:
    from coordinator_replay.api import Answer, Replayed
    from coordinator_replay.simulation.what_if.measures import Gain

_DOING = "reading the tables and simulating"


@warehouse_command(
    "coordinator-replay what-if payments --set group.protocol=consumer",
    "coordinator-replay what-if payments --alternative group.protocol=consumer --alternative "
    "group.instance.id=per-client,session.timeout.ms=60000",
    "coordinator-replay what-if payments --without-restarts --from -1d",
    "coordinator-replay what-if --all --set group.protocol=consumer",
    "coordinator-replay what-if --list-settings",
    name="what-if",
    needs_warehouse=False,
)
@click.argument("group", type=GROUP_NAME, required=False)
@range_options
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of every alternative; can be given again."
)
@click.option(
    "--alternative",
    "alternatives",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Settings of one alternative; can be given again for another one.",
)
@click.option(
    "--without-restarts",
    is_flag=True,
    help="Simulate without restarts: a client that left and came back stays in the group.",
)
@click.option(
    "--members",
    type=click.IntRange(min=1),
    help="Simulate this number of clients; added clients behave like the first.",
)
@known_option
@click.option("--all", "is_all", is_flag=True, help="Try one alternative on every group; the largest gains come first.")
@click.option("--list-settings", is_flag=True, help="Show the settings that can be tried.")
def what_if(
    common: Common,
    group: str | None,
    settings: Sequence[str],
    alternatives: Sequence[str],
    known: Sequence[str],
    is_all: bool,
    list_settings: bool,
    **asked: Any,
) -> None:
    """Simulate a recorded GROUP under other settings.

    The answer first names the settings that each alternative changes. Then it shows the recorded group and each
    alternative in columns side by side. In a simulation, consumers join, leave and see new partitions as the recorded
    consumers did, and a simulated coordinator answers them. The first simulation has the recorded settings. It shows
    how much of the recorded group a simulation reproduces. If this is too little, there is no prediction.
    """
    if list_settings:
        known_settings = work.Warehouse.what_if_settings()
        show_rows(common, columns_for(known_settings.row_type), known_settings)
        return
    if (group is None) != is_all:
        raise UsageError("give either the group or --all; --list-settings shows what can be tried")
    shared = settings_of(settings)
    tried = [shared | settings_of([alternative]) for alternative in alternatives] or ([shared] if shared else [])
    if not tried and not asked["without_restarts"] and asked["members"] is None:
        raise UsageError("give what to try: --set, --alternative, --without-restarts or --members")
    asked["known"] = settings_of(known)
    if group is None:
        if len(tried) > 1:
            raise UsageError("--all tries one alternative")
        gains = open_warehouse(common, _DOING).what_if_all(tried[0] if tried else {}, **asked)
        if common.output == "table":
            _print_gains(common, gains)
        else:
            show(common, gains)
        return
    answer = open_warehouse(common, _DOING).what_if(group, *tried, **asked)
    if common.output == "table":
        _print(common, answer)
    else:
        show(common, answer)


def _print_gains(common: Common, gains: "Answer[Gain]") -> None:
    """Print a row for each group, with the range of each prediction, and the notes."""
    from coordinator_replay.simulation.what_if.measures import with_range

    columns = [column for column in columns_for(gains.row_type) if column.name != "ranges"]
    rows = [
        [with_range(getattr(gain, column.name), (gain.ranges or {}).get(column.name)) for column in columns]
        for gain in gains
    ]
    print_screen(common, with_doubts(columns, rows), rows, "group", gains.notes)
    say_notes(gains)


_MOST_LINES = 24
"""Largest number of lines of an answer on a terminal without --wide."""

_FIRST = (
    "rebalances",
    "pause_ms_total",
    "partitions_reassigned",
    "members_interrupted",
    "stop_the_world",
    "unowned_ms_total",
    "pause_ms_max",
    "commit_pause_ms_max",
)
"""Measures that a terminal shows first."""


def _print(common: Common, answer: "Replayed") -> None:
    """Print the conclusions, the most important assumption, the fidelity, and a table with a column for each life.

    In a terminal without --wide, print only the most important measures, and how many other measures and assumptions
    there are. Otherwise print everything.
    """
    from coordinator_replay.simulation.what_if.ranges import OPEN_SESSION

    is_short = not common.wide and output.terminal_width() is not None
    is_enough = answer.fidelity.is_enough
    misses = [] if is_short and is_enough else answer.fidelity.misses
    driving = [text for text in answer.assumptions if text.startswith(OPEN_SESSION)]
    others = [text for text in answer.assumptions if text not in driving]
    # The number of simulated rebalances, which the alternatives are compared with, may differ from the recorded one.
    unmatched = [answer.fidelity.unmatched] if answer.fidelity.unmatched and not misses else []
    above = [*answer.differences, *driving, str(answer.fidelity), *unmatched]
    for text in above:
        print_text(text)
    for miss in misses:
        print_text(miss, indent="  ")
    click.echo()
    names = [f"({number}) {life.name}" if number > 1 else life.name for number, life in enumerate(answer)]
    for name in names[2:]:
        print_text(name)
    heads = ["recorded", "simulated", *(f"({number})" for number in range(2, len(answer)))]
    # Alternatives are the answer. On a narrow terminal, the columns of measures and of the simulated record are cut
    # first.
    columns = [AnswerColumn("measure", "MEASURE", 1, 16), *(AnswerColumn(head, head.upper(), 1) for head in heads)]
    columns[2] = AnswerColumn("simulated", "SIMULATED", 2)
    rows = _rows(answer, is_short=is_short)
    if not is_short:
        print_rows(columns, rows, "table", is_wide=common.wide)
        click.echo()
        say_basis(answer)
        say(*others)
        return
    # A blank line, the heading of the table, its note, the basis and the note at the end also take lines.
    taken = sum(len(text_lines(text)) for text in (*above, *names[2:])) + len(misses) + 6
    printed = print_table(columns, rows, most_lines=max(_MOST_LINES - taken, _LEAST_MEASURES), is_excerpt=True)
    say_basis(answer)
    more = [counted(len(rows) - printed, "more measure")] if len(rows) > printed else []
    more += [counted(len(others), f"{'more ' if driving else ''}assumption")] if others else []
    if unmatched:
        more.append(f"{counted(len(answer.fidelity.misses), 'rebalance')} without a match")
    say(f"{', '.join(more)}: --wide shows them." if more else None)


def _rows(answer: "Replayed", *, is_short: bool) -> list[list[object]]:
    """Return the rows of the table of measures: a row for each measure, such as the number of rebalances.

    Args:
        answer: the answer to show.
        is_short: whether the most important measures come first, and measures without a value are left out.
    """
    from coordinator_replay.simulation.what_if.measures import MEASURES, table_of

    rows = [[label, *values] for label, values in table_of(answer)]
    if not is_short:
        return rows
    headings = dict(MEASURES)
    first = [headings[name] for name in _FIRST]
    known = [row for row in rows if any(value is not None for value in row[1:])]
    return sorted(known, key=lambda row: first.index(str(row[0])) if row[0] in first else len(first))


_LEAST_MEASURES = 4
"""Number of lines that the table of measures may always have."""
