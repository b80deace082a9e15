"""The commands that ask: they read the tables directly and start no JVM.

Each parses, asks the Python API (``coordinator_replay.api``) and prints. The API is imported when a command runs, so
that ``--help`` stays quick.
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

if TYPE_CHECKING:
    from coordinator_replay.api import Described

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
    found = open_warehouse(common).groups(at=at, types=types, states=states)
    show(common, columns.GROUP, found)
    say(*found.notes)


def _print_description(common: Common, found: "Described") -> None:
    group_values = {"assignor": found.assignor}
    member_values = {"group_id": found.group.group_id, "target_epoch": found.group.assignment_epoch}
    if common.output == "table":
        show(common, columns.DESCRIBED, [found.group], **group_values)
        if found:
            click.echo()
            show(common, columns.MEMBER, found, **member_values)
        return
    group = {
        one.name: group_values[one.name] if one.name in group_values else getattr(found.group, one.name)
        for one in columns.DESCRIBED
    }
    own = [one for one in columns.MEMBER if one.name != "group_id"]
    members = [
        {one.name: member_values[one.name] if one.name in member_values else getattr(member, one.name) for one in own}
        for member in found
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
    found = open_warehouse(common).describe(group, at=at)
    _print_description(common, found)
    say(*found.notes)


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
    found = open_warehouse(common).offsets(
        group, at=at, topics=topics, require_stable=require_stable, end_offsets=end_file
    )
    shown: tuple[Column, ...] = columns.OFFSET
    if require_stable:
        shown += columns.UNSTABLE
    if end_file is not None:
        shown += columns.LAG
    show(common, shown, found, group_id=group)
    say(*found.notes)
    if reset_file is not None:
        from coordinator_replay.query.offsets import write_reset_file

        written = write_reset_file(found, reset_file)
        left_out = f"; {len(found) - written} unstable partitions left out" if written < len(found) else ""
        say(f"Wrote {written} partitions to {reset_file}{left_out}.")


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
    warehouse = open_warehouse(common)
    if members:
        intervals = warehouse.members(group, start=start, end=end)
        show(common, columns.INTERVAL, intervals, group_id=group)
        say(*intervals.notes)
        return
    events = warehouse.timeline(group, start=start, end=end)
    show(common, columns.EVENT, events, group_id=group)
    say(*events.notes)


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
    found = open_warehouse(common).rebalances(group, start=start, end=end, causes=causes)
    show(common, columns.REBALANCE, found)
    say(*found.notes)


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
    found = open_warehouse(common).owner(group, topic, partition, at=at)
    show(common, columns.OWNERSHIP, found, group_id=group, partition=partition)
    say(*found.notes)


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
    found = open_warehouse(common).expired(group, statuses=statuses, within=within)
    show(common, columns.EXPIRED, found)
    say(*found.notes)


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
    found = open_warehouse(common).findings(severity=severity, rules=rules, group=group)
    show(common, columns.FINDING, found)
    say(*found.notes)


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
    if is_list:
        from coordinator_replay.api import Warehouse

        show(common, columns.SAVED_QUERY, Warehouse.saved_queries())
        return
    if (statement is None) == (name is None):
        raise UsageError("give either a statement or --query NAME; --list shows the saved queries")
    if parameters and name is None:
        raise UsageError("--param is for saved queries: give --query NAME too, or write the value into the statement")
    if not common.warehouse:
        raise UsageError(f"give the warehouse, with --warehouse or in {WAREHOUSE_VARIABLE}")
    warehouse = open_warehouse(common)
    if name is not None:
        found = warehouse.sql(query=name, **dict(parameters))
    else:
        found = warehouse.sql(sys.stdin.read() if statement == "-" else str(statement))
    if found.columns:
        print_rows(columns.of_statement(found.columns), found, common.output, is_wide=common.wide)
    say(*found.notes)


COMMANDS: list[click.Command] = [groups, describe, offsets, timeline, rebalances, owner, expired, findings, sql]
"""Every command of this module, for the program to take up."""
