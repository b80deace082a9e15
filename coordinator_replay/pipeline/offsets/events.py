"""Events about committed offsets, all with the same columns, sorted so that one pass can process them.

The events of a group in a log partition come in this order: first its states and its expiry rules. Then, for each
partition that it consumes, the owners of the partition, and then the commits and tombstones of its offset.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.arrow_times import TIMESTAMP
from coordinator_replay.columns import Numbers, as_bools, codes_of, numbers_of, packed, some
from coordinator_replay.engine.offsets import COMMIT_KINDS
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.log.schema import ControlType
from coordinator_replay.pipeline.offsets.intervals import OffsetEvent
from coordinator_replay.store.duckdb_connection import select
from coordinator_replay.store.scan import BATCH_ROWS, Batches
from coordinator_replay.store.writer import conform
from coordinator_replay.tables.definition import table

COMMIT = (
    *("group_id", "topic", "partition", "log_partition", "log_offset", "log_timestamp", "missing_before"),
    *("producer_id", "producer_epoch", "committed_offset", "leader_epoch", "metadata"),
    *("commit_timestamp", "expire_timestamp", "is_tombstone", "topic_id", "value_version"),
)
"""Columns of ``offset_commits`` that are read."""

_COMMITS = table("offset_commits").arrow_schema(COMMIT)
_TEXTS = ("group_id", "topic")
_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
EVENTS = pa.schema(
    [
        *(
            field.with_type(_DICTIONARY) if field.name in _TEXTS else field
            for field in _COMMITS
            if field.name != "is_tombstone"
        ),
        ("kind", pa.int8()),
        ("at_offset", pa.int64()),
        ("at_timestamp", TIMESTAMP),
        ("until_offset", pa.int64()),
        ("name", pa.string()),
        ("group_state", pa.string()),
        ("spared_topics", pa.list_(pa.string())),
        ("previous_offset", pa.int64()),
        ("replaced_offset", pa.int64()),
        ("lost_at", pa.int64()),
        ("is_begin_open", pa.bool_()),
    ]
)
"""Columns of events, with groups and topics as dictionaries. A row is one ``OffsetEvent``:

- ``at_offset`` and ``at_timestamp``: where the event takes effect. A transactional commit takes effect at its marker.
  As long as the commit waits, the columns have the values of the first commit of the key in its transaction.
- ``log_offset`` and ``log_timestamp``: the record of the event.
- ``name``: the owner, the state, the rule, or the reason why an interval ends.
- ``commit_timestamp``: for a rule, the base time of the rule.
- ``until_offset``: the end of an ownership.
- ``previous_offset``, ``replaced_offset`` and ``is_begin_open``: as in ``offset_history``, for a commit of an earlier
  batch or run.
- ``lost_at``: the offset at which records begin to be missing, if a newer dump lacks the commit's record.
"""

UNKNOWN_STATE = "Unknown"

RECORDS_MISSING, GROUP_MOVED = "RECORDS_MISSING", "GROUP_MOVED"
"""Reasons why an interval ends without a record that replaces or removes its offset."""

_SORT = ("first", "second")
_KEY_AND_ORDER = (*_TEXTS, "partition", "log_partition", "kind", *_SORT)
UNSORTED = pa.schema([*EVENTS, *((name, pa.int64()) for name in _SORT)])
"""EVENTS and two columns by which events of a key are sorted."""

QUARANTINED = ("kind", "key_json", "log_partition", "log_offset", "log_timestamp", "producer_id", "producer_epoch")
"""Columns of ``quarantine`` that are read."""

OPEN_HISTORY = (
    *("group_id", "topic", "partition", "log_partition", "committed_offset", "leader_epoch", "metadata"),
    *("commit_timestamp", "expire_timestamp", "group_state", "previous_offset", "from_offset", "to_offset"),
    *("valid_from", "record_offset", "is_transactional", "owner_member_id", "is_begin_open"),
    *("topic_id", "value_version", "replaced_offset"),
)
"""Columns of open rows of ``offset_history`` that are read."""

WAITING = (
    *("group_id", "topic", "partition", "log_partition", "committed_offset", "leader_epoch", "metadata"),
    *("commit_timestamp", "expire_timestamp", "group_state", "from_offset", "valid_from", "owner_member_id"),
    *("producer_id", "producer_epoch", "pending_since", "pending_since_offset", "topic_id", "value_version"),
)
"""Columns of open rows of ``pending_offsets`` that are read."""

_QUARANTINED = table("quarantine").arrow_schema(QUARANTINED)
_KEY = pa.schema([("group", pa.string()), ("topic", pa.string()), ("partition", pa.int32())])

MARKER = ("log_partition", "log_offset", "log_timestamp", "producer_id", "control_type")
"""Columns of ``control_records`` that are read."""

OWNER = ("group_id", "log_partition", "topic", "partition", "member_id", "from_offset", "to_offset", "is_exact")
"""Columns of ``partition_ownership`` that are read."""

STATE = ("group_id", "log_partition", "from_state", "to_state", "seq", "log_offset", "is_exact", "is_state_exact")
"""Columns of ``group_timeline`` that are read."""

RULE = (
    *("group_id", "log_partition", "log_offset", "log_timestamp", "rule", "base_timestamp"),
    *("group_state", "spared_topics", "is_group_tombstone"),
)
"""Columns of ``expiry_rules`` that are read."""


def _typed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with the columns of groups and topics dictionary-encoded."""
    columns = [
        column.dictionary_encode() if name in _TEXTS and not pa.types.is_dictionary(column.type) else column
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _shaped(rows: pa.RecordBatch, kind: pa.Array | pa.Scalar, at_offset: Any, **values: Any) -> pa.RecordBatch:
    """Return rows as events of a kind.

    Args:
        rows: the rows.
        kind: the ``OffsetEvent`` of each row, or of all rows.
        at_offset: the log offsets at which the events take effect. The events are sorted by these log offsets, unless
            ``values`` has other values for ``first`` and ``second``.
        values: other columns of the events.
    """
    order = {"first": at_offset, "second": at_offset}
    return conform(_typed(rows), UNSORTED, **{**order, "kind": kind, "at_offset": at_offset, **values})


def _kind(event: OffsetEvent) -> pa.Scalar:
    return pa.scalar(int(event), pa.int8())


def unreadable_commits(records: pa.RecordBatch) -> pa.RecordBatch:
    """Return commits whose value can't be read, with the columns of COMMIT. Their committed offset is null.

    Args:
        records: rows of ``quarantine`` with the columns of QUARANTINED. Rows without a kind are left out.
    """
    rows = conform(records, _QUARANTINED)
    rows = rows.filter(pc.is_in(rows.column("kind"), value_set=pa.array(sorted(COMMIT_KINDS))))
    keys = pa.RecordBatch.from_pylist([*map(orjson.loads, rows.column("key_json").to_pylist())], _KEY)
    named = {"group_id": keys.column("group"), **{name: keys.column(name) for name in ("topic", "partition")}}
    return conform(rows, _COMMITS, **named, is_tombstone=False)


def waiting_commits(pending: pa.RecordBatch) -> pa.RecordBatch:
    """Return an event for each commit that waited for its transaction marker at the end of the last run or chunk.

    Args:
        pending: open rows of ``pending_offsets``, with the columns of WAITING.
    """
    offsets = pending.column("from_offset")
    return _shaped(
        pending,
        kind=_kind(OffsetEvent.WAITING),
        at_offset=pc.coalesce(pending.column("pending_since_offset"), offsets),
        at_timestamp=pending.column("pending_since"),
        log_offset=offsets,
        log_timestamp=pending.column("valid_from"),
        name=pending.column("owner_member_id"),
    )


def open_offsets(history: pa.RecordBatch) -> pa.RecordBatch:
    """Return an event for each offset that was current at the end of the last run or chunk.

    Args:
        history: open rows of ``offset_history``, with the columns of OPEN_HISTORY.
    """
    begins, records = history.column("from_offset"), history.column("record_offset")
    producers = pa.scalar(0, pa.int64()), pa.scalar(-1, pa.int64())
    return _shaped(
        history,
        kind=_kind(OffsetEvent.OPEN_OFFSET),
        at_offset=begins,
        at_timestamp=history.column("valid_from"),
        log_offset=records,
        log_timestamp=history.column("valid_from"),
        producer_id=pc.if_else(history.column("is_transactional"), *producers),
        name=history.column("owner_member_id"),
        second=records,
    )


def owners(ownership: pa.RecordBatch) -> pa.RecordBatch:
    """Return an event for each time range in which a member owned a partition.

    The column ``name`` of an event has the member; null if the log does not prove the owner. Leave out topics whose
    name is not known.

    Args:
        ownership: rows with the columns of OWNER.
    """
    rows = ownership.filter(pc.and_(ownership.column("topic").is_valid(), ownership.column("from_offset").is_valid()))
    since, until = rows.column("from_offset"), rows.column("to_offset")
    return _shaped(
        rows.select(["group_id", "log_partition", "topic", "partition"]),
        kind=_kind(OffsetEvent.OWNER),
        at_offset=since,
        log_offset=-1,
        until_offset=until,
        name=pc.if_else(rows.column("is_exact").fill_null(True), rows.column("member_id"), None),
        second=until.fill_null(LARGEST_INT64),
    )


def states(timeline: pa.RecordBatch) -> pa.RecordBatch:
    """Return an event for each state that a group entered. The state is Unknown if the log does not prove it.

    Args:
        timeline: rows of ``group_timeline``, with the columns of STATE.
    """
    before, after = timeline.column("from_state"), timeline.column("to_state")
    is_change = pc.not_equal(before, after).fill_null(True)
    is_first = pc.equal(timeline.column("seq"), 0).fill_null(False)
    is_unproven = pc.invert(timeline.column("is_exact").fill_null(True))
    is_any = pc.or_(pc.or_(is_change, is_first), is_unproven)
    rows = timeline.filter(pc.and_(is_any, after.is_valid()).fill_null(False))
    offsets = rows.column("log_offset")
    is_exact = rows.column("is_state_exact").fill_null(True)
    return _shaped(
        rows.select(["group_id", "log_partition", "log_offset"]),
        kind=_kind(OffsetEvent.STATE),
        at_offset=offsets,
        name=pc.if_else(is_exact, rows.column("to_state"), UNKNOWN_STATE),
        lost_at=pc.if_else(
            pc.or_(rows.column("is_exact").fill_null(True), rows.column("from_state").is_valid()), None, offsets
        ),
        second=rows.column("seq").cast(pa.int64()),
    )


def rules(expiry_rules: pa.RecordBatch) -> pa.RecordBatch:
    """Return events for the changes of groups' expiry rules, and for the tombstones of groups.

    Args:
        expiry_rules: rows with the columns of RULE.
    """
    is_tombstone = expiry_rules.column("is_group_tombstone").fill_null(False)
    offsets = expiry_rules.column("log_offset")
    return _shaped(
        expiry_rules.select(["group_id", "log_partition", "group_state", "spared_topics"]),
        kind=pc.if_else(is_tombstone, _kind(OffsetEvent.GROUP_TOMBSTONE), _kind(OffsetEvent.RULE)),
        at_offset=offsets,
        at_timestamp=expiry_rules.column("log_timestamp"),
        name=expiry_rules.column("rule"),
        commit_timestamp=expiry_rules.column("base_timestamp"),
        second=0,
    )


def lost_keys(
    events: Sequence[pa.RecordBatch],
    log_partition: int,
    offset: int,
    at_us: int | None,
    *,
    ended_by: str = RECORDS_MISSING,
    group_id: str | None = None,
) -> pa.RecordBatch:
    """Return an event for each key of a log partition. The event ends the time in which the key's offset was current.

    Args:
        events: events with the columns of UNSORTED. Only keys with an event below ``offset`` are returned.
        log_partition: number of the log partition.
        offset: the first log offset that is missing or doesn't count.
        at_us: the time up to which no record is missing, in microseconds; None if this time is unknown.
        ended_by: the reason: records are missing, or the group moved to another log partition.
        group_id: the group whose keys are returned; None for the keys of all groups.
    """
    names = ["group_id", "topic", "partition", "log_partition"]
    below_offset = []
    for batch in events:
        is_own = pc.equal(batch.column("log_partition"), log_partition)
        if group_id is not None:
            is_own = pc.and_(is_own, pc.equal(batch.column("group_id").cast(pa.string()), group_id))
        below = batch.filter(pc.and_(is_own, pc.less(batch.column("at_offset"), offset)).fill_null(False))
        texts = {name: below.column(name).cast(pa.string()) for name in _TEXTS}
        below_offset.append(pa.table(texts | {name: below.column(name) for name in names[2:]}))
    keys = pa.concat_tables(below_offset).group_by(names).aggregate([])
    rows = pa.RecordBatch.from_arrays([keys.column(name).combine_chunks() for name in names], names)
    return _shaped(
        rows,
        kind=_kind(OffsetEvent.LOST),
        at_offset=offset,
        at_timestamp=pa.scalar(at_us, pa.int64()).cast(TIMESTAMP),
        log_offset=offset,
        name=ended_by,
        second=-1,
    )


def committed_without_marker(
    waiting: pa.Table, at_offsets: Sequence[int | None], at_us: Sequence[int | None]
) -> pa.Table:
    """Return events of kind COMMITTED for transactional commits that were committed, though their marker is missing.

    Args:
        waiting: the transactional commits, as events of kinds OPENED and WAITING with the columns of UNSORTED.
        at_offsets: for each commit, the log offset from which on it is proven that it was committed; None if nothing
            proves it.
        at_us: the times at these log offsets, in microseconds.
    """
    offsets, times = pa.array(at_offsets, pa.int64()), pa.array(at_us, pa.int64()).cast(TIMESTAMP)
    kinds = pa.repeat(_kind(OffsetEvent.COMMITTED), waiting.num_rows)
    return _with_end(waiting, kinds, offsets, times).filter(offsets.is_valid())


def _with_end(waiting: pa.Table, kinds: pa.Array, offsets: pa.Array, times: pa.Array) -> pa.Table:
    changed = {"kind": kinds, "at_offset": offsets, "at_timestamp": times}
    changed |= {"first": offsets, "second": waiting.column("log_offset")}
    return pa.table([changed.get(name, waiting.column(name)) for name in UNSORTED.names], schema=UNSORTED)


_ENDED = f"""
SELECT row, control_type, markers.log_offset AS ended_at, log_timestamp AS ended_time
FROM waiting ASOF JOIN (
    SELECT * FROM markers WHERE control_type IN ('{ControlType.COMMIT.value}', '{ControlType.ABORT.value}')
) AS markers ON waiting.log_partition = markers.log_partition AND waiting.producer_id = markers.producer_id
    AND waiting.log_offset <= markers.log_offset
ORDER BY row
"""  # noqa: S608 - our own names


def ended_commits(waiting: pa.Table, markers: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield an event for each transactional offset commit whose transaction was committed or aborted.

    The next marker of the same producer in the same log partition ends the transaction.

    Args:
        waiting: the transactional offset commits, as events of kinds OPENED and WAITING with the columns of UNSORTED.
        markers: the transaction markers, with the columns of MARKER.

    Yields:
        Events of kinds COMMITTED and ABORTED; none for commits whose transaction is still open.
    """
    rows = waiting.select(["log_partition", "producer_id", "log_offset"])
    ended = select(_ENDED, {}, waiting=rows.append_column("row", pa.array(range(waiting.num_rows))), markers=markers)
    if not ended.num_rows:
        return
    by = ended.combine_chunks()
    is_commit = pc.equal(by.column("control_type"), ControlType.COMMIT.value)
    kinds = pc.if_else(is_commit, _kind(OffsetEvent.COMMITTED), _kind(OffsetEvent.ABORTED))
    commits = waiting.combine_chunks().take(by.column("row"))
    yield from _with_end(commits, kinds, by.column("ended_at"), by.column("ended_time")).to_batches()


def _ranks(column: pa.DictionaryArray) -> Numbers:
    """Return the rank of each value.

    Null ranks first.
    """
    ranks = np.zeros(len(column.dictionary) + 1, np.int64)
    ranks[pc.sort_indices(column.dictionary).to_numpy()] = np.arange(1, len(column.dictionary) + 1)
    return ranks[codes_of(column)]


def _from_null(column: pa.Array) -> Numbers:
    """Return the numbers of a column. Null becomes a number below all others."""
    present = numbers_of(column.drop_null())
    return numbers_of(column, int(present.min()) - 1 if len(present) else 0)


def _order(events: pa.Table) -> Numbers:
    """Return indices that sort events by key and then within the key.

    Null comes first.
    """
    columns = {name: events.column(name).chunk(0) for name in events.column_names}
    group, topic = (_ranks(columns[name]) for name in _TEXTS)
    partition, log_partition = (_from_null(columns[name]) for name in ("partition", "log_partition"))
    keys = [group, log_partition, topic, partition]
    order = _within_keys(numbers_of(columns["kind"]), [numbers_of(columns[name]) for name in _SORT])
    return order[np.argsort(packed([packed(keys)[order], np.arange(len(order))]))]


def _within_keys(kinds: Numbers, within: Sequence[Numbers]) -> Numbers:
    """Return indices that put the events of each key in order. Events of different keys stay mixed."""
    # Most commits are in order already. Rows in order are not sorted again, to save time.
    order: list[Numbers] = []
    is_commit = kinds > OffsetEvent.OWNER
    is_state = kinds == OffsetEvent.STATE
    # Within a key, states of the group come before its rules, and owners before commits.
    for [rows] in (np.nonzero(is_state), np.nonzero(~is_commit & ~is_state), np.nonzero(is_commit)):
        first, second = (values[rows] for values in within)
        is_behind = (first[1:] > first[:-1]) | ((first[1:] == first[:-1]) & (second[1:] >= second[:-1]))
        order.append(rows if is_behind.all() else rows[np.lexsort([second, first])])
    return np.concatenate(order)


def in_order(batches: Sequence[pa.RecordBatch]) -> Batches:
    """Yield events in the order that ``find_offset_intervals`` needs, with the columns of EVENTS.

    Args:
        batches: rows with the columns of UNSORTED.
    """
    if not batches:
        return
    events = pa.Table.from_batches(batches, UNSORTED).unify_dictionaries()
    order = _order(events.select(_KEY_AND_ORDER).combine_chunks())
    # To take rows of a column without values costs as much as of another one.
    empty = [name for name in EVENTS.names if events.column(name).null_count == events.num_rows]
    events = events.select([name for name in EVENTS.names if name not in empty]).combine_chunks()
    for at in range(0, len(order), BATCH_ROWS):
        [rows] = events.take(pa.array(order[at : at + BATCH_ROWS])).to_batches()
        yield conform(rows, EVENTS)


def split_commits(commits: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield commits as events, with the columns of UNSORTED.

    The first batch has the commits without a transaction (PLAIN) and the tombstones (TOMBSTONE). The second batch has
    the transactional commits (OPENED). A batch without rows is left out.
    """
    is_tombstone = commits.column("is_tombstone").fill_null(False)
    # Commits of an export have no producer id, so they wait for no marker.
    waits = as_bools(pc.and_(pc.not_equal(commits.column("producer_id"), -1), pc.invert(is_tombstone)))
    for rows, kind in ((some(commits, ~waits), OffsetEvent.PLAIN), (some(commits, waits), OffsetEvent.OPENED)):
        if rows.num_rows:
            are_tombstones = rows.column("is_tombstone").fill_null(False)
            kinds = pc.if_else(are_tombstones, _kind(OffsetEvent.TOMBSTONE), _kind(kind))
            yield _shaped(rows, kinds, rows.column("log_offset"), at_timestamp=rows.column("log_timestamp"))
