"""The program: every command by its name."""

import os

import click

from coordinator_replay.cli import ask, compute, export, incidents, maintain, metrics, offsets, show, simulate, what_if
from coordinator_replay.cli.guard import GuardedGroup
from coordinator_replay.version import __version__


@click.group(cls=GuardedGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="coordinator-replay")
def main() -> None:
    """Replay dumps of Kafka's __consumer_offsets: why a group rebalanced, who owned a partition, which offset it had.

    export takes a dump, audit writes Delta tables from it, maintain keeps them in order; simulate runs a coordinator
    on a script of requests; the other commands answer from the tables, without a JVM.
    """


SUMMARIES = {
    "audit": "Read a dump, replay its groups and write Delta tables.",
    "consumers": "Which groups and clients read a topic.",
    "decode": "Print every record of a dump as JSON lines, without Spark.",
    "demo": "Audit a bundled dump and show what can be asked.",
    "describe": "A group at a point in time: state, members, assignments.",
    "diff": "What changed between two times, or clusters.",
    "expired": "Offsets that expired, or expire next.",
    "export": "Take a dump from a running cluster.",
    "findings": "What an operator should look at.",
    "groups": "The groups at a point in time, or those deleted.",
    "impact": "What a time range cost, over all groups.",
    "maintain": "Compact, cluster and vacuum the tables.",
    "metrics": "The groups as metrics for Prometheus.",
    "offsets": "Committed offsets at a point in time, or their history.",
    "owner": "Which member owned a partition.",
    "rebalances": "Rebalances as a table.",
    "report": "Draw groups as HTML that needs no network.",
    "simulate": "Run requests and time through a group coordinator.",
    "sql": "SQL over the tables, or a saved query.",
    "timeline": "What happened to a group and its offsets.",
    "trace": "A group's life as a trace for Perfetto.",
    "what-if": "A recorded group simulated under other settings.",
    "why": "Why groups rebalanced, with the evidence.",
}
"""A line for each command, short enough for a list on 80 cells."""

for command in (
    *compute.COMMANDS,
    *export.COMMANDS,
    *maintain.COMMANDS,
    *ask.COMMANDS,
    *incidents.COMMANDS,
    *offsets.COMMANDS,
    *show.COMMANDS,
    *metrics.COMMANDS,
    *simulate.COMMANDS,
    *what_if.COMMANDS,
):
    main.add_command(command)
    command.short_help = SUMMARIES.get(str(command.name))

# Click's own name of the variable by which a shell asks for candidates.
if "_COORDINATOR_REPLAY_COMPLETE" in os.environ:
    from coordinator_replay.cli.shells import use_own_shells

    use_own_shells()
