"""The commands that ask about all groups at once: what a topic or a time range has to do with each of them."""

from datetime import datetime

import click

from coordinator_replay.cli.answers import from_option, show, to_option
from coordinator_replay.cli.completion import ANY_TOPIC_NAME
from coordinator_replay.cli.options import Command, Common, common_options, examples, open_warehouse


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay consumers orders",
        "coordinator-replay consumers orders --from 2026-11-20T02:00 --to 2026-11-20T03:00",
    ),
)
@common_options()
@click.argument("topic", type=ANY_TOPIC_NAME)
@from_option
@to_option
def consumers(common: Common, topic: str, start: datetime | None, end: datetime | None) -> None:
    """List the groups, clients and hosts that read TOPIC (a name or an id): how, from when to when, which partitions.

    HOW is subscribed (by name), regex, share, streams, assigned (a protocol whose topics are not on record), or
    commits: a consumer that uses assign(), a tool, or members that are not on record. TO is empty of members still
    there at the end of the log; of commits FROM and TO are the first and the last one.
    """
    show(common, open_warehouse(common).consumers(topic, start=start, end=end))


COMMANDS: list[click.Command] = [consumers]
"""Every command of this module, for the program to take up."""
