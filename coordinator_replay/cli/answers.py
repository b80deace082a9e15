"""What the commands that ask share: arguments that several of them take, and printing what they found."""

from collections.abc import Iterable, Sequence

import click

from coordinator_replay.cli.completion import CAUSE_NAME, GROUP_NAME
from coordinator_replay.cli.layout import Column
from coordinator_replay.cli.options import Common
from coordinator_replay.cli.output import print_note, print_rows
from coordinator_replay.cli.times import TIME

at_option = click.option("--at", type=TIME, help="Point in time; default: the end of the log.")
from_option = click.option("--from", "start", type=TIME, help="From this time on; default: the start of the log.")
to_option = click.option("--to", "end", type=TIME, help="Up to this time, not included; default: the end of the log.")
group_argument = click.argument("group", type=GROUP_NAME)
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
