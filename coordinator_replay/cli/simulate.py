"""The command that runs scripts of requests through the simulated coordinator."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coordinator_replay.cli.options import command
from coordinator_replay.errors import UsageError

if TYPE_CHECKING:
    from coordinator_replay.simulation.coordinator.script import ScriptRun


@command(
    "coordinator-replay simulate examples/scripts/01-first-member.jsonl",
    "coordinator-replay simulate incident.jsonl --out simulated",
    "coordinator-replay audit simulated/segments --topics simulated/topics.csv --warehouse build/warehouse",
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, allow_dash=True), metavar="SCRIPT")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the records as log segments that audit reads, and the topics, into this folder.",
)
@click.option(
    "--truth",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write why each batch was written, each rebalance began and each member was removed, as JSON lines.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show the causes of an error.")
def simulate(script: str, out: Path | None, truth: Path | None, verbose: bool) -> None:
    """Run requests, topics and time through a group coordinator that answers as Kafka 4.3 does.

    SCRIPT has one JSON object a line, - is standard input: config, topics, groupConfig, request, endTxn, advance_ms,
    async, reload, timers, dump, assign or note. Each line is answered by one: the records written, responses and
    errors. A line that can't be run ends the run, and neither --out nor --truth writes anything.
    """
    from coordinator_replay.cli.simulated_log import write_log, write_truth
    from coordinator_replay.simulation.coordinator.script import ScriptRun
    from coordinator_replay.simulation.coordinator.truth import Event

    events: list[Event] = []
    run = ScriptRun(events.append)
    for number, line in enumerate(_lines(script), 1):
        if line.strip():
            click.echo(_answer(run, line, f"{script}, line {number}"))
    if out is not None:
        segment = write_log(out, run.written, run.topics.values())
        click.echo(f"{run.end_offset} records in {segment}", err=True)
    if truth is not None:
        write_truth(truth, events)


def _answer(run: "ScriptRun", line: str, where: str) -> str:
    try:
        return run.run(line)
    except UsageError as problem:
        raise UsageError(f"{where}: {problem}") from problem


def _lines(script: str) -> Iterator[str]:
    """The lines of a script; what goes wrong while answers are printed is none of its matter."""
    try:
        with click.open_file(script, encoding="utf-8-sig", errors="surrogateescape") as lines:
            yield from lines
    except OSError as problem:
        raise UsageError(f"{script}: can't be read: {problem}") from problem
