"""The command that takes a dump from a running cluster."""

import json
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coordinator_replay.cli import shown, work
from coordinator_replay.cli.guard import ended_by_signals, log_line, spark_session
from coordinator_replay.cli.option_types import DURATION, PATH
from coordinator_replay.cli.options import command, config_option, output_option, verbose_option, wait_option
from coordinator_replay.errors import LockedError, UsageError

if TYPE_CHECKING:
    from coordinator_replay.export.topic import Exported, ExportOptions


def client_settings(command_config: Path | None, options: Sequence[str]) -> dict[str, str]:
    """Return settings of Kafka's clients from a properties file and the command line.

    An option of the command line replaces the setting of the same name in the file.

    Raises:
        UsageError: the file can't be read, or an option is not of the form ``key=value``.
    """
    import javaproperties

    settings: dict[str, str] = {}
    if command_config is not None:
        try:
            with command_config.open("rb") as file:
                settings = javaproperties.load(file)
        except (OSError, ValueError) as problem:
            raise UsageError(f"{command_config}: can't be read as Java properties: {problem}") from problem
    for option in options:
        name, separator, value = option.partition("=")
        if not (name and separator):
            # The value may be a password, so the message does not repeat it.
            raise UsageError("a --kafka-option is written key=value")
        settings[name.removeprefix("kafka.")] = value
    return settings


def _facts(exported: "Exported") -> dict[str, object]:
    offsets = {name: getattr(exported, name) for name in ("from_offsets", "to_offsets", "first_offsets")}
    by_partition = {name: dict(sorted(own.items())) for name, own in offsets.items()}
    return {"records": exported.records, "folders": exported.folders, **by_partition}


def _print_exported(exported: "Exported", out: str, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(_facts(exported)))
        return
    if not exported.folders:
        click.echo(f"Nothing new since the last export into {out}.")
        return
    partitions = sum(exported.to_offsets[p] > exported.from_offsets.get(p, 0) for p in exported.to_offsets)
    click.echo(
        f"Exported {exported.records:,} records of {partitions} log partitions to {', '.join(exported.folders)}."
    )
    click.echo("Transaction markers are not in it: a consumer does not see them.")
    if behind := exported.behind():
        click.echo(
            f"In {len(behind)} log partition{'s' if len(behind) > 1 else ''} the first record comes after the end of "
            "the last export: compaction has removed records since, or transaction markers stand there. --again "
            "reads the topic from its start, which shows what is still alive."
        )
    click.echo(f"Next: coordinator-replay audit {shlex.join(exported.folders)} --warehouse …")


@command(
    "coordinator-replay export --bootstrap-servers broker-1:9092 --out /dumps/prod",
    "coordinator-replay export --bootstrap-servers broker-1:9093 --out s3a://dumps --command-config tls.properties",
    "coordinator-replay export --bootstrap-servers broker-1:9092 --out /dumps/prod --follow --every 30s",
)
@click.option("--bootstrap-servers", required=True, metavar="HOST:PORT,…", help="Brokers of the cluster.")
@click.option(
    "--out",
    required=True,
    type=PATH,
    metavar="DIR",
    help="Folder or URI of the dump; the same one for all exports of a cluster.",
)
@click.option(
    "--kafka-option",
    "kafka_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of Kafka's clients, such as security.protocol=SASL_SSL; can be given again.",
)
@click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Properties file with settings of Kafka's clients, as for Kafka's own tools.",
)
@click.option(
    "--partitions", type=click.IntRange(min=1), help="Number of partitions of the topic; default: ask the cluster."
)
@click.option(
    "--again", is_flag=True, help="Read the topic from its start again: all records that compaction has left."
)
@click.option("--min-partitions", type=click.IntRange(min=1), help="Minimum number of Spark tasks that read.")
@click.option("--follow", is_flag=True, help="Go on until SIGTERM or Ctrl-C, and write new records as they come.")
@click.option(
    "--every", type=DURATION, default="1m", show_default=True, help="With --follow: how often to read new records."
)
@wait_option
@config_option
@output_option
@verbose_option
def export(
    kafka_options: Sequence[str],
    command_config: Path | None,
    again: bool,
    follow: bool,
    every: timedelta,
    wait: timedelta,
    output: str,
    verbose: bool,
    **asked: Any,
) -> None:
    """Take a dump of __consumer_offsets from a running cluster, or add new records to a dump.

    Each export writes a new folder of Parquet files into DIR, in the columns of Spark's Kafka source. The folder's name
    begins with the hour (UTC). DIR also keeps the log offsets at which the last export ended, and the next export
    begins there. So no record is left out or taken twice, even if an export is killed.

    With --follow, the command goes on, and writes a folder whenever there are new records. So it reads records before
    the topic's cleaner removes them. When an hour is over, its folders are merged. Only one export works on DIR at a
    time. While --follow works on DIR, an export without --follow has nothing to do.
    """
    if follow and again:
        raise UsageError("--again reads the topic once, and --follow goes on: run one after the other")
    options = work.ExportOptions(client=client_settings(command_config, kafka_options), again=again, **asked)
    # --again writes a folder of its own, so it needs no lock.
    command = work.follow.COMMAND if follow else "export"
    alone = nullcontext() if again else work.one_at_a_time(options.out, command, wait=wait, say=_note)
    try:
        with alone:
            if follow:
                _follow(options, every, verbose)
                return
            exported = _export(options, verbose)
    except LockedError as busy:
        if follow or busy.command != work.follow.COMMAND:
            raise
        follows = f"{options.out} is followed already ({work.follow.COMMAND}), which writes what is new"
        _note(f"{follows}; nothing was left to export")
        return
    _print_exported(exported, options.out, output)


def _note(text: str) -> None:
    click.echo(text, err=True)


def _export(options: "ExportOptions", verbose: bool) -> "Exported":

    _note("starting Spark …")
    then = "the next one continues where the last finished one ended"
    with (
        spark_session("the export", then, verbose=verbose, with_kafka=True) as spark,
        shown.shown_progress(spark) as progress,
    ):
        return work.run_export(spark, options, progress.begin)


def _follow(options: "ExportOptions", every: timedelta, verbose: bool) -> None:
    """Export new records of the topic again and again, until a signal comes."""
    log_line("starting Spark")
    then = "started again, it continues where it ended"
    with spark_session("the export", then, verbose=verbose, with_kafka=True) as spark, ended_by_signals() as stopped:
        every_ms = max(1, round(every.total_seconds() * 1000))
        work.follow.follow_topic(
            spark, options, work.follow.Following(every_ms=every_ms, stopped=stopped, log=log_line)
        )
    log_line(f"ended; {then}")
