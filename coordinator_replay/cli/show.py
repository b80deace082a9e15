"""The commands that make something to look at: pages and traces. Like those that ask, they start no JVM."""

from datetime import datetime
from pathlib import Path

import click

from coordinator_replay.cli.ask import any_group_argument, examples, from_option, open_warehouse, say, to_option
from coordinator_replay.cli.options import Command, Common, common_options
from coordinator_replay.cli.output import to_json

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
            f"Wrote {path}: {groups} groups, {rebalances} rebalances.",
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
        f"Wrote {path}: {len(life.rebalances)} rebalances, {life.commit_count} commits.",
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
    _told(common, path, f"Wrote {path}: {count} events of {len(lives)} groups.", events=count, groups=len(lives))


COMMANDS: list[click.Command] = [report, trace]
"""Every command of this module, for the program to take up."""
