"""The program: every command by its name."""

import os
from collections.abc import Mapping

import click

from coordinator_replay.cli import ask, compute, export, incidents, maintain, metrics, offsets, show
from coordinator_replay.cli.guard import GuardedGroup
from coordinator_replay.cli.help_text import EXIT_CODES
from coordinator_replay.cli.mistakes import explained, unknown_command
from coordinator_replay.simulation.commands import simulate, what_if
from coordinator_replay.version import __version__


class Program(GuardedGroup):
    """The program, which lists its commands by purpose."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line about each command, in the section of its purpose.

        Then write the exit codes.
        """
        width = max(map(len, self.commands))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{command.name:{width}}", text) for command, text in commands.items()])
        with formatter.section("Exit codes"):
            codes = [*EXIT_CODES.items(), ("3, 4", "See audit --help and findings --help.")]
            formatter.write_dl(sorted(codes, key=lambda pair: int(pair[0].partition(",")[0])))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options that stand before the name of the command.

        Raises:
            UsageError: the program has no such option.
        """
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as problem:
            raise click.UsageError(explained(problem), ctx) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed.

        Raises:
            UsageError: there is no command of that name.
        """
        typed = args[0]
        if typed.startswith("-") or typed in self.commands or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.UsageError(unknown_command(typed, self.list_commands(ctx)), ctx)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="coordinator-replay")
def main() -> None:
    """Replay dumps of Kafka's __consumer_offsets, to find out what happened to groups and to their offsets.

    export takes a dump, audit writes Delta tables from it, and maintain keeps the tables in order. demo audits a
    bundled dump, and decode prints the records of a dump. simulate runs a coordinator on a script of requests. The
    other commands answer from the tables, without a JVM.
    """


SECTIONS: Mapping[str, Mapping[click.Command, str]] = {
    "What happened": {
        ask.groups: "The groups at a point in time, or those deleted.",
        ask.describe: "A group at a point in time: state, members, assignments.",
        ask.timeline: "What happened to a group and its offsets.",
        ask.rebalances: "Rebalances as a table.",
        show.why: "Why groups rebalanced, with the evidence.",
        ask.owner: "Which member owned a partition.",
        ask.findings: "What an operator should look at.",
    },
    "Offsets": {
        offsets.offsets: "Committed offsets at a point in time, or their history.",
        offsets.expired: "Offsets that expired, or expire next.",
    },
    "Over all groups": {
        incidents.consumers: "Which groups and clients read a topic.",
        incidents.impact: "What a time range cost, over all groups.",
        incidents.diff: "What changed between two times, or clusters.",
        ask.sql: "SQL over the tables, or a saved query.",
    },
    "Pictures and metrics": {
        show.report: "Draw groups as HTML that needs no network.",
        show.trace: "A group's life as a trace for Perfetto.",
        metrics.metrics: "The groups as metrics for Prometheus.",
    },
    "Simulation": {
        what_if.what_if: "A recorded group simulated under other settings.",
        simulate.simulate: "Run requests and time through a group coordinator.",
    },
    "Dumps and tables": {
        compute.demo: "Audit a bundled dump and show what can be asked.",
        export.export: "Take a dump from a running cluster.",
        compute.audit: "Read a dump, replay its groups and write Delta tables.",
        maintain.maintain: "Compact, cluster and vacuum the tables.",
        compute.decode: "Print every record of a dump as JSON lines, without Spark.",
    },
}
"""Every command by its purpose, each with a line about it that is short enough for a list in 80 columns."""

for section in SECTIONS.values():
    for command, summary in section.items():
        main.add_command(command)
        command.short_help = summary

# Click's name for the environment variable with which a shell asks for candidates.
if "_COORDINATOR_REPLAY_COMPLETE" in os.environ:
    from coordinator_replay.cli.shells import use_own_shells

    use_own_shells()
