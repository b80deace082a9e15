"""The commands that tell at length or draw: reasons, pages, traces. Like those that ask, they start no JVM."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from coordinator_replay.cli import columns
from coordinator_replay.cli.ask import (
    alternatives_note,
    any_group_argument,
    at_option,
    cause_option,
    from_option,
    say,
    show,
    to_option,
)
from coordinator_replay.cli.options import Command, Common, common_options, examples, open_warehouse
from coordinator_replay.cli.output import moment_text, to_json
from coordinator_replay.cli.reasons import counted, print_reason
from coordinator_replay.errors import UsageError

MOST_TRACED_GROUPS = 50
"""Groups in one trace; viewers show no more tracks than that in a useful way."""


def _told(common: Common, path: Path, text: str, **facts: object) -> None:
    """Say what was written: a sentence for people, an object for programs."""
    if common.output == "json":
        click.echo(to_json({"file": str(path), **facts}))
    else:
        say(text)


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay why payments --at 2026-11-20T02:13:00Z",
        "coordinator-replay why payments --from -6h",
        "coordinator-replay why --cause SESSION_TIMEOUT --output json",
    ),
)
@common_options()
@any_group_argument
@at_option
@from_option
@to_option
@cause_option
def why(
    common: Common,
    group: str | None,
    at: datetime | None,
    start: datetime | None,
    end: datetime | None,
    causes: Sequence[str],
) -> None:
    """Tell why GROUP (or any group) rebalanced: each reason, how sure it is, and the records that it rests on.

    With --at only the rebalance that went on then, or else the last one before; both where a classic rebalance may have
    begun by then, since its beginning leaves no record. As json and csv it tells the same as rebalances does.
    """
    from coordinator_replay.query.hold_ups import hold_ups
    from coordinator_replay.query.rebalances import rebalances_at, rebalances_of

    if at is not None and (start is not None or end is not None):
        raise UsageError("give either --at, or a stretch of time with --from and --to")
    warehouse = open_warehouse(common)
    told = warehouse.check_moment(at)
    if at is None:
        found = rebalances_of(warehouse, group, start, end, causes=causes)
    else:
        found = rebalances_at(warehouse, group, at, causes=causes)
    if common.output != "table":
        show(common, columns.REBALANCE, found)
    else:
        held_up = hold_ups(warehouse, group) if any(one.held_up_by for one in found) else {}
        for number, one in enumerate(found):
            if number:
                click.echo()
            print_reason(one, held_up.get(one.rebalance_id))
    if at is not None and len(found) > 1:
        say(
            f"At {moment_text(at)} the rebalance to generation {found[-1].epoch} may have begun or not: "
            "the join phase of a classic group leaves no record."
        )
    say(alternatives_note(found, causes))
    if not found:
        say(f"No such rebalance; the tables cover {warehouse.coverage}.")
    say(told)


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay report payments --out payments.html",
        "coordinator-replay report payments --from 2026-11-20T02:00 --to 2026-11-20T03:00 --out night.html",
        "coordinator-replay report --out fleet.html",
    ),
)
@common_options()
@any_group_argument
@from_option
@to_option
@click.option(
    "--out", "path", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The HTML file to write."
)
def report(common: Common, group: str | None, start: datetime | None, end: datetime | None, path: Path) -> None:
    """Draw the life of GROUP, or of all groups, as one HTML file that needs no network."""
    from coordinator_replay.report.page import write_page

    warehouse = open_warehouse(common)
    if group is None:
        from coordinator_replay.report.fleet_page import fleet_page

        html, fleet = fleet_page(warehouse, start, end)
        write_page(html, path)
        rebalances = sum(one.rebalances for one in fleet.fared)
        groups = sum(count for _, _, count in fleet.kinds)
        _told(
            common,
            path,
            f"Wrote {path}: {counted(groups, 'group')}, {counted(rebalances, 'rebalance')}.",
            groups=groups,
            rebalances=rebalances,
        )
        return
    from coordinator_replay.report.group_page import group_page

    html, life = group_page(warehouse, group, start, end)
    write_page(html, path)
    say(*life.notes)
    _told(
        common,
        path,
        f"Wrote {path}: {counted(len(life.rebalances), 'rebalance')}, {counted(life.commit_count, 'commit')}.",
        rebalances=len(life.rebalances),
        commits=life.commit_count,
    )


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay trace payments --from 2026-11-20T02:00 --to 2026-11-20T03:00 --out payments.json",
        "coordinator-replay trace --out all.json",
    ),
)
@common_options()
@any_group_argument
@from_option
@to_option
@click.option(
    "--out", "path", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The JSON file to write."
)
def trace(common: Common, group: str | None, start: datetime | None, end: datetime | None, path: Path) -> None:
    """Write the life of GROUP, or of all groups, as a trace that Perfetto and chrome://tracing open.

    A track for each member and each partition, with states and ownership as slices and rebalances as instants.
    """
    from coordinator_replay.query.groups import lively_groups
    from coordinator_replay.report.trace import trace_of, write_trace

    warehouse = open_warehouse(common)
    names = [group] if group is not None else lively_groups(warehouse, start, end)
    if len(names) > MOST_TRACED_GROUPS:
        say(f"{len(names)} groups lived then; the trace has the {MOST_TRACED_GROUPS} that most happened to.")
    lives = [trace_of(warehouse, name, start, end) for name in names[:MOST_TRACED_GROUPS]]
    count = write_trace(lives, path)
    say(*(text for life in lives for text in life.notes))
    _told(
        common,
        path,
        f"Wrote {path}: {counted(count, 'event')} of {counted(len(lives), 'group')}.",
        events=count,
        groups=len(lives),
    )


COMMANDS: list[click.Command] = [why, report, trace]
"""Every command of this module, for the program to take up."""
