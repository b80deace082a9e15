"""The stage that adds facts from brokers' logs to the rows of ``rebalances``, see ``analysis.broker_logs.words``.

The stage writes the rows of new rebalances. It also writes rows of earlier runs again if new log lines change them, and
rows for rebalances that only log lines show (``analysis.broker_logs.unrecorded_rebalances``).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.broker_logs.lines import BEGIN, LOADED, LONGEST_MS, SLACK_MS, GroupLogLine
from coordinator_replay.analysis.broker_logs.unrecorded_rebalances import ENDS, LastRecord, unrecorded_rebalance
from coordinator_replay.analysis.broker_logs.words import EVENTS, searched_from_ms, with_broker_log
from coordinator_replay.analysis.rows import Scope
from coordinator_replay.columns import Bools, plain_rows
from coordinator_replay.pipeline.bucket_files import BucketFiles, Changes, Place, TableWriter
from coordinator_replay.pipeline.by_group import extremes
from coordinator_replay.pipeline.rebalance_pauses import AWAITING_LOGS, TABLE
from coordinator_replay.store.duckdb_connection import select
from coordinator_replay.store.scan import read_paths, reader_of, rows_of
from coordinator_replay.store.snapshot import TableFile
from coordinator_replay.store.writer import batch_of, conform
from coordinator_replay.tables.definition import table
from coordinator_replay.times import milliseconds, moment_of_ms

_STATES, _TIMELINE = "group_state", "group_timeline"

_SCHEMA = table(TABLE).file_schema().remove_metadata()
_LINE_COLUMNS = (
    "group_id",
    "log_partition",
    "logged_at",
    "event",
    "epoch",
    "member_id",
    "member_count",
    "reason",
    "client_reason",
    "broker",
    "text",
)
_LAST_LINES = table("broker_log").arrow_schema(["group_id", "log_partition", "event", "logged_at"])
"""The few columns that show which groups have begun a rebalance. Other columns are read only for these groups, because
most lines are about rebalances that are over."""

_LAST_RECORDS = """
SELECT group_id, last.epoch, last.member_count, epoch_ms(last.log_timestamp), last.log_partition, last.log_offset
FROM (
    SELECT group_id, arg_max(struct_pack(group_type, event, to_state, is_state_exact, epoch, member_count,
                                         log_timestamp, log_partition, log_offset), seq) AS last
    FROM timeline GROUP BY group_id
)
WHERE last.group_type = 'classic' AND last.event <> 'GROUP_DELETED' AND last.epoch IS NOT NULL
    AND last.log_timestamp IS NOT NULL AND (last.to_state = 'Stable' OR last.to_state = 'Empty' AND last.is_state_exact)
"""
"""SQL for the last record of each classic group that is Stable, or certainly Empty, with the fields of LastRecord.

Groups whose last record has no generation or no time are left out.
"""

Lines = Mapping[str, Sequence[GroupLogLine]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesContext:
    """Values of a run that are needed to add facts from brokers' logs to the rebalances of each bucket.

    Attributes:
        place: the folders for the rows that are written.
        lines: files of ``broker_log``.
        new: the files of ``lines`` that this run adds.
        end_ms: the latest time of a record of the log; None if no record has a time.
    """

    place: Place
    lines: Sequence[str]
    new: Sequence[str]
    end_ms: int | None


def add_log_lines(files: BucketFiles, context: LinesContext) -> Changes:
    """Write the rebalances of a bucket with facts from lines of brokers' logs. This is a stage of the run.

    Args:
        files: the bucket's files, with staged rows of this run.
        context: values of the run that are the same for each bucket.

    Returns:
        The changes of the bucket's files, in addition to the changes in ``files``.
    """
    written = Changes()
    partitions = _log_partitions(files)
    writer = TableWriter(context.place, files.bucket)
    for is_open, name in AWAITING_LOGS.items():
        staged = [file.path for file in files.staged.get(name, [])]
        rows = pa.Table.from_batches((conform(path, _SCHEMA) for path in read_paths(staged, _SCHEMA.names)), _SCHEMA)
        _write(_with_lines(rows, np.ones(rows.num_rows, np.bool_), context.lines, partitions), writer, is_open=is_open)
    since = _first_times(context.new, partitions)
    removed = {file.uri for file in files.removed}
    for file in files.old(TABLE) if since else ():
        changed = None if file.uri in removed else _changed(file, since, context.lines, partitions)
        if changed is not None:
            written.removed.append(file)
            _write(changed, writer, is_open=bool(file.is_open))
    writer.add_rows(TABLE, _unrecorded(files, context, partitions), is_open=True)
    written.added.extend(writer.close())
    return written


def _write(rows: pa.Table, writer: TableWriter, *, is_open: bool) -> None:
    for batch in rows.combine_chunks().to_batches():
        writer.add(TABLE, batch, is_open=is_open)


def _log_partitions(files: BucketFiles) -> dict[str, int]:
    """Return the log partition of each group of the bucket."""
    partitions: dict[str, int] = {}
    for batch in read_paths(files.uris(_STATES), ["group_id", "log_partition"]):
        partitions.update(zip(*(batch.column(name).to_pylist() for name in batch.schema.names), strict=True))
    return partitions


def _of_groups(groups: Iterable[str], events: Iterable[str]) -> pc.Expression:
    """Return a filter for lines about certain groups, with certain events."""
    is_event = pc.field("event").isin(pa.array(sorted(events)))
    return is_event & pc.field("group_id").isin(pa.array(sorted(groups), pa.string()))


def _first_times(uris: Iterable[str], groups: Iterable[str]) -> dict[str, int]:
    """Return the time of the first line about a rebalance of each group, in milliseconds.

    Args:
        uris: files of the table ``broker_log``.
        groups: the groups.
    """
    return extremes(uris, "logged_at", "min", _of_groups(groups, EVENTS))


def _unrecorded(files: BucketFiles, context: LinesContext, partitions: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield rebalances of a bucket that are in progress and have no records: only lines of brokers' logs show them."""
    if context.end_ms is None:
        return
    is_late = pc.field("logged_at") >= moment_of_ms(max(context.end_ms - LONGEST_MS, 0))
    begun = _last_begun(context.lines, partitions, is_late)
    if not begun:
        return
    lines = _lines(context.lines, partitions, _of_groups(begun, {BEGIN, *ENDS}) & is_late)
    is_load = (pc.field("event") == LOADED) & pc.field("log_partition").is_valid()
    loaded = extremes(context.lines, "logged_at", "max", is_load & is_late, by="log_partition")
    for group, *last in _last_records(files, lines):
        record = LastRecord(*last)
        scope = Scope(context.place.cluster, group)
        row = unrecorded_rebalance(scope, record, lines[group], loaded.get(record.log_partition))
        if row is not None:
            yield row


def _last_begun(uris: Iterable[str], partitions: Mapping[str, int], where: pc.Expression) -> set[str]:
    """Return groups whose rebalance began and did not end, judged by the lines of brokers' logs.

    Args:
        uris: files of the table ``broker_log``.
        partitions: the log partition of each group.
        where: a filter for the lines.
    """
    where &= _of_groups(partitions, {BEGIN, *ENDS})
    rows = rows_of(read_paths(uris, _LAST_LINES.names, where), _LAST_LINES)
    last: dict[bool, dict[str, datetime]] = {True: {}, False: {}}
    for row in rows.group_by(_LAST_LINES.names[:-1]).aggregate([("logged_at", "max")]).to_pylist():
        group, at = row["group_id"], row["logged_at_max"]
        of_kind = last[row["event"] == BEGIN]
        if row["log_partition"] in (None, partitions[group]):
            of_kind[group] = max(of_kind.get(group, at), at)
    return {group for group, at in last[True].items() if at >= last[False].get(group, at)}


def _last_records(files: BucketFiles, groups: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the last record of each classic group that is Stable or certainly Empty.

    Args:
        files: the bucket's files.
        groups: the groups to look at.

    Yields:
        The group and the fields of ``LastRecord``, see ``_LAST_RECORDS``.
    """
    is_wanted = pc.field("group_id").isin(pa.array(sorted(groups), pa.string()))
    schema = table(_TIMELINE).file_schema().remove_metadata()
    timeline = reader_of(read_paths(files.uris(_TIMELINE), schema.names, is_wanted), schema)
    return zip(*(column.to_pylist() for column in select(_LAST_RECORDS, {}, timeline=timeline).columns), strict=True)


def _changed(
    file: TableFile, since: Mapping[str, int], lines: Sequence[str], partitions: Mapping[str, int]
) -> pa.Table | None:
    """Return the rows of a file of ``rebalances`` with facts from brokers' logs; None if no row changes.

    Args:
        file: the file.
        since: the time of the first new line, by group, in milliseconds.
        lines: files of the table ``broker_log``.
        partitions: the log partition of each group.
    """
    first = moment_of_ms(max(min(since.values()) - SLACK_MS, 0))
    where = pc.field("group_id").isin(pa.array(sorted(since), pa.string())) & (pc.field("completed_at") >= first)
    if not any(batch.num_rows for batch in read_paths([file.uri], ["group_id", "completed_at"], where)):
        return None
    rows = rows_of(read_paths([file.uri], _SCHEMA.names), _SCHEMA)
    times = zip(rows.column("group_id").to_pylist(), rows.column("completed_at").to_pylist(), strict=True)
    may_change = [
        at is not None and group in since and milliseconds(at) >= since[group] - SLACK_MS for group, at in times
    ]
    changed = _with_lines(rows, np.array(may_change, np.bool_), lines, partitions)
    return None if changed.equals(rows) else changed


def _with_lines(rows: pa.Table, chosen: Bools, uris: Sequence[str], partitions: Mapping[str, int]) -> pa.Table:
    """Return rebalances, some of them with facts from lines of brokers' logs.

    Args:
        rows: the rebalances.
        chosen: for each rebalance, whether to add facts from lines.
        uris: files of the table ``broker_log``.
        partitions: the log partition of each group.
    """
    chosen_rows = [row for batch in rows.filter(pa.array(chosen)).to_batches() for row in plain_rows(batch)]
    lines = _lines_of(uris, chosen_rows, partitions)
    made = batch_of([with_broker_log(row, lines.get(row["group_id"], ())) for row in chosen_rows], _SCHEMA)
    whole = pa.concat_tables([pa.Table.from_batches([made], _SCHEMA), rows.filter(pa.array(~chosen))])
    # The result has the rows in their old order.
    return whole.take(pa.array(np.argsort(np.concatenate([np.flatnonzero(chosen), np.flatnonzero(~chosen)]))))


def _lines_of(uris: Sequence[str], rows: Sequence[Mapping[str, Any]], partitions: Mapping[str, int]) -> Lines:
    """Return lines of brokers' logs near the times of rebalances, by group and in order of time.

    Args:
        uris: files of the table ``broker_log``.
        rows: the rebalances.
        partitions: the log partition of each group.
    """
    over = [row for row in rows if row["completed_at"] is not None]
    if not over or not uris:
        return {}
    since, until = max(min(map(searched_from_ms, over)), 0), max(row["completed_at"] for row in over) + SLACK_MS
    where = _of_groups({row["group_id"] for row in over}, EVENTS)
    where &= (pc.field("logged_at") >= moment_of_ms(since)) & (pc.field("logged_at") <= moment_of_ms(until))
    return _lines(uris, partitions, where)


def _lines(uris: Iterable[str], partitions: Mapping[str, int], where: pc.Expression) -> Lines:
    """Return lines of brokers' logs, by group and in order of time.

    A line that names a log partition counts only if the group's records are in this log partition.

    Args:
        uris: files of the table ``broker_log``.
        partitions: the log partition of each group.
        where: a filter for the lines.
    """
    by_group: dict[str, list[GroupLogLine]] = defaultdict(list)
    for batch in read_paths(uris, _LINE_COLUMNS, where):
        for row in plain_rows(batch):
            group, partition = row.pop("group_id"), row.pop("log_partition")
            # A line about another log partition is about another group of this name, or about no group.
            if partition is None or partition == partitions.get(group):
                by_group[group].append(GroupLogLine(at_ms=row.pop("logged_at"), **row))
    for of_group in by_group.values():
        of_group.sort(key=lambda line: line.order)
    return by_group
