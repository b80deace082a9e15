"""The commands that ask: they read the tables directly and start no JVM.

Each command reads its options, asks the Python API (``coordinator_replay.api``) and prints the answer. Most options
have the name of a parameter of the API's method. A command passes these options to the method as they are, as
``**asked``. The API is imported when a command runs, so that ``--help`` stays quick.
"""

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import click

from coordinator_replay.answer_columns import CLASSIC_MEMBERS, COORDINATORS, LAST, SHARE, STREAMS, AnswerColumn
from coordinator_replay.cli import output, work
from coordinator_replay.cli.answers import (
    any_group_argument,
    at_option,
    cause_option,
    columns_for,
    group_argument,
    last_option,
    print_screen,
    range_options,
    range_options_beside_since,
    say,
    say_bases,
    say_basis,
    say_notes,
    several_groups_argument,
    show,
    show_rows,
    show_screen,
    who_options,
    with_group,
)
from coordinator_replay.cli.completion import (
    GROUP_NAME,
    PARAMETER,
    QUERY_NAME,
    RULE_NAME,
    TOPIC_NAME,
)
from coordinator_replay.cli.option_types import DURATION, STATES, TIME, Parsed, Time, partition_number
from coordinator_replay.cli.options import EXIT_NOTHING, Common, open_warehouse, warehouse_command
from coordinator_replay.cli.output import (
    empty_list_shown,
    print_rows,
    print_text,
    severity_style,
    terminal_width,
    text_lines,
)
from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted
from coordinator_replay.query.choices import GROUP_STATES, GROUP_TYPES, SEVERITIES
from coordinator_replay.times import duration, duration_within, moment_text

if TYPE_CHECKING:
    from coordinator_replay.api import Answer, Described
    from coordinator_replay.query.findings import Finding
    from coordinator_replay.query.who import Who


@warehouse_command(
    "coordinator-replay groups --at 2026-11-20T02:13:00Z",
    "coordinator-replay groups --type consumer --state Reconciling",
    "coordinator-replay groups --deleted",
)
@at_option
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(GROUP_TYPES, case_sensitive=False),
    help="Only groups of this type.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=STATES,
    help=f"Only groups in this state, or in one of several states, separated by commas: {', '.join(GROUP_STATES)}. "
    "A rebalance of a classic group leaves no record until it is over. Until then, the answer has the state "
    "from before the rebalance, unless brokers' logs were audited. Unknown: the state depends on records that are "
    "no longer in the log.",
)
@click.option(
    "--deleted", is_flag=True, help="Show groups that no longer exist, with the time and the cause of their deletion."
)
@click.option(
    "--group", "group", type=GROUP_NAME, help="Only this group; Kafka's own tools have this option.", metavar="GROUP"
)
@click.option("--all-groups", is_flag=True, expose_value=False, hidden=True, help="All groups, as without it.")
@who_options()
def groups(
    common: Common,
    at: Time | None,
    types: Sequence[str],
    states: Sequence[Sequence[str]],
    deleted: bool,
    group: str | None,
    who: "Who",
) -> None:
    """List the groups at a point in time, with type, protocol type and state."""
    wanted = [state for several in states for state in several]
    if group is not None:
        who = replace(who, names=[*who.names, group])
    if deleted:
        if states:
            raise UsageError("a deleted group has no state: give either --deleted or --state")
        if not who.is_everyone:
            raise UsageError("--deleted lists all deleted groups: give it without conditions on groups")
        show(common, open_warehouse(common).deleted_groups(at=at, types=types), "group")
    else:
        show(common, open_warehouse(common).groups(at=at, types=types, states=wanted, who=who), "group")


def _member_columns(descriptions: "Sequence[Described]", kinds: Collection[str]) -> list[AnswerColumn]:
    """Return the columns of a table of members.

    Args:
        descriptions: the groups with their members.
        kinds: the kinds of the groups, such as ``share groups``. Some columns are shown only for some kinds
            (``AnswerColumn.only_with``).
    """
    columns = columns_for(descriptions[0].row_type, kinds)
    if not all(STREAMS in description.kinds for description in descriptions):
        return columns
    # Tasks are shown by subtopology; the partitions of topics follow from them.
    return [replace(column, rank=LAST) if column.name.endswith("_assignment") else column for column in columns]


def _print_several(common: Common, descriptions: "Sequence[Described]", *, has_groups: bool, has_members: bool) -> None:
    """Print a table of several groups, and a table of their members with a column for the group.

    On a terminal, both tables together are no longer than a screen. Notes about single members are printed only for
    groups with members in the table.

    Args:
        common: the options of the command.
        descriptions: the groups with their members.
        has_groups: whether to print the table of groups.
        has_members: whether to print the table of members.
    """
    kinds = {kind for description in descriptions for kind in description.kinds}
    groups = [description.group for description in descriptions]
    members = [member for description in descriptions for member in description] if has_members else []
    of_members = {group.group_id for group in groups} if has_members else set()
    most = _notes_of(descriptions, of_members)
    if has_groups:
        columns = columns_for(type(groups[0]), kinds)
        show_screen(common, columns, groups, "group", most, shared_with=len(members))
    if members:
        if has_groups:
            click.echo()
        columns = with_group(_member_columns(descriptions, kinds))
        beside = len(groups) if has_groups else 0
        printed = show_screen(common, columns, members, "member", most, shared_with=beside)
        if printed < len(members):
            of_members = {member.group_id for member in members[:printed]}
    say(*_notes_of(descriptions, of_members))


def _notes_of(descriptions: "Sequence[Described]", shown: Collection[str]) -> list[str]:
    """Return the notes of groups, each with its group if there are several.

    Args:
        descriptions: the groups with their notes.
        shown: groups whose members are shown; notes about single members of other groups are left out.
    """
    return [
        note if len(descriptions) == 1 else f"{description.group.group_id}: {note}"
        for description in descriptions
        for note in (description.notes if description.group.group_id in shown else description.group_notes)
        if len(descriptions) == 1 or note not in description.alone_notes
    ]


def _print_description(common: Common, description: "Described", *, has_group: bool = True) -> None:
    # Programs get the same fields for every group, people only the fields of its type.
    kinds = description.kinds if common.output == "table" else (STREAMS, SHARE, CLASSIC_MEMBERS, COORDINATORS)
    group_columns = columns_for(type(description.group), kinds)
    member_columns = _member_columns([description], kinds)
    if common.output == "table":
        if has_group:
            show_rows(common, group_columns, [description.group])
        if description:
            if has_group:
                click.echo()
            show_screen(common, member_columns, description, "member", description.notes, shared_with=has_group)
        return
    group = {column.name: getattr(description.group, column.name) for column in group_columns}
    member_names = [column.name for column in member_columns if column.name != "group_id"]
    members = [{name: getattr(member, name) for name in member_names} for member in description]
    if common.output == "json":
        print_rows([AnswerColumn(name) for name in (*group, "members")], [[*group.values(), members]], "json")
        return
    # The rows are members. A prefix marks columns of the group whose name a column of a member has as well.
    names = [*(f"group_{name}" if name in member_names else name for name in group), *member_names]
    rows = [[*group.values(), *member.values()] for member in members or [dict.fromkeys(member_names)]]
    print_rows([AnswerColumn(name) for name in names], rows, "csv")


@warehouse_command(
    "coordinator-replay describe payments",
    "coordinator-replay describe payments --at -6h --output json",
    "coordinator-replay describe 'orders-*' --members",
)
@several_groups_argument
@at_option
@click.option("--members", "is_members", is_flag=True, help="Show the members only.")
@click.option("--state", "is_state", is_flag=True, help="Show the groups only, without their members.")
@click.option("--offsets", "is_offsets", is_flag=True, help="Show committed offsets, as the command offsets does.")
def describe(
    common: Common, groups: Sequence[str], at: Time | None, is_members: bool, is_state: bool, is_offsets: bool
) -> None:
    """Describe GROUP at a point in time, as the broker would have: state, epochs, assignor, members, assignments.

    Several groups can be given, and patterns in which * stands for anything.
    """
    if is_members + is_state + is_offsets > 1:
        raise UsageError("give one of --members, --state and --offsets")
    warehouse = open_warehouse(common)
    chosen = warehouse.chosen_groups(groups, at=at, is_all=not groups)
    if is_offsets:
        offsets = warehouse.offsets_of_groups(chosen, at=at)
        columns = columns_for(offsets.row_type)
        show_screen(common, with_group(columns) if len(chosen) > 1 else columns, offsets, "offset", offsets.notes)
        say_notes(offsets)
        return
    descriptions = [warehouse.describe(group, at=at) for group in chosen]
    if common.output == "table" and descriptions and (is_state or len(descriptions) > 1):
        _print_several(common, descriptions, has_groups=not is_members, has_members=not is_state)
    else:
        for description in descriptions:
            _print_description(common, description, has_group=not is_members)
            say(*description.notes)
    say_bases(descriptions)


@warehouse_command(
    "coordinator-replay timeline payments --from 2026-11-20T02:00 --to 2026-11-20T03:00",
    "coordinator-replay timeline payments --members",
)
@group_argument
@range_options
@click.option("--members", is_flag=True, help="Show member intervals instead of events.")
def timeline(common: Common, members: bool, **asked: Any) -> None:
    """Show what happened to GROUP and to its committed offsets, in log order."""
    warehouse = open_warehouse(common)
    answer: Answer[Any] = warehouse.members(**asked) if members else warehouse.timeline(**asked)
    show_screen(common, columns_for(answer.row_type), answer, "interval" if members else "event", answer.notes)
    say_notes(answer)


@warehouse_command(
    "coordinator-replay rebalances payments --from -1d",
    "coordinator-replay rebalances --cause SESSION_TIMEOUT --output json",
)
@any_group_argument
@range_options
@cause_option
@last_option
@who_options()
def rebalances(common: Common, causes: Sequence[str], **asked: Any) -> None:
    """List rebalances of GROUP, or of all groups, with time, cause, confidence and cost."""
    answer = open_warehouse(common).rebalances(causes=causes, **asked)
    shown = columns_for(answer.row_type)
    if causes and common.output == "table":
        # After the cause comes the column that says whether the cause or an alternative is the cause asked for.
        *shown, matched_by = shown
        place = [column.name for column in shown].index("cause") + 1
        shown.insert(place, replace(matched_by, heading="MATCHED-BY", rank=1))
    if common.output == "table" and not common.wide and output.terminal_width() is not None:
        shown = _with_duration_text(shown)
        if asked["group"] is not None:
            # The group that was asked for is known: other columns come first.
            shown = [replace(column, rank=LAST) if column.name == "group_id" else column for column in shown]
    show_screen(common, shown, answer, "rebalance", answer.notes)
    say_notes(answer)


def _with_duration_text(shown: Sequence[AnswerColumn]) -> list[AnswerColumn]:
    """Return the columns of rebalances as a terminal shows them.

    One column has the duration in words. It replaces the three columns with the duration and its bounds as numbers.
    """
    in_words = AnswerColumn("duration_text", "DURATION", 2)
    return [
        in_words if column.name == "duration_ms" else column
        for column in shown
        if column.name not in ("duration_ms_min", "duration_ms_max")
    ]


@warehouse_command(
    "coordinator-replay owner payments orders 3 --at 2026-11-20T02:13:00Z",
    "coordinator-replay owner payments orders 3 --from 2026-11-20T02:00",
)
@group_argument
@click.argument("topic", type=TOPIC_NAME)
@click.argument("partition", type=Parsed("partition", partition_number, int), required=False)
@at_option
@range_options
def owner(common: Common, group: str, topic: str, partition: int | None, **asked: Any) -> None:
    """Show which member of GROUP owned PARTITION of TOPIC (a name or an id).

    With --from or --to, it shows all owners in that time range, in order. TOPIC-PARTITION is understood, too, and
    TOPIC:PARTITION,PARTITION for several partitions. Without a partition, all partitions of the topic are shown.
    """
    warehouse = open_warehouse(common)
    topic, partitions = warehouse.owned_partitions(group, topic, partition)
    answers = [warehouse.owner(group, topic, number, **asked) for number in partitions]
    # People read the owners before and after in a sentence; programs read them in fields.
    rows = [row for answer in answers for row in (*answer, *(() if common.output == "table" else answer.neighbours))]
    notes = list(dict.fromkeys(note for answer in answers for note in answer.notes))
    single = {answer.handovers for answer in answers} - {None}
    if len(answers) > 1 and single:
        # One note is about all partitions, in place of one for each.
        together = work.handovers_note(rows, is_shared=False)
        notes = [note for note in (together, *notes) if note is not None and note not in single]
    shown = columns_for(answers[0].row_type)
    if common.output == "table" and output.terminal_width() is not None:
        shown = [replace(column, name="unowned_text") if column.name == "unowned_ms" else column for column in shown]
    show_screen(common, shown, rows, "owner", notes)
    say_basis(answers[0])
    say(*notes)


@warehouse_command(
    "coordinator-replay findings --severity warning",
    "coordinator-replay findings --new --exit-code",
    "coordinator-replay findings --rule offset_rewind --output json",
)
@click.option("--severity", type=click.Choice(SEVERITIES), help="Only findings of this severity or a more severe one.")
@click.option("--rule", "rules", multiple=True, type=RULE_NAME, help="Only findings of this rule; can be given again.")
@click.option("--group", type=GROUP_NAME, help="Only findings about this group.")
@range_options_beside_since
@click.option(
    "--new",
    "is_new",
    is_flag=True,
    help="Only findings first stored by the last audit that read new records, or by an audit after it. If records "
    "are missing, so that a finding may have begun earlier, the finding says so.",
)
@click.option("--since", type=TIME, help="Only findings first stored by an audit that began at this time or later.")
@click.option("--exit-code", is_flag=True, help="End with code 4 if no finding is shown.")
@who_options()
def findings(common: Common, exit_code: bool, **asked: Any) -> None:
    """Show the problems that audits found, the most severe first.

    With --from or --to, the answer has the problems that were there at some time in that range.
    """
    answer = open_warehouse(common).findings(**asked)
    if common.output == "table" and not common.wide and terminal_width() is not None:
        _print_findings(answer)
        say_notes(answer)
    else:
        show(common, answer, "finding")
    if exit_code and not answer:
        sys.exit(EXIT_NOTHING)


def _lasted(finding: "Finding") -> str | None:
    """Return the time range of a finding in words; None if no record of the finding has a time."""
    if finding.first_seen is None or finding.last_seen is None:
        return None
    first, last = moment_text(finding.first_seen), moment_text(finding.last_seen)
    earlier, later = " or earlier" * finding.is_begin_open, " or later" * finding.is_end_open
    if finding.ended_at is None:
        return f"since {first}{earlier}"
    return f"{last}{earlier}{later}" if first == last else f"{first}{earlier} to {last}{later}"


_MOST_FINDING_LINES = 20
"""Largest number of lines about several findings on a terminal: the basis and the notes fit below."""


def _print_findings(shown: "Sequence[Finding]") -> None:
    """Print findings on a terminal.

    Each finding is a sentence below a line with its rule, time and group. Findings that don't fit are only counted.
    """
    left = _MOST_FINDING_LINES
    for place, finding in enumerate(shown):
        parts = [finding.severity, finding.rule, _lasted(finding), finding.group_id]
        head, message = "  ".join(part for part in parts if part), finding.message or ""
        left -= len(text_lines(head)) + len(text_lines(message, indent="  "))
        if place and left < 0:
            say(f"{counted(len(shown) - place, 'more finding')}: --wide and --output json have them.")
            return
        print_text(head, style=severity_style(finding.severity))
        print_text(message, indent="  ")


@warehouse_command(
    "coordinator-replay sql --list",
    "coordinator-replay sql --query flapping-groups",
    'coordinator-replay sql "SHOW TABLES"',
    'coordinator-replay sql "SELECT cause, count(*) FROM rebalances GROUP BY ALL"',
    "coordinator-replay sql 'FROM rebalances WHERE cluster = $cluster'",
    "coordinator-replay sql --output csv - < question.sql",
    needs_warehouse=False,
)
@click.argument("statement", required=False)
@click.option("--query", "name", type=QUERY_NAME, help="Run the saved query of this name.")
@click.option(
    "--param",
    "parameters",
    multiple=True,
    type=PARAMETER,
    help="A parameter of the saved query; can be given again. --list shows the parameters of each query.",
)
@click.option("--list", "is_list", is_flag=True, help="Show the saved queries, their parameters and what they answer.")
@click.option(
    "--allow-files",
    is_flag=True,
    help="Let the statement read and write files, attach databases and load extensions, with your rights.",
)
@click.option("--timeout", type=DURATION, help="End the statement after this time, for example 30s; default: never.")
def sql(
    common: Common,
    statement: str | None,
    name: str | None,
    parameters: Sequence[tuple[str, str]],
    is_list: bool,
    allow_files: bool,
    timeout: timedelta | None,
) -> None:
    """Run STATEMENT over the tables, in DuckDB's SQL; "-" reads it from standard input.

    SHOW TABLES and DESCRIBE TABLE show names, types and comments. The tables hold all clusters of the warehouse. In
    a statement, $cluster stands for the cluster that --cluster names. Put a statement with $cluster in single quotes,
    so that the shell leaves it as it is. In this statement, write a text as $$text$$, such as
    date_trunc($$day$$, completed_at). A statement reaches other files and the network only with --allow-files.
    """
    if is_list:
        if statement is not None or name is not None:
            raise UsageError("--list shows all saved queries: give it without a statement and without --query")
        queries = work.Warehouse.saved_queries()
        show_rows(common, columns_for(queries.row_type), queries)
        return
    if (statement is None) == (name is None):
        raise UsageError("give either a statement or --query NAME; --list shows the saved queries")
    if parameters and name is None:
        raise UsageError("--param is for saved queries: give --query NAME too, or write the value into the statement")
    warehouse = open_warehouse(common)
    if name is not None:
        values: dict[str, Any] = dict(parameters)
        answer = warehouse.sql(query=name, timeout=timeout, **values)
    else:
        text = sys.stdin.read() if statement == "-" else str(statement)
        answer = warehouse.sql(text, allow_files=allow_files, timeout=timeout)
    if answer.columns:
        names, rows = list(answer.columns), list(answer)
        if common.output == "json":
            _check_names(names)
        if name is not None and common.output == "table" and not common.wide and output.terminal_width() is not None:
            names, rows = _for_people(names, rows, work.saved_query(name).old)
        print_screen(common, _columns_of_statement(names, rows), rows, "row", answer.notes)
    say_notes(answer)


def _check_names(names: Sequence[str]) -> None:
    """Check that a JSON object can have all columns of an answer.

    Raises:
        UsageError: two columns have the same name.
    """
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise UsageError(
            f"the answer has several columns called {twice!r}, and a JSON object has only one: name the others with AS"
        )


def _for_people(
    names: Sequence[str], rows: Sequence[Sequence[Any]], old: Collection[str]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and rows of a saved query as a terminal shows them.

    A duration with two bounds has two columns, such as ``longest_ms_min`` and ``longest_ms_max``. A terminal shows one
    column instead, with a text.

    Args:
        names: names of the columns.
        rows: the values of each row.
        old: names of columns to leave out. They are the old names of columns that the rows also have under new names.
    """
    bounded = [name.removesuffix("_ms_min") for name in names if name.endswith("_ms_min")]
    parts = {f"{base}{suffix}": base for base in bounded for suffix in _OF_DURATIONS} | dict.fromkeys(old, "")
    shown = list(dict.fromkeys(parts.get(name, name) for name in names if parts.get(name) != ""))
    named = [dict(zip(names, row, strict=True)) for row in rows]
    return shown, [tuple(row[name] if name in row else _length(row, name) for name in shown) for row in named]


_OF_DURATIONS = ("_ms", "_ms_min", "_ms_max", "_ms_bound", "_unbounded")
"""Ends of the names of a duration's columns: exact, at least, at most. If some of several durations have no upper
bound, the last two have the largest bound of the others, and the number of durations without a bound."""


def _length(row: Mapping[str, Any], base: str) -> str | None:
    """Return a duration in words, from the columns of a row whose names begin with ``base``, see ``_OF_DURATIONS``."""
    exact, least, most, bound, unbounded = (row.get(f"{base}{suffix}") for suffix in _OF_DURATIONS)
    if exact is not None:
        return duration(exact)
    if most is not None or bound is None:
        return duration_within(least, most)
    # The longest of these durations may be one without an upper bound, so the bound is only one of the others.
    others = f"all but {unbounded:,} {duration_within(None, bound)}"
    return f"{text}; {others}" if (text := duration_within(least, None)) else others


_NEXT_ARGUMENTS = ("group_id", "topic", "run_id")
"""Id columns of an SQL answer whose values other commands take as arguments."""

_BELOW = (
    *(
        "reason",
        "reasons",
        "client_reason",
        "client_reasons",
        "note",
        "message",
        "error_message",
        "what",
        "obstacle",
        "committer",
        "who",
        "holders",
        "examples",
    ),
    "instance_id",
)
"""Columns of an SQL answer that go below their rows if they don't fit beside others: sentences, and the id by which
people know a static member."""


_DOUBTS = {"is_exact": True, "is_at_least": False}
"""Columns of an SQL answer that say whether a row is proven, with their value in a proven row."""


_USUAL_RANK = 5

_MAIN = ("previous_offset", "committed_offset", "causes", "usual_cause", "longest")
"""Columns that say how an offset changed, or why groups rebalanced. Other columns, apart from ids, are left out before
them."""

_GOOD = {"causes": 24, "usual_cause": 20, "longest": 26}
"""Widths at which columns of an SQL answer are readable, if 30 is more than they need."""


_FIRST = 6
"""Number of first columns of an SQL answer. If one of them is a confidence, it is shown with all columns before it."""


def _asked_columns(names: Sequence[str]) -> Sequence[str]:
    """Return the names of the columns of an SQL answer that a terminal never leaves out.

    A column of confidences says how sure the columns before it are. If some of the first ``_FIRST`` columns have
    confidences, return the last of them and all columns before it. Otherwise return no names.
    """
    places = [place for place, name in enumerate(names[:_FIRST], start=1) if name.endswith("confidence")]
    return names[: max(places, default=0)]


def _rank(name: str, values: Iterable[object], *, is_asked: bool) -> int:
    """Return the rank of a column of an SQL answer. A narrow terminal leaves out columns with a high rank first.

    Columns that the user needs have rank 1 (``is_asked``). A column that says whether rows are proven has rank 2, or
    the highest rank if all rows are proven. The columns in ``_MAIN`` have a lower rank than the remaining columns.

    Args:
        name: name of the column.
        values: values of the column.
        is_asked: whether the column is one that ``_asked_columns`` returns.
    """
    if is_asked:
        return 1
    if name in _MAIN:
        return _USUAL_RANK - 1
    if name not in _DOUBTS:
        return _USUAL_RANK
    return LAST if all(value is _DOUBTS[name] for value in values) else 2


def _columns_of_statement(names: Sequence[str], rows: Sequence[Sequence[object]]) -> list[AnswerColumn]:
    """Return the columns of an SQL answer, with their names as headings.

    Columns with ids of groups and names of topics are never left out (rank 1), because other commands take these values
    as arguments.
    """
    asked = _asked_columns(names)
    return [
        AnswerColumn(name, name, 1, is_id=True)
        if name in _NEXT_ARGUMENTS
        else AnswerColumn(
            name,
            name,
            _rank(name, (row[place] for row in rows), is_asked=name in asked),
            least=12,
            good=_GOOD.get(name, 30),
            is_id=name == "kind" or name.endswith("_id"),
            is_sentence=name in _BELOW,
            text=_day_shown if _are_days(row[place] for row in rows) else empty_list_shown,
        )
        for place, name in enumerate(names)
    ]


def _are_days(values: Iterable[object]) -> bool:
    """Return whether all values of a column are midnights in UTC, as ``date_trunc('day', …)`` makes them."""
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, datetime) and _utc(value).time() == time() for value in known)


def _day_shown(value: object) -> object:
    """Return a midnight in UTC as a date; any other value stays as it is."""
    return _utc(value).date().isoformat() if isinstance(value, datetime) else value


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC)
