"""The program: every command by its name."""

import os

import click

from coordinator_replay import __version__
from coordinator_replay.cli import ask, compute, export, maintain, offsets, show, simulate
from coordinator_replay.cli.guard import GuardedGroup


@click.group(cls=GuardedGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="coordinator-replay")
def main() -> None:
    """Replay dumps of Kafka's __consumer_offsets: why a group rebalanced, who owned a partition, which offset it had.

    export takes a dump, audit writes Delta tables from it, maintain keeps them in order; simulate runs a coordinator
    on a script of requests; the other commands answer from the tables, without a JVM.
    """


for command in (
    *compute.COMMANDS,
    *export.COMMANDS,
    *maintain.COMMANDS,
    *ask.COMMANDS,
    *offsets.COMMANDS,
    *show.COMMANDS,
    *simulate.COMMANDS,
):
    main.add_command(command)

# Click's own name of the variable by which a shell asks for candidates.
if "_COORDINATOR_REPLAY_COMPLETE" in os.environ:
    from coordinator_replay.cli.shells import use_own_shells

    use_own_shells()
