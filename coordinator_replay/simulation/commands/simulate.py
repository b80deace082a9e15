"""The command ``simulate``: it sends the requests of a script file to the simulated coordinator."""

from collections.abc import Iterator
from pathlib import Path

import click

from coordinator_replay.cli.options import command
from coordinator_replay.errors import UsageError
from coordinator_replay.simulation import door


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
    help="Write the records (as log segments) and the list of topics into this folder; audit reads both.",
)
@click.option(
    "--truth",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the cause of each batch, of each rebalance and of each removal of a member, as JSON lines.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show the causes of an error.")
def simulate(script: str, out: Path | None, truth: Path | None, verbose: bool) -> None:
    """Run a script of requests on a simulated group coordinator, which answers as Kafka 4.3 does.

    SCRIPT is a file, or - for standard input. Each line is a JSON object with one of these keys: config, topics,
    groupConfig, request, endTxn, advance_ms, async, reload, timers, dump, assign, note. For each line, the command
    prints one line with the records written, the responses and the errors. If a line can't be run, the
    command ends there, and neither --out nor --truth writes anything.
    """
    events: list[door.Event] = []
    run = door.simulate(_lines(script), click.echo, observer=events.append, name=script)
    if out is not None:
        segment = door.write_log(out, run.written, run.topics.values())
        click.echo(f"{run.end_offset} records in {segment}", err=True)
    if truth is not None:
        door.write_truth(truth, events)


def _lines(script: str) -> Iterator[str]:
    """Yield the lines of a script.

    Raises:
        UsageError: the script can't be read.
    """
    try:
        with click.open_file(script, encoding="utf-8-sig", errors="surrogateescape") as lines:
            yield from lines
    except OSError as problem:
        raise UsageError(f"{script}: can't be read: {problem}") from problem
