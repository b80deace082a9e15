"""The commands that ask: they read the tables directly and start no JVM.

Each parses, calls one function of the query room and prints. The query room is imported when a command runs, so that
``--help`` stays quick.
"""

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coordinator_replay.cli import columns
from coordinator_replay.cli.completion import (
    CAUSE_NAME,
    COMMITTED_TOPIC_NAME,
    GROUP_NAME,
    PARAMETER,
    QUERY_NAME,
    RULE_NAME,
    TOPIC_NAME,
)
from coordinator_replay.cli.layout import Column
from coordinator_replay.cli.options import WAREHOUSE_VARIABLE, Command, Common, common_options, examples, open_warehouse
from coordinator_replay.cli.output import print_note, print_rows
from coordinator_replay.cli.times import DURATION, TIME
from coordinator_replay.errors import UsageError
from coordinator_replay.query.times import parse_absolute_time

if TYPE_CHECKING:
    from coordinator_replay.query.describe import Description
    from coordinator_replay.query.rebalances import Rebalance

GROUP_TYPES = ("classic", "consumer", "share", "streams")
GROUP_STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Stable",
)
STATUSES = ("EXPIRED", "DUE", "EXPIRING")
SEVERITIES = ("error", "warning", "info")

at_option = click.option("--at", type=TIME, help="Point in time; default: the end of the log.")
from_option = click.option("--from", "start", type=TIME, help="From this time on; default: the start of the log.")
to_option = click.option("--to", "end", type=TIME, help="Up to this time, not included; default: the end of the log.")
_group = click.argument("group", type=GROUP_NAME)
any_group_argument = click.argument("group", type=GROUP_NAME, required=False)


cause_option = click.option(
    "--cause",
    "causes",
    multiple=True,
    type=CAUSE_NAME,
    help="Only rebalances of this cause, or that could also be of it; can be given again.",
)


def show(common: Common, shown: Sequence[Column], answers: Iterable[object], **same: object) -> None:
    """Print answers; ``same`` are columns with one value in all rows."""
    rows = [[same[one.name] if one.name in same else getattr(answer, one.name) for one in shown] for answer in answers]
    print_rows(shown, rows, common.output, is_wide=common.wide)


def say(*texts: str | None) -> None:
    """Say things beside the answer, where there is something to say."""
    for text in texts:
        if text:
            print_note(text)


def alternatives_note(found: "Sequence[Rebalance]", causes: Sequence[str]) -> str | None:
    """What to say where rebalances have a cause that was asked for as an alternative only."""
    wanted = [cause.upper() for cause in causes]
    others = sum(bool(wanted) and (one.cause or "").upper() not in wanted for one in found)
    if not others:
        return None
    asked = " or ".join(wanted)
    return f"{others} of {len(found)} name {asked} as an alternative: the log can't tell it from their cause."


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay groups --at 2026-11-20T02:13:00Z",
        "coordinator-replay groups --type consumer --state Reconciling",
    ),
)
@common_options()
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
    type=click.Choice(GROUP_STATES, case_sensitive=False),
    help=f"Only groups in this state: {', '.join(GROUP_STATES)}.",
)
def groups(common: Common, at: datetime | None, types: Sequence[str], states: Sequence[str]) -> None:
    """List the groups there were, with type, protocol type and state."""
    from coordinator_replay.query.groups import groups_at

    warehouse = open_warehouse(common)
    note = warehouse.check_moment(at)
    found = groups_at(warehouse, at, types=types, states=states)
    if not found:
        note = f"No such group; cluster {common.cluster!r} is covered from {warehouse.coverage}."
    show(common, columns.GROUP, found)
    say(note)


def _print_description(common: Common, found: "Description") -> None:
    group_values = {"assignor": found.assignor}
    member_values = {"group_id": found.group.group_id, "target_epoch": found.group.assignment_epoch}
    if common.output == "table":
        show(common, columns.DESCRIBED, [found.group], **group_values)
        if found.members:
            click.echo()
            show(common, columns.MEMBER, found.members, **member_values)
        return
    group = {
        one.name: group_values[one.name] if one.name in group_values else getattr(found.group, one.name)
        for one in columns.DESCRIBED
    }
    own = [one for one in columns.MEMBER if one.name != "group_id"]
    members = [
        {one.name: member_values[one.name] if one.name in member_values else getattr(member, one.name) for one in own}
        for member in found.members
    ]
    if common.output == "json":
        print_rows([Column(name) for name in (*group, "members")], [[*group.values(), members]], "json")
        return
    # One line for each member; the group's own columns that a member has as well are told apart by a prefix.
    member_names = [one.name for one in own]
    names = [*(f"group_{name}" if name in member_names else name for name in group), *member_names]
    rows = [[*group.values(), *member.values()] for member in members or [dict.fromkeys(member_names)]]
    print_rows([Column(name) for name in names], rows, "csv")


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay describe payments",
        "coordinator-replay describe payments --at -6h --output json",
    ),
)
@common_options()
@_group
@at_option
def describe(common: Common, group: str, at: datetime | None) -> None:
    """Describe GROUP as the broker would have: state, epochs, assignor, members and their assignments."""
    from coordinator_replay.query.describe import describe_at

    warehouse = open_warehouse(common)
    note = warehouse.check_moment(at)
    found = describe_at(warehouse, group, at)
    _print_description(common, found)
    if not found.group.is_exact:
        say("Records are missing before this state: steps that led to it were not seen.")
    say(note)


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay offsets payments --at 2026-11-20T02:13:00Z",
        "coordinator-replay offsets payments --at -1d --reset-file payments.csv",
        "kafka-consumer-groups … --group payments --reset-offsets --from-file payments.csv --execute",
    ),
)
@common_options()
@_group
@at_option
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=COMMITTED_TOPIC_NAME,
    help="Only offsets of this topic; can be given again.",
)
@click.option("--require-stable", is_flag=True, help="Show partitions with a pending transactional commit as unstable.")
@click.option(
    "--reset-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write what kafka-consumer-groups --reset-offsets --from-file takes.",
)
@click.option(
    "--end-offsets",
    "end_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CSV or JSON lines of topic, partition, offset[, time]: shows the lag.",
)
def offsets(
    common: Common,
    group: str,
    at: datetime | None,
    topics: Sequence[str],
    require_stable: bool,
    reset_file: Path | None,
    end_file: Path | None,
) -> None:
    """Show every committed offset GROUP had, whether or not anybody consumed the partition then."""
    from coordinator_replay.query.end_offsets import read_end_offsets
    from coordinator_replay.query.offsets import offsets_at, with_lag, write_reset_file

    warehouse = open_warehouse(common)
    note = warehouse.check_moment(at)
    found = offsets_at(warehouse, group, at, topics=topics, require_stable=require_stable)
    shown: tuple[Column, ...] = columns.OFFSET
    if require_stable:
        shown += columns.UNSTABLE
    if end_file is not None:
        found = with_lag(found, read_end_offsets(end_file, parse_absolute_time, at))
        shown += columns.LAG
    show(common, shown, found, group_id=group)
    unproven = sum(offset.is_proven is False for offset in found)
    if unproven:
        say(f"{unproven} of these may belong to aborted transactions: the input shows no transaction markers.")
    if not found:
        say(f"Group {group!r} had no committed offset then.")
    if reset_file is not None:
        written = write_reset_file(found, reset_file)
        left_out = f"; {len(found) - written} unstable partitions left out" if written < len(found) else ""
        say(f"Wrote {written} partitions to {reset_file}{left_out}.")
    say(note)


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay timeline payments --from 2026-11-20T02:00 --to 2026-11-20T03:00",
        "coordinator-replay timeline payments --members",
    ),
)
@common_options()
@_group
@from_option
@to_option
@click.option("--members", is_flag=True, help="How each member was, interval by interval, instead of events.")
def timeline(common: Common, group: str, start: datetime | None, end: datetime | None, members: bool) -> None:
    """Tell what happened to GROUP, in log order."""
    from coordinator_replay.query.timeline import member_intervals_of, timeline_of

    warehouse = open_warehouse(common)
    found: Sequence[object]
    if members:
        found = member_intervals_of(warehouse, group, start, end)
        show(common, columns.INTERVAL, found, group_id=group)
    else:
        found = timeline_of(warehouse, group, start, end)
        show(common, columns.EVENT, found, group_id=group)
    if not found:
        say(f"Nothing happened to group {group!r} then; the tables cover {warehouse.coverage}.")


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay rebalances payments --from -1d",
        "coordinator-replay rebalances --cause SESSION_TIMEOUT --output json",
    ),
)
@common_options()
@any_group_argument
@from_option
@to_option
@cause_option
def rebalances(
    common: Common, group: str | None, start: datetime | None, end: datetime | None, causes: Sequence[str]
) -> None:
    """Tell when and why GROUP (or any group) rebalanced, how sure that is, and what it cost."""
    from coordinator_replay.query.rebalances import rebalances_of

    warehouse = open_warehouse(common)
    found = rebalances_of(warehouse, group, start, end, causes=causes)
    show(common, columns.REBALANCE, found)
    say(alternatives_note(found, causes))
    if not found:
        say(f"No such rebalance; the tables cover {warehouse.coverage}.")


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay owner payments orders 3 --at 2026-11-20T02:13:00Z",
    ),
)
@common_options()
@_group
@click.argument("topic", type=TOPIC_NAME)
@click.argument("partition", type=click.IntRange(min=0))
@at_option
def owner(common: Common, group: str, topic: str, partition: int, at: datetime | None) -> None:
    """Tell which member of GROUP owned PARTITION of TOPIC; the topic may be given by its id."""
    from coordinator_replay.query.owner import owners_at

    warehouse = open_warehouse(common)
    note = warehouse.check_moment(at)
    found = owners_at(warehouse, group, topic, partition, at)
    show(common, columns.OWNERSHIP, found.owners, group_id=group, partition=partition)
    say(found.hint, note)


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay expired --within 3d",
        "coordinator-replay expired payments --status EXPIRED",
    ),
)
@common_options()
@any_group_argument
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(STATUSES, case_sensitive=False), help="Only these."
)
@click.option("--within", type=DURATION, help="Only offsets whose time is up so soon after the end of the log read.")
def expired(common: Common, group: str | None, statuses: Sequence[str], within: timedelta | None) -> None:
    """Show offsets that retention took or is about to take, of GROUP or of all groups."""
    from coordinator_replay.query.expired import expired_offsets

    warehouse = open_warehouse(common)
    found = expired_offsets(warehouse, group, statuses=statuses, within=within)
    show(common, columns.EXPIRED, found)
    if not found:
        say(f"No such offset; the tables cover {warehouse.coverage}.")


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay findings --severity warning",
        "coordinator-replay findings --rule offset_rewind --output json",
    ),
)
@common_options()
@click.option("--severity", type=click.Choice(SEVERITIES), help="Only findings as grave as this, or graver.")
@click.option("--rule", "rules", multiple=True, type=RULE_NAME, help="Only findings of this rule; can be given again.")
@click.option("--group", type=GROUP_NAME, help="Only findings about this group.")
def findings(common: Common, severity: str | None, rules: Sequence[str], group: str | None) -> None:
    """Show what an operator should look at, the gravest first."""
    from coordinator_replay.query.findings import findings_of

    warehouse = open_warehouse(common)
    found = findings_of(warehouse, severity=severity, rules=rules, group=group)
    show(common, columns.FINDING, found)
    if not found:
        say(f"No such finding; the tables cover {warehouse.coverage}.")


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay sql --list",
        "coordinator-replay sql --query flapping-groups",
        'coordinator-replay sql "SHOW TABLES"',
        'coordinator-replay sql "SELECT cause, count(*) FROM rebalances GROUP BY ALL"',
        "coordinator-replay sql --output csv - < question.sql",
    ),
)
@common_options(needs_warehouse=False)
@click.argument("statement", required=False)
@click.option("--query", "name", type=QUERY_NAME, help="Run the saved query of this name.")
@click.option(
    "--param",
    "parameters",
    multiple=True,
    type=PARAMETER,
    help="A parameter of the saved query; can be given again. --list shows which it takes.",
)
@click.option("--list", "is_list", is_flag=True, help="Show the saved queries, their parameters and what they answer.")
def sql(
    common: Common,
    statement: str | None,
    name: str | None,
    parameters: Sequence[tuple[str, str]],
    is_list: bool,
) -> None:
    """Run STATEMENT over the tables, in DuckDB's SQL; "-" reads it from standard input.

    SHOW TABLES and DESCRIBE table tell names, types and comments. The tables hold all clusters of the warehouse:
    $cluster in a statement stands for the one that --cluster names.
    """
    from coordinator_replay.query.saved import run_saved_query, saved_queries
    from coordinator_replay.query.sql import run_sql

    if is_list:
        show(common, columns.SAVED_QUERY, saved_queries().values())
        return
    if (statement is None) == (name is None):
        raise UsageError("give either a statement or --query NAME; --list shows the saved queries")
    if parameters and name is None:
        raise UsageError("--param is for saved queries: give --query NAME too, or write the value into the statement")
    if not common.warehouse:
        raise UsageError(f"give the warehouse, with --warehouse or in {WAREHOUSE_VARIABLE}")
    warehouse = open_warehouse(common)
    if name is not None:
        names, rows = run_saved_query(warehouse, name, dict(parameters))
    else:
        names, rows = run_sql(warehouse, sys.stdin.read() if statement == "-" else str(statement))
    if names:
        print_rows(columns.of_statement(names), rows, common.output, is_wide=common.wide)
    if name is not None and not rows:
        say(f"No rows; cluster {common.cluster!r} is covered from {warehouse.coverage}.")


COMMANDS: list[click.Command] = [groups, describe, offsets, timeline, rebalances, owner, expired, findings, sql]
"""Every command of this module, for the program to take up."""
