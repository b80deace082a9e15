"""Logs of brokers: what they say of groups and of partitions of ``__consumer_offsets``, as table ``broker_log``.

A task reads a file from where an earlier run stopped, looks at those lines only that have a mark of the coordinator,
and parses these. One task then puts the lines of all files together, each once: lines of one broker, time and text are
the same line, by whatever file it came. A file is known by its content, so rotation by renaming reads nothing twice.
"""

import gzip
import hashlib
import io
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from coordinator_replay.broker_log.clock import Stretch, Witness, ZoneClock, parse_zone, stretches_of
from coordinator_replay.broker_log.events import MARKS, BrokerEvent, read_event
from coordinator_replay.broker_log.layouts import MOST_CHARACTERS, LogLine, parse_line
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.log.dump import DumpFile, list_files
from coordinator_replay.pipeline.bucket_files import Place, TableWriter
from coordinator_replay.secret_text import without_secrets
from coordinator_replay.store.scan import read_paths
from coordinator_replay.store.writer import DataFile
from coordinator_replay.tables.definition import table
from coordinator_replay.times import milliseconds, shown_ms

TABLE = "broker_log"

NOTHING = "no line of a group coordinator in it"
"""What there is to say of most files of a folder of logs."""

_STAGED = "broker_log_lines"
_KEYS = ("broker", "logged_at", "text")
_HEAD_BYTES, _TAIL_BYTES = 1024, 256
_CHUNK_BYTES = 4 << 20
_LONGEST_BYTES = 4 * MOST_CHARACTERS
"""No longer line is looked at: of a character that UTF-8 needs most bytes for."""
_GZIP = b"\x1f\x8b"
_REBALANCE_COLUMNS = ("group_id", "epoch", "started_at", "completed_at", "duration_ms", "duration_ms_min")
_WITNESSED = ("STABILIZED", "EPOCH_BUMPED")
_BATCH_EVENTS = 10_000
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """A file as far as a run has read it, known by its content: see column ``broker_logs`` of ``audit_runs``."""

    head: str
    head_bytes: int
    position: int
    tail: str
    offset_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContext:
    """What tasks that read logs need.

    Attributes:
        place: where staged rows go.
        zone: of local times; None to let records say it.
        rebalances: files of the cluster's rebalances, whose times say it.
        earlier: files as far as earlier runs have read them, by the hash of their first bytes.
    """

    place: Place
    zone: str | None
    rebalances: Sequence[str]
    earlier: Mapping[str, ReadLog]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogResult:
    """What became of a file.

    Attributes:
        uri: the file.
        read: how far it is read now; None for one that was refused.
        problem: why, or what else there is to say of it.
        lines: lines with a mark of a coordinator.
        events: those that say something about a group or a partition, and have a time.
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
    """Lines of a file that say something, in its order."""

    lines: int = 0
    events: list[tuple[LogLine, BrokerEvent]] = field(default_factory=list)

    def add(self, raw: bytes) -> None:
        self.lines += 1
        line = parse_line(raw.decode("utf-8", "replace").rstrip("\r"))
        event = None if line is None else read_event(line)
        if line is not None and event is not None and shown_ms(line.time_ms) is not None:
            self.events.append((line, event))


def find_logs(paths: Iterable[str], zone: str | None) -> list[DumpFile]:
    """The files that paths, globs and URIs name, each once.

    Args:
        paths: as given.
        zone: of their times, as given.

    Raises:
        InputError: a path names nothing.
        UsageError: there is no such zone.
    """
    if zone is not None:
        parse_zone(zone)
    files = {file.uri: file for path in paths for file in list_files(path)}
    return [files[uri] for uri in sorted(files)]


def earlier_logs(runs: Iterable[Sequence[Mapping[str, Any]]]) -> dict[str, ReadLog]:
    """Files as far as runs have read them.

    Args:
        runs: column ``broker_logs`` of each run, the newest first.
    """
    found: dict[str, ReadLog] = {}
    for logs in runs:
        for one in logs:
            found.setdefault(one["head"], ReadLog(**one))
    return found


def ledger_rows(results: Iterable[LogResult]) -> list[dict[str, Any]]:
    """How far files were read, for column ``broker_logs`` of ``audit_runs``; each content once."""
    found: dict[str, ReadLog] = {}
    for one in results:
        if one.read is not None:
            found[one.read.head] = max(one.read, found.get(one.read.head, one.read), key=lambda log: log.position)
    return [asdict(one) for one in found.values()]


def notes(results: Sequence[LogResult], new: int) -> Iterator[str]:
    """What a run has to say of the logs that it was given.

    Args:
        results: of all files.
        new: rows that the table got.
    """
    if not any(one.lines or one.problem for one in results):
        yield "nothing new in the logs of brokers"
        return
    events = sum(one.events for one in results)
    passed = sum(one.lines for one in results if one.read is not None) - events
    yield (
        f"logs of brokers: {new:,} lines are new in {TABLE}, {events - new:,} were there or came twice, "
        f"{passed:,} of the coordinator say nothing of a group or partition"
    )
    nothing = [without_secrets(one.uri) for one in results if one.problem == NOTHING]
    if nothing:
        more = f" and {len(nothing) - _MOST_NAMED:,} more" if len(nothing) > _MOST_NAMED else ""
        yield f"no line of a group coordinator in {', '.join(nothing[:_MOST_NAMED])}{more}"
    for one in results:
        if one.problem not in (None, NOTHING):
            yield f"{without_secrets(one.uri)}: {one.problem}"


def read_log(file: DumpFile, context: LogContext) -> LogResult:
    """A stage: what one file says."""
    parsed = _Parsed()
    try:
        with _Content(file.uri) as content:
            before = content.resume(context.earlier)
            for raw in content.marked_lines():
                parsed.add(raw)
            after = content.read()
    except (OSError, EOFError, zlib.error, pa.ArrowInvalid) as problem:
        return LogResult(uri=file.uri, problem=f"can't be read: {problem}")
    if after is None or (before is not None and after.position == before.position):
        return LogResult(uri=file.uri)
    if not parsed.lines and before is None:
        return LogResult(uri=file.uri, read=after, problem=NOTHING)
    placed = _place(parsed.events, context, None if before is None else before.offset_ms)
    if placed is None:
        why = "its times name no zone and fit no record; not read: name their zone with --broker-log-zone"
        return LogResult(uri=file.uri, problem=why, lines=parsed.lines)
    times, offset_ms = placed
    rows = [
        {**asdict(event), "logged_at": at, "source": without_secrets(file.uri)}
        for (_, event), at in zip(parsed.events, times, strict=True)
        if at is not None
    ]
    unplaced = len(times) - len(rows)
    return LogResult(
        uri=file.uri,
        read=replace(after, offset_ms=offset_ms),
        problem=f"{unplaced} lines left out: clocks changed near them, which time they have is open"
        if unplaced
        else None,
        lines=parsed.lines,
        events=len(rows),
        files=_stage(rows, context.place),
    )


def _stage(rows: Sequence[Mapping[str, Any]], place: Place) -> list[DataFile]:
    writer = TableWriter(place, None)
    schema = table(TABLE).file_schema()
    for start in range(0, len(rows), _BATCH_EVENTS):
        some = rows[start : start + _BATCH_EVENTS]
        arrays = [_array([row[column.name] for row in some], column.type) for column in schema]
        writer.stage(_STAGED, pa.RecordBatch.from_arrays(arrays, names=schema.names))
    return writer.close()


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.timestamp("ms", tz="UTC")).cast(kind)
    return pa.array(values, kind)


def merge_lines(files: Sequence[DataFile], existing: Sequence[str], place: Place) -> list[DataFile]:
    """A stage: the lines of all files that the table does not have, each once.

    Args:
        files: staged rows.
        existing: files of the table.
        place: where the table is.
    """
    schema = table(TABLE).file_schema()
    rows = pa.Table.from_batches(read_paths((file.path for file in files), schema.names), schema)
    if not rows.num_rows:
        return []
    bounds = pc.min_max(rows.column("logged_at"))
    where = (ds.field("logged_at") >= bounds["min"]) & (ds.field("logged_at") <= bounds["max"])
    known = {key for batch in read_paths(existing, _KEYS, where) for key in _keys(batch)}
    rows = rows.sort_by([("logged_at", "ascending"), ("source", "ascending")])
    kept: list[int] = []
    for number, key in enumerate(_keys(rows)):
        if key not in known:
            known.add(key)
            kept.append(number)
    writer = TableWriter(place, None)
    rows = rows.take(pa.array(kept, pa.int64())).sort_by([("group_id", "ascending"), ("logged_at", "ascending")])
    for batch in rows.combine_chunks().to_batches(_BATCH_EVENTS):
        writer.add(TABLE, batch)
    return writer.close()


def _keys(rows: pa.Table | pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows.column(name).to_pylist() for name in _KEYS), strict=True)


# --- times ------------------------------------------------------------------------------------------------------------


def _place(
    events: Sequence[tuple[LogLine, BrokerEvent]], context: LogContext, earlier_ms: int | None
) -> tuple[list[int | None], int | None] | None:
    """UTC of each line, None where it is not known, and how far the last ones are from it; None for a refused file."""
    if all(line.has_zone for line, _ in events):
        return [line.time_ms for line, _ in events], earlier_ms
    if context.zone is not None:
        clock = ZoneClock(parse_zone(context.zone))
        placed = [line.time_ms if line.has_zone else clock.utc_ms(line.time_ms) for line, _ in events]
        return [shown_ms(at) for at in placed], None
    stretches = stretches_of(_witnesses(events, context.rebalances))
    if stretches is None and earlier_ms is not None and not any(event.event in _WITNESSED for _, event in events):
        # Nothing in what is new has a record: clocks are as far from UTC as they were.
        stretches = [Stretch(None, None, earlier_ms)]
    if stretches is None:
        return None
    times = []
    for place, (line, _) in enumerate(events):
        offset = 0 if line.has_zone else next((one.offset_ms for one in stretches if one.has(place)), None)
        times.append(None if offset is None else shown_ms(line.time_ms - offset))
    return times, stretches[-1].offset_ms


def _witnesses(events: Sequence[tuple[LogLine, BrokerEvent]], rebalances: Sequence[str]) -> list[Witness]:
    lines = [
        (place, line, event)
        for place, (line, event) in enumerate(events)
        if event.event in _WITNESSED and not line.has_zone
    ]
    recorded = _recorded_times(rebalances, {event.group_id for _, _, event in lines})
    return [
        Witness(place, line.time_ms, recorded.get((event.event, event.group_id, event.epoch), ()))
        for place, line, event in lines
    ]


def _recorded_times(rebalances: Sequence[str], groups: set[str | None]) -> dict[tuple[Any, ...], list[int]]:
    """When the records say that generations were stabilized and epochs bumped, by event, group and number.

    A classic group's record has its currentStateTimestamp, the end of the join phase: completed_at less the sync.
    """
    found: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    if not groups:
        return found
    where = ds.field("group_id").isin([group for group in groups if group is not None])
    for batch in read_paths(rebalances, (*_REBALANCE_COLUMNS, "group_type"), where):
        for row in batch.to_pylist():
            if row["group_type"] != "classic":
                if row["started_at"] is not None:
                    found["EPOCH_BUMPED", row["group_id"], row["epoch"]].append(milliseconds(row["started_at"]))
            elif None not in (row["completed_at"], row["duration_ms_min"]):
                stabilized = row["completed_at"] - timedelta(milliseconds=row["duration_ms_min"])
                found["STABILIZED", row["group_id"], row["epoch"]].append(milliseconds(stabilized))
    return found


# --- files ------------------------------------------------------------------------------------------------------------


class _Content:
    """A log's content, unpacked where it is packed, from where an earlier run stopped."""

    def __init__(self, uri: str) -> None:
        self._filesystem, self._path = open_filesystem(uri)
        self._stream: Any = None
        self._head = b""
        self._tail = b""
        self._position = 0

    def __enter__(self) -> "_Content":
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def _open(self) -> None:
        plain = self._filesystem.open_input_file(self._path)
        is_packed = plain.read(len(_GZIP)) == _GZIP
        plain.seek(0)
        self._stream = gzip.GzipFile(fileobj=io.BufferedReader(plain, _CHUNK_BYTES)) if is_packed else plain

    def resume(self, earlier: Mapping[str, ReadLog]) -> ReadLog | None:
        """Go to where an earlier run stopped in this file.

        Args:
            earlier: files as far as they were read, by the hash of their first bytes.

        Returns:
            the file as that run left it; None where it is read from its beginning.
        """
        self._head = self._stream.read(_HEAD_BYTES)
        for length in sorted({one.head_bytes for one in earlier.values()}, reverse=True):
            one = earlier.get(_hash(self._head[:length])) if length <= len(self._head) else None
            if one is not None and self._is_there(one):
                self._head, self._position = self._head[:length], one.position
                return one
        self._stream.seek(0)
        self._tail = b""
        return None

    def _is_there(self, one: ReadLog) -> bool:
        """Whether the file has what a run read; if so, what follows is read next."""
        length = min(one.position, _TAIL_BYTES)
        self._stream.seek(one.position - length)
        self._tail = self._stream.read(length)
        return len(self._tail) == length and _hash(self._tail) == one.tail

    def read(self) -> ReadLog | None:
        """How far it is read; None where it has no whole line."""
        if not self._position:
            return None
        head = self._head[: self._position]
        return ReadLog(head=_hash(head), head_bytes=len(head), position=self._position, tail=_hash(self._tail))

    def marked_lines(self) -> Iterator[bytes]:
        """Whole lines that have a mark of a coordinator; none that are longer than any line of it."""
        pending, before, is_cut, total = b"", self._tail, False, self._position
        while chunk := self._stream.read(_CHUNK_BYTES):
            total += len(chunk)
            block = pending + chunk
            end = block.rfind(b"\n") + 1
            if end:
                yield from _marked(block, block.find(b"\n") + 1 if is_cut else 0, end)
                before, pending, is_cut = (before + block[:end])[-_TAIL_BYTES:], block[end:], False
                self._tail, self._position = before, total - len(pending)
            else:
                pending = block
            if len(pending) > _LONGEST_BYTES:
                before, pending, is_cut = (before + pending)[-_TAIL_BYTES:], b"", True


def _marked(block: bytes, start: int, end: int) -> Iterator[bytes]:
    """Lines of a block that have a mark."""
    found: dict[int, int] = {}
    for mark in MARKS:
        at = block.find(mark, start, end)
        while at >= 0:
            stop = block.find(b"\n", at, end)
            found[max(block.rfind(b"\n", start, at) + 1, start)] = stop
            at = block.find(mark, stop, end)
    for first, stop in sorted(found.items()):
        if stop - first <= _LONGEST_BYTES:
            yield block[first:stop]


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
