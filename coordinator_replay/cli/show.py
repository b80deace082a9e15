"""The commands that explain or draw: ``why``, ``report`` and ``trace``. They start no JVM."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from coordinator_replay.cli import work
from coordinator_replay.cli.answers import (
    any_group_argument,
    at_option,
    cause_option,
    last_option,
    range_options,
    say,
    say_notes,
    show,
    who_options,
)
from coordinator_replay.cli.option_types import MARK, NEW_FILE, check_folder
from coordinator_replay.cli.options import Common, open_warehouse, warehouse_command
from coordinator_replay.cli.output import to_json
from coordinator_replay.cli.reasons import print_reasons
from coordinator_replay.cli.settings import known_option, settings_of
from coordinator_replay.cli.waiting import end_waiting
from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted


def print_written(common: Common, path: Path, text: str, **facts: object) -> None:
    """Print that a file was written.

    Args:
        common: the options of the command.
        path: path of the file.
        text: the sentence to print. For JSON, the path and the facts are printed as an object instead.
        facts: facts about the file, by name.
    """
    end_waiting()
    if common.output == "json":
        click.echo(to_json({"file": str(path), **facts}))
    else:
        say(text)


_FILES = (".html", ".htm", ".svg", ".png")
"""File extensions of pages and pictures."""


def _is_folder(out: str, path: Path, *, is_fleet: bool) -> bool:
    """Return whether the output is a folder.

    The output is a folder if its path ends in a slash or names an existing folder. If the output is about all groups, a
    new path is a folder too, unless it has the extension of a page or picture.

    Args:
        out: the path as the user typed it.
        path: the same path, parsed.
        is_fleet: whether the output is about all groups.
    """
    if out.endswith(("/", os.sep)) or path.is_dir():
        return True
    return is_fleet and not path.exists() and path.suffix.lower() not in _FILES


@warehouse_command(
    "coordinator-replay why payments --at 2026-11-20T02:13:00Z",
    "coordinator-replay why payments --from -6h",
    "coordinator-replay why --cause SESSION_TIMEOUT --output json",
)
@any_group_argument
@at_option
@range_options
@cause_option
@last_option
@who_options()
def why(common: Common, **asked: Any) -> None:
    """Explain each rebalance of GROUP, or of all groups: its cause, how sure the cause is, and the evidence for it.

    With --at, it explains only the rebalance of GROUP in progress at that time. If none was in progress, it explains
    the last rebalance before that time. No record shows when a classic rebalance begins. So if the next rebalance may
    have begun by that time, the command explains that rebalance, too. With --at and no GROUP, it explains all
    rebalances in progress.

    If there are more than five rebalances, a summary comes first. If a terminal has no room for all
    explanations, it gets the latest ones that fit, and a list of the other rebalances. The last rebalance whose
    evidence names a known fault of Kafka takes the place of the latest. With --at, the first rebalance is explained
    instead, except for a consumer, share or streams GROUP. --wide explains all. With --output json and csv, the output
    is the same as from the command rebalances.
    """
    reasons = open_warehouse(common).why(**asked)
    if common.output != "table":
        show(common, reasons, "rebalance")
        return
    print_reasons(reasons, is_wide=common.wide, is_at=asked["at"] is not None)
    say_notes(reasons)


@warehouse_command(
    "coordinator-replay report payments --out payments.html",
    "coordinator-replay report payments --from 2026-11-20T02:00 --to 2026-11-20T03:00 --out night.html",
    "coordinator-replay report payments --out payments.svg --mark '02:13=deploy 4.2'",
    "coordinator-replay report --out fleet/",
    "coordinator-replay report payments --what-if group.protocol=consumer --out what-if.html",
)
@any_group_argument
@range_options
@click.option(
    "--out",
    "out",
    required=True,
    type=click.Path(),
    help="File to write: HTML, or a picture if its name ends in .svg or .png. Without GROUP, a path with another "
    "ending is a folder for linked pages of all groups; it is made if needed.",
)
@click.option(
    "--mark",
    "marks",
    type=MARK,
    multiple=True,
    metavar="TIME=TEXT",
    help="Mark a time in all figures, such as 02:13=deploy; can be given again.",
)
@click.option(
    "--what-if",
    "alternatives",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Draw GROUP as recorded, next to a simulation with these settings; can be given again for another simulation.",
)
@known_option
def report(
    common: Common, group: str | None, out: str, alternatives: Sequence[str], known: Sequence[str], **asked: Any
) -> None:
    """Draw what happened to GROUP, or to all groups, as HTML pages that need no network, or as a picture.

    Without GROUP, a file gets an overview of all groups. A folder gets the overview, and a linked page for each group
    that has a rebalance or a finding on record in the time range.
    With --what-if, the page shows GROUP as recorded and as simulated with each alternative, on one time axis. The
    command what-if --list-settings shows the names of settings. PNG needs a Chromium on the machine, SVG does not.
    """
    path = Path(out)
    is_folder = _is_folder(out, path, is_fleet=group is None)
    if group is not None and is_folder:
        raise UsageError(f"{out} is a folder: give a file for the page of one group, such as {path / 'group.html'}")
    if is_folder and alternatives:
        raise UsageError("--what-if draws one group: give GROUP and a file")
    if not is_folder:
        check_folder(path)
        work.check_page_name(path)
    warehouse = open_warehouse(common)
    if is_folder:
        pages = warehouse.write_pages(path, **asked)
        path, facts = pages.index, pages.facts
        say_notes(pages)
    else:
        tried = [settings_of([alternative]) for alternative in alternatives]
        page = warehouse.report(group, what_if=tried, known=settings_of(known), **asked)
        page.save(path)
        facts = page.facts
        say_notes(page)
    shown = ", ".join(counted(number, what.removesuffix("s")) for what, number in facts.items())
    print_written(common, path, f"Wrote {path}: {shown}.", **facts)


@warehouse_command(
    "coordinator-replay trace payments --from 2026-11-20T02:00 --to 2026-11-20T03:00 --out payments.json",
    "coordinator-replay trace --out all.json",
)
@any_group_argument
@range_options
@click.option("--out", "path", required=True, type=NEW_FILE, help="The JSON file to write.")
def trace(common: Common, path: Path, **asked: Any) -> None:
    """Write what happened to GROUP, or to all groups, as a trace that Perfetto and chrome://tracing open.

    The trace has a track for each member and each partition, with states, rebalances and ownership as slices. Two
    counters show how many members there are, and how many partitions have no owner.
    """
    traced = open_warehouse(common).trace(**asked)
    count = traced.save(path)
    say_notes(traced)
    print_written(
        common,
        path,
        f"Wrote {path}: {counted(count, 'event')} of {counted(len(traced.groups), 'group')}.",
        events=count,
        groups=len(traced.groups),
    )
