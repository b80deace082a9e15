"""The program: every command by its name."""

import os
from collections.abc import Mapping

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


COMMANDS: Mapping[click.Command, str] = {
    compute.audit: "Read a dump, replay its groups and write Delta tables.",
    incidents.consumers: "Which groups and clients read a topic.",
    compute.decode: "Print every record of a dump as JSON lines, without Spark.",
    compute.demo: "Audit a bundled dump and show what can be asked.",
    ask.describe: "A group at a point in time: state, members, assignments.",
    incidents.diff: "What changed between two times, or clusters.",
    offsets.expired: "Offsets that expired, or expire next.",
    export.export: "Take a dump from a running cluster.",
    ask.findings: "What an operator should look at.",
    ask.groups: "The groups at a point in time, or those deleted.",
    incidents.impact: "What a time range cost, over all groups.",
    maintain.maintain: "Compact, cluster and vacuum the tables.",
    metrics.metrics: "The groups as metrics for Prometheus.",
    offsets.offsets: "Committed offsets at a point in time, or their history.",
    ask.owner: "Which member owned a partition.",
    ask.rebalances: "Rebalances as a table.",
    show.report: "Draw groups as HTML that needs no network.",
    simulate.simulate: "Run requests and time through a group coordinator.",
    ask.sql: "SQL over the tables, or a saved query.",
    ask.timeline: "What happened to a group and its offsets.",
    show.trace: "A group's life as a trace for Perfetto.",
    what_if.what_if: "A recorded group simulated under other settings.",
    show.why: "Why groups rebalanced, with the evidence.",
}
"""Every command, and a line about it, short enough for a list on 80 cells."""

for command, summary in COMMANDS.items():
    main.add_command(command)
    command.short_help = summary

# Click's own name of the variable by which a shell asks for candidates.
if "_COORDINATOR_REPLAY_COMPLETE" in os.environ:
    from coordinator_replay.cli.shells import use_own_shells

    use_own_shells()
