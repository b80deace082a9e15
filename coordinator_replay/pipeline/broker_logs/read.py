"""The stages that read brokers' logs into the table ``broker_log``.

The table has the lines about groups and partitions of ``__consumer_offsets``. A task reads a file from the position at
which an earlier run stopped. Then one task merges the lines of all files. Lines with the same broker, time and text
become one row, even if they come from different files.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from coordinator_replay.broker_log.events import BrokerEvent, read_event
from coordinator_replay.broker_log.layouts import LogLine, parse_line
from coordinator_replay.listing import listed
from coordinator_replay.log.dump import DumpFile, list_files
from coordinator_replay.pipeline.broker_logs.file import BrokerLogFile, ReadLog
from coordinator_replay.pipeline.broker_logs.times import other_offset_ms, utc_times
from coordinator_replay.pipeline.bucket_files import Place, TableWriter
from coordinator_replay.secret_text import without_secrets
from coordinator_replay.store.scan import read_paths
from coordinator_replay.store.writer import DataFile, batch_of
from coordinator_replay.tables.definition import table
from coordinator_replay.times import shown_ms
from coordinator_replay.zones import parse_zone

TABLE = "broker_log"

NO_COORDINATOR_LINES = "no line of a group coordinator in it"
"""Note on a file without lines of a group coordinator. Most files in a folder of logs have none."""

_STAGED = "broker_log_lines"
_KEYS = ("broker", "logged_at", "text")
_BATCH_EVENTS = 10_000
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContext:
    """Values that each task needs to read a broker's log.

    Attributes:
        place: the folders for the staged rows.
        zone: time zone of local times; None to infer it from the times of rebalances.
        rebalances: files of the cluster's rebalances, from whose times the zone is inferred.
        earlier: the parts of files that earlier runs have read, by the hash of a file's first bytes.
    """

    place: Place
    zone: str | None
    rebalances: Sequence[str]
    earlier: Mapping[str, ReadLog]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogResult:
    """Result of reading a file.

    Attributes:
        uri: URI of the file.
        read: the part of the file that runs have read so far; None if the file was refused or has no new line.
        problem: why the file was refused, or another note on the file.
        lines: number of lines with a text of ``file.MARKS``.
        events: number of these lines that are about a group or a partition and have a time.
        files: staged rows.
    """

    uri: str
    read: ReadLog | None = None
    problem: str | None = None
    lines: int = 0
    events: int = 0
    files: Sequence[DataFile] = ()


@dataclass(slots=True)
class _Parsed:
    """Parsed lines of a file, in the order of the file."""

    lines: int = 0
    events: list[tuple[LogLine, BrokerEvent]] = field(default_factory=list)

    def add(self, raw: bytes) -> None:
        self.lines += 1
        line = parse_line(raw.decode("utf-8", "replace").rstrip("\r"))
        event = None if line is None else read_event(line)
        if line is not None and event is not None and shown_ms(line.time_ms) is not None:
            self.events.append((line, event))


def find_logs(paths: Iterable[str], zone: str | None) -> list[DumpFile]:
    """Return the files that paths, globs and URIs name, each once.

    Args:
        paths: paths, globs and URIs, as the user gave them.
        zone: time zone of the logs, as the user gave it.

    Raises:
        InputError: a path names no file.
        UsageError: the zone does not exist.
    """
    if zone is not None:
        parse_zone(zone)
    files = {file.uri: file for path in paths for file in list_files(path)}
    return [files[uri] for uri in sorted(files)]


def earlier_logs(runs: Iterable[Sequence[Mapping[str, Any]]]) -> dict[str, ReadLog]:
    """Return the parts of files that runs have read, by the hash of a file's first bytes.

    Args:
        runs: column ``broker_logs`` of each run, the newest first.
    """
    by_head: dict[str, ReadLog] = {}
    for logs in runs:
        for log in logs:
            by_head.setdefault(log["head"], ReadLog(**log))
    return by_head


def ledger_rows(results: Iterable[LogResult]) -> list[dict[str, Any]]:
    """Return the parts of files that the run has read, for column ``broker_logs`` of ``audit_runs``.

    If several files begin with the same bytes, return only the file of which most bytes were read.
    """
    by_uri: dict[str, ReadLog] = {}
    for result in results:
        if result.read is not None:
            by_uri[result.read.head] = max(
                result.read, by_uri.get(result.read.head, result.read), key=lambda log: log.position
            )
    return [asdict(log) for log in by_uri.values()]


def notes(results: Sequence[LogResult], new: int) -> Iterator[str]:
    """Yield the sentences about brokers' logs that an audit shows the user.

    Args:
        results: the results of all files.
        new: number of new rows in the table.
    """
    if not any(result.lines or result.problem for result in results):
        yield "no new lines in the logs of brokers"
        return
    events = sum(result.events for result in results)
    passed = sum(result.lines for result in results if result.read is not None) - events
    yield (
        f"logs of brokers: {new:,} lines are new in {TABLE}, {events - new:,} were there or came twice, "
        f"{passed:,} of the coordinator say nothing of a group or partition"
    )
    nothing = [without_secrets(result.uri) for result in results if result.problem == NO_COORDINATOR_LINES]
    if nothing:
        yield f"no line of a group coordinator in {listed(nothing, _MOST_NAMED)}"
    zones: dict[int, list[str]] = {}
    for result in results:
        if result.events and result.read is not None and result.read.offset_ms:
            zones.setdefault(result.read.offset_ms, []).append(without_secrets(result.uri))
    for offset_ms, names in sorted(zones.items()):
        yield f"times are {_zone_shown(offset_ms)} by their records in {listed(names, _MOST_NAMED)}"
    for result in results:
        if result.problem not in (None, NO_COORDINATOR_LINES):
            yield f"{without_secrets(result.uri)}: {result.problem}"


def read_log(file: DumpFile, context: LogContext) -> LogResult:
    """Read the lines of a broker's log that no earlier run has read. This is a stage of the run.

    Args:
        file: the log file.
        context: values that are the same for each file.
    """
    parsed = _Parsed()
    try:
        with BrokerLogFile(file.uri) as content:
            before = content.resume(context.earlier)
            for raw in content.marked_lines():
                parsed.add(raw)
            after = content.read()
    except (OSError, EOFError, zlib.error, pa.ArrowInvalid) as problem:
        return LogResult(uri=file.uri, problem=f"can't be read: {problem}")
    if after is None or (before is not None and after.position == before.position):
        return LogResult(uri=file.uri)
    if not parsed.lines and before is None:
        return LogResult(uri=file.uri, read=after, problem=NO_COORDINATOR_LINES)
    earlier_ms = None if before is None else before.offset_ms
    placed = utc_times(parsed.events, context.rebalances, zone=context.zone, earlier_ms=earlier_ms)
    if placed is None:
        why = "its times name no zone and fit no record; not read: name their zone with --broker-log-zone"
        return LogResult(uri=file.uri, problem=why, lines=parsed.lines)
    times, offset_ms = placed
    rows = [
        {**event._asdict(), "logged_at": at, "source": without_secrets(file.uri)}
        for (_, event), at in zip(parsed.events, times, strict=True)
        if at is not None
    ]
    return LogResult(
        uri=file.uri,
        read=replace(after, offset_ms=offset_ms),
        problem=_problem_of_times(parsed, context, len(times) - len(rows)),
        lines=parsed.lines,
        events=len(rows),
        files=_stage(rows, context.place),
    )


def _problem_of_times(parsed: _Parsed, context: LogContext, unplaced: int) -> str | None:
    if unplaced:
        return f"{unplaced} lines left out: clocks changed near them, so their time is not known"
    if context.zone is None:
        return None
    shown = other_offset_ms(parsed.events, context.rebalances, context.zone)
    if shown is None:
        return None
    return (
        f"by records its times are {_zone_shown(shown)}, not {context.zone}: audit it again with --full and without "
        "--broker-log-zone"
    )


def _zone_shown(offset_ms: int) -> str:
    return str(timezone(timedelta(milliseconds=offset_ms)))


def _stage(rows: Sequence[Mapping[str, Any]], place: Place) -> list[DataFile]:
    writer = TableWriter(place, None)
    schema = table(TABLE).file_schema()
    for start in range(0, len(rows), _BATCH_EVENTS):
        writer.stage(_STAGED, batch_of(rows[start : start + _BATCH_EVENTS], schema))
    return writer.close()


def merge_lines(files: Sequence[DataFile], existing: Sequence[str], place: Place) -> list[DataFile]:
    """Write each staged line once, unless the table has it already. Return the written files.

    This is a stage of the run.

    Args:
        files: staged rows.
        existing: files that the table has before the stage.
        place: the folders of the warehouse.
    """
    schema = table(TABLE).file_schema()
    rows = pa.Table.from_batches(read_paths((file.path for file in files), schema.names), schema)
    if not rows.num_rows:
        return []
    bounds = pc.min_max(rows.column("logged_at"))
    where = (ds.field("logged_at") >= bounds["min"]) & (ds.field("logged_at") <= bounds["max"])
    stored = {key for batch in read_paths(existing, _KEYS, where) for key in _keys(batch)}
    rows = rows.sort_by([("logged_at", "ascending"), ("source", "ascending")])
    kept: list[int] = []
    for number, key in enumerate(_keys(rows)):
        if key not in stored:
            stored.add(key)
            kept.append(number)
    writer = TableWriter(place, None)
    rows = rows.take(pa.array(kept, pa.int64())).sort_by([("group_id", "ascending"), ("logged_at", "ascending")])
    for batch in rows.combine_chunks().to_batches(_BATCH_EVENTS):
        writer.add(TABLE, batch)
    return writer.close()


def _keys(rows: pa.Table | pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows.column(name).to_pylist() for name in _KEYS), strict=True)
