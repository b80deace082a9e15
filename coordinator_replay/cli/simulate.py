"""The command that runs scripts of requests through the simulated coordinator."""

from pathlib import Path
from typing import TextIO

import click

from coordinator_replay.cli.options import Command, examples
from coordinator_replay.errors import UsageError


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator-replay simulate examples/scripts/01-first-member.jsonl",
        "coordinator-replay simulate incident.jsonl --out simulated",
        "coordinator-replay audit simulated/segments --topics simulated/topics.csv --warehouse build/warehouse",
    ),
)
@click.argument("script", type=click.File("r", encoding="utf-8"), metavar="SCRIPT")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the records as log segments that audit reads, and the topics, into this folder.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show what an error came from.")
def simulate(script: TextIO, out: Path | None, verbose: bool) -> None:
    """Run requests, topics and time through a group coordinator that answers as Kafka 4.3 does.

    SCRIPT has one JSON object a line, - is standard input: config, topics, groupConfig, request, endTxn, advance_ms,
    async, reload, timers, dump, assign or note. Each is answered by a line with what came of it: records written,
    responses sent, errors. A line that can't be run ends the run; nothing is written then.
    """
    from coordinator_replay.cli.simulated_log import write_log
    from coordinator_replay.coordinator.script import ScriptRun

    run = ScriptRun()
    try:
        for number, line in enumerate(script, 1):
            if not line.strip():
                continue
            try:
                answer = run.run(line)
            except UsageError as problem:
                raise UsageError(f"{script.name}, line {number}: {problem}") from problem
            click.echo(answer)
    except UnicodeDecodeError as problem:
        raise UsageError(f"{script.name}: not a text of UTF-8: {problem}") from problem
    if out is not None:
        segment = write_log(out, run.written, run.topics.values(), run.partition)
        click.echo(f"{run.end_offset} records in {segment}", err=True)


COMMANDS: tuple[click.Command, ...] = (simulate,)
