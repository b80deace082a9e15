"""The commands that compute: audit and demo, which run on Spark, and decode, which runs without it."""

import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coordinator_replay.answer_columns import AnswerColumn
from coordinator_replay.cli import shown, work
from coordinator_replay.cli.guard import ended_by_signals, log_line, reader_may_leave, spark_session
from coordinator_replay.cli.option_types import ABSOLUTE_TIME, DURATION, DURATION_MS, PATH, absolute
from coordinator_replay.cli.options import (
    EXIT_FINDINGS,
    Common,
    command,
    open_warehouse,
    wait_option,
    warehouse_command,
)
from coordinator_replay.cli.output import print_rows, terminal_width
from coordinator_replay.cli.thresholds import THRESHOLD
from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.extras import require_spark
from coordinator_replay.log.dump_format import Format
from coordinator_replay.query.choices import SEVERITIES
from coordinator_replay.safe_text import neutral_json
from coordinator_replay.store_access import refusal

if TYPE_CHECKING:
    from coordinator_replay.cli.progress import ShownProgress
    from coordinator_replay.log.dump import Dump
    from coordinator_replay.pipeline.audit import Options, Summary
    from coordinator_replay.spark.catalog import Database

FORMATS = ("auto", "segments", "parquet", "delta", "jsonl")
"""Forms of a dump, as in log.dump.Format; repeated here because --help must not wait for pyarrow."""


_MOST_BUCKETS = 1000
"""A larger number of buckets is a typing error: the topic has 50 partitions by default."""

_STAGE_COLUMNS = (
    AnswerColumn("stage", "STAGE", 1),
    AnswerColumn("done", "DONE", 1),
    AnswerColumn("why", "WHY", 1),
)
_PLAN_COLUMNS = (
    AnswerColumn("bucket", "BUCKET", 1),
    AnswerColumn("action", "ACTION", 1),
    AnswerColumn("records", "RECORDS", 2),
    AnswerColumn("reason", "REASON", 1),
)


def _form(_ctx: click.Context, _param: click.Parameter, name: str) -> Format | None:
    return None if name == "auto" else Format(name)


form_option = click.option(
    "--format",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    callback=_form,
    help="Form of the dump; auto looks at the content.",
)
deleted_option = click.option(
    "--include-deleted",
    is_flag=True,
    help="Read .log.deleted files too, for records that compaction has dropped.",
)


def _dump_of(options: "Options") -> "Dump":

    return work.find_dump(options.inputs, form=options.format, include_deleted=options.include_deleted)


def _database_of(options: "Options") -> "Database | None":
    """Return the catalog's schema in which to register the tables (``--database``); None if the user named no schema.

    Raises:
        UsageError: the name of the schema is not valid.
    """
    if options.database is None:
        return None

    return work.Database.of(options.database)


def _audit(options: "Options", common: Common, command: str, wait: timedelta = timedelta()) -> "Summary":
    """Run an audit under the warehouse's lock, print its summary, and return the summary."""
    # Comes first, so that a mistyped path or name is an error at once.
    database = _database_of(options)
    dump, logs = _dump_of(options), work.find_logs(options.broker_logs, options.broker_log_zone)
    with work.one_at_a_time(options.warehouse, command, wait=wait, say=lambda text: click.echo(text, err=True)):
        began = time.monotonic()
        with _session(options, common, dump, "the next run cleans up after it") as (spark, progress):
            if database is not None:
                database.prepare(spark)
            summary = work.run_audit(spark, options, progress.begin, dump, logs, progress.add)
            if database is not None:
                progress.begin(f"naming the tables in {database}")
                database.register(spark, options.warehouse, options.cluster)
        with closing(work.Tables(options.warehouse, options.cluster)) as warehouse:
            history = warehouse.completeness
        with reader_may_leave():
            # If the reader of the summary closes the pipe, the exit code must still tell whether --fail-on or --strict
            # found something.
            shown.print_summary(summary, history, common.output, seconds=time.monotonic() - began)
            sys.stdout.flush()
    return summary


def _cluster(common: Common) -> str:
    """Return the name of the cluster to audit.

    If the user names no cluster, return the default name.

    Raises:
        UsageError: the user named no cluster, and the warehouse has only clusters with other names.
    """
    if common.cluster is not None:
        return common.cluster
    warehouse = work.Tables(absolute(common.warehouse))
    try:
        others = warehouse.clusters
    except WarehouseError as problem:
        if refusal(problem) is not None:
            raise
        # There is no warehouse yet, or the run itself will report its fault.
        others = ()
    finally:
        warehouse.close()
    if others and work.DEFAULT_CLUSTER not in others:
        names = ", ".join(map(repr, others))
        raise UsageError(f"the warehouse {common.warehouse} has {names}: name the cluster of this dump with --cluster")
    return work.DEFAULT_CLUSTER


@contextmanager
def _session(options: "Options", common: Common, dump: "Dump", then: str) -> Iterator[tuple[Any, "ShownProgress"]]:
    """Open a Spark session for a ``with`` block. Yield the session, and the display of its progress.

    Args:
        options: options of the audit.
        common: common options of the command.
        dump: the dump, whose form decides what the session loads.
        then: a clause for an error message that says what happens to the work if it fails or is interrupted.
    """
    click.echo("starting Spark …", err=True)
    has_names = options.database is not None
    loaded = {"with_delta": has_names or dump.format is Format.DELTA, "with_catalog": has_names}
    with (
        spark_session("the run", then, verbose=common.verbose, **loaded) as spark,
        shown.shown_progress(spark) as progress,
    ):
        yield spark, progress


def _print_plan(options: "Options", common: Common) -> None:
    """Print the stages that an audit would run, and what the audit would do with each bucket."""
    dump = _dump_of(options)
    with _session(options, common, dump, "no table was written") as (spark, progress):
        planned = work.plan_audit(work.SparkStages(spark).observed_by(progress.add), options, progress.begin, dump)
    if common.output == "table":
        stages = [[stage.name, "yes" if stage.is_done else "no", stage.why] for stage in planned.stages]
        print_rows(_STAGE_COLUMNS, stages, common.output, is_wide=common.wide)
        click.echo()
    rows = [[share.bucket, str(share.action), share.records, "; ".join(share.reasons)] for share in planned.plan.shares]
    print_rows(_PLAN_COLUMNS, rows, common.output, is_wide=common.wide)
    if not rows:
        click.echo("The dump has no record that is new to the tables; no bucket changes.", err=True)


@warehouse_command(
    "coordinator-replay audit /dumps/broker-1 /dumps/broker-2 --warehouse /data/audit",
    "coordinator-replay audit 's3://dumps/2026-11-20/*.parquet' --warehouse s3://lake/audit --cluster prod",
)
@click.argument("inputs", nargs=-1, required=True, type=PATH, metavar="INPUT…")
@form_option
@deleted_option
@click.option(
    "--topics", type=PATH, metavar="FILE", help="CSV or JSON lines of topic id, name and (optional) partition count."
)
@click.option(
    "--cluster-metadata",
    type=PATH,
    metavar="PATH",
    help="Dump of the __cluster_metadata log: it has the names of topics, and the times of their changes.",
)
@click.option(
    "--broker-log",
    "broker_logs",
    multiple=True,
    type=PATH,
    metavar="PATH",
    help="Log of a broker: file, folder, glob or URI, .gz too. Can be given again.",
)
@click.option(
    "--broker-log-zone",
    metavar="ZONE",
    help="Time zone of these logs, such as Europe/Berlin or +02:00; default: inferred from lines and records.",
)
@click.option(
    "--as-of",
    type=ABSOLUTE_TIME,
    help="Point in time at which expiry is evaluated; default: the end of the log.",
)
@click.option(
    "--retention",
    "retention_ms",
    type=DURATION_MS,
    help="offsets.retention.minutes of the brokers, such as 7d or 90m; default: inferred from the log.",
)
@click.option(
    "--horizon",
    "horizon_ms",
    type=DURATION_MS,
    default="3d",
    show_default=True,
    help="Also list offsets that expire within this time after the end of the log.",
)
@click.option(
    "--history-every",
    "history_every_ms",
    type=DURATION_MS,
    help="In offset_history, keep only the last commit of each interval of this length.",
)
@click.option(
    "--buckets",
    type=click.IntRange(1, _MOST_BUCKETS),
    metavar="N",
    help="Number of buckets of a new warehouse; default: 10 on one machine, 50 on a cluster.",
)
@click.option(
    "--database",
    metavar="NAME",
    help="Register tables, views and saved queries in this schema of the session's catalog: SCHEMA or CATALOG.SCHEMA.",
)
@click.option("--records-only", is_flag=True, help="Write the records only; leave replay and expiry to a later run.")
@click.option(
    "--full", is_flag=True, help="Read all records of INPUT, also those of earlier runs, and rebuild all tables."
)
@click.option(
    "--plan",
    "is_plan",
    is_flag=True,
    help="Print what an audit would do with each bucket, and why; write no table.",
)
@click.option(
    "--strict", is_flag=True, help="End with code 3 if a record was quarantined, or a group could not be evaluated."
)
@click.option(
    "--fail-on", type=click.Choice(SEVERITIES), help="End with code 3 on new findings of this severity or above."
)
@click.option(
    "--exclude",
    "excluded",
    multiple=True,
    metavar="PATTERN",
    help="With --fail-on: leave out groups of this name, such as canaries. * stands for anything; can be given again.",
)
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    type=THRESHOLD,
    help="Threshold of a finding, for example stuck=15m; docs/findings.md lists them. Can be given again.",
)
@click.option(
    "--follow", is_flag=True, help="Go on until SIGTERM or Ctrl-C, and audit what export --follow writes into INPUT."
)
@click.option(
    "--every", type=DURATION, default="5s", show_default=True, help="With --follow: how often to look for new folders."
)
@click.option(
    "--maintain-every",
    type=DURATION,
    default="1h",
    show_default=True,
    help="With --follow: how often to do what maintain does.",
)
@wait_option
def audit(
    common: Common,
    is_plan: bool,
    strict: bool,
    fail_on: str | None,
    excluded: Sequence[str],
    thresholds: Sequence[tuple[str, int]],
    follow: bool,
    every: timedelta,
    maintain_every: timedelta,
    wait: timedelta,
    **asked: Any,
) -> None:
    """Decode a dump of __consumer_offsets and write it to tables.

    INPUT is a file, folder, glob or URI: segment files of a broker, Parquet or Delta in the columns of Spark's Kafka
    source, or JSON lines. Records that earlier runs have read are not written again.

    With --follow, the command audits each folder that export --follow completes in INPUT. It maintains the tables in
    between, and goes on until it is stopped.
    """
    require_spark()

    options = work.Options(
        warehouse=absolute(common.warehouse),
        cluster=_cluster(common),
        expiry=work.ExpiryOptions(**{field.name: asked.pop(field.name) for field in fields(work.ExpiryOptions)}),
        thresholds=work.thresholds.DEFAULTS.with_changes(dict(thresholds)),
        **asked,
    )
    if is_plan:
        # A name that an audit would refuse is refused here, too.
        _database_of(options)
        _print_plan(options, common)
        return
    if follow:
        _follow(options, common, wait, every=every, maintain_every=maintain_every)
        return
    summary = _audit(options, common, "audit", wait)
    is_incomplete = summary.new_quarantined or summary.run.groups_failed
    if (strict and is_incomplete) or is_failing(common, summary.new_findings, fail_on, excluded):
        sys.exit(EXIT_FINDINGS)


def is_failing(common: Common, new: Mapping[str, int], fail_on: str | None, excluded: Sequence[str]) -> bool:
    """Return whether an audit has new findings for which --fail-on makes the command fail.

    Args:
        common: common options, with the warehouse that was audited.
        new: new findings of the audit, by severity.
        fail_on: the lowest severity that makes the command fail; None for no severity.
        excluded: names of groups whose findings don't count.
    """
    failing = () if fail_on is None else SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    if not any(new[severity] for severity in failing) or not excluded:
        return any(new[severity] for severity in failing)
    from coordinator_replay.query.who import Who

    who = Who(excluded=tuple(excluded))
    return bool(open_warehouse(common).findings(severity=fail_on, is_new=True, who=who))


def _follow(
    options: "Options", common: Common, wait: timedelta, *, every: timedelta, maintain_every: timedelta
) -> None:
    """Audit the folders that ``export --follow`` completes, and maintain the tables, until a signal comes."""
    if len(options.inputs) != 1 or options.full:
        raise UsageError("audit --follow takes one INPUT, the folder that export --follow writes into, and not --full")

    database = _database_of(options)
    dump = work.ExportedDump(options.inputs[0])
    ledger = work.Store(options.warehouse).snapshot(work.LEDGER)

    unnamed = [] if database is None else [database]

    def audit_folders(folders: Sequence[str]) -> None:
        began = time.monotonic()
        with work.one_at_a_time(options.warehouse, "audit --follow", wait=wait, say=log_line):
            summary = work.run_audit(spark, replace(options, inputs=list(folders), follow=dump.stream))
        if unnamed:
            # Registered names outlive an audit: they are set once, after the first audit.
            unnamed.pop().register(spark, options.warehouse, options.cluster)
        names = ", ".join(folder.rpartition("/")[2] for folder in folders)
        log_line(f"audited {names}: {summary.run.records_read:,} records in {time.monotonic() - began:.0f} s")

    def maintain_tables() -> None:
        began = time.monotonic()
        with work.one_at_a_time(options.warehouse, "audit --follow", wait=wait, say=log_line):
            work.run_maintain(work.Upkeep(warehouse=options.warehouse), lambda _step: None)
        log_line(f"maintained the tables in {time.monotonic() - began:.0f} s")

    follower = work.AuditFollower(
        dump=dump,
        audit=audit_folders,
        maintain=maintain_tables,
        log=log_line,
        maintain_every=maintain_every.total_seconds(),
        audited=work.audited_batches(
            [] if ledger is None else work.finished_runs(ledger, options.cluster), dump.stream
        ),
    )
    log_line("starting Spark")
    has_names = options.database is not None
    loaded = {"with_delta": has_names, "with_catalog": has_names}
    session = spark_session("the run", "the next run cleans up after it", verbose=common.verbose, **loaded)
    with session as spark, ended_by_signals() as stopped:
        if database is not None:
            database.prepare(spark)
        log_line(f"following {options.inputs[0]}")
        follower.run(stopped, every.total_seconds())
    log_line("ended")


@warehouse_command(needs_warehouse=False)
def demo(common: Common) -> None:
    """Audit a bundled dump recorded from a real broker, and suggest what to ask next.

    Without --warehouse the tables are made in ./demo-warehouse.
    """
    warehouse = absolute(common.warehouse or "demo-warehouse")
    bundled = files("coordinator_replay") / "demo_dump"
    options = work.Options(
        inputs=[str(bundled / "segments")],
        warehouse=warehouse,
        cluster=common.cluster or work.DEFAULT_CLUSTER,
        cluster_metadata=str(bundled / "cluster-metadata"),
    )
    _audit(options, common, "demo")
    if common.output == "table":
        click.echo("\nNow ask, for example:")
        path = shlex.quote(_shown(warehouse))
        for question in QUESTIONS:
            click.echo(f"  coordinator-replay {question} --warehouse {path}")


QUESTIONS = (
    "why shop-billing",
    "report shop-billing --out shop-billing.html",
    "describe shop-migrate --at 2026-11-21T08:33:00Z",
    "timeline shop-billing",
    "owner shop-billing shop.orders 0 --at 2026-11-21T08:32:20Z",
    "findings",
    'sql "SELECT kind, count(*) AS records FROM group_records GROUP BY kind ORDER BY records DESC"',
)
"""Commands that the demo suggests next."""


def _shown(path: str) -> str:
    """Return a path in the form that a person in the current folder would type."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


@command(
    "coordinator-replay decode __consumer_offsets-7/00000000000000000000.log | jq .",
    "coordinator-replay decode /dumps/broker-1 | jq 'select(.group_id == \"billing\")'",
)
@click.argument("inputs", nargs=-1, required=True, metavar="FILE…")
@form_option
@deleted_option
@click.option("--wide", is_flag=True, help="Print every record in full on a terminal, too.")
@click.option("-v", "--verbose", is_flag=True, help="Show the causes of an error.")
def decode(inputs: Sequence[str], format: "Format | None", include_deleted: bool, wide: bool, verbose: bool) -> None:
    """Print every record of a dump as JSON lines, in the order of the file, without Spark.

    A terminal shows the main fields of the first records, and how many follow. With --wide, in a pipe or in a file, all
    records are in full. Lines have the columns of the tables offset_commits, group_records and quarantine, and the kind
    of the record. Subscriptions and assignments of classic members are decoded next to their bytes. Notes about the
    files go to standard error.
    """
    dump = work.find_dump(inputs, form=format, include_deleted=include_deleted)
    notes = list(dump.notes)
    batches = work.read_without_spark(dump, notes)
    if wide or terminal_width() is None:
        for records in batches:
            # The printed text of a few large records must not stay in memory while the next records are decoded.
            _print_lines(work.decode_lines(records).to_pylist())
    else:
        shown.print_note(f"{shown.print_first_records(batches)}.")
    for note in notes:
        click.echo(f"note: {note}", err=True)


def _print_lines(lines: Sequence[str]) -> None:
    if lines:
        click.echo("\n".join(map(neutral_json, lines)))
