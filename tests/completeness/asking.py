"""Asks a warehouse everything that the Python API can be asked, and brings the answers into one comparable form."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

from coordinator_replay import Warehouse
from coordinator_replay.api.answer import Answer
from coordinator_replay.errors import UsageError
from coordinator_replay.query.saved import saved_query
from coordinator_replay.report.life import StateBand
from coordinator_replay.report.lives import Detail, lives_of, spans_of
from coordinator_replay.report.unknown_past import unknown_past

UNKNOWN = "Unknown"
UNKNOWN_END = "RECORDS_MISSING"
"""What an interval ended by of which only the beginning is known: its end is that of what was read."""
ABOUT_THE_DUMP = {"log_gap", "log_truncated", "unknown_records", "unreadable_records"}
"""Rules of findings about a dump, of which the log itself has nothing."""
_ENDS = ("valid_to", "ended_by", "owned_to", "released_by")
_LIMIT = re.compile(r"\nLIMIT \d+$| LIMIT \d+$")
_SOFT = (
    "committed_offset",
    "owner_member_id",
    "previous_owner_member_id",
    "group_state",
    "client_id",
    "client_host",
    "metadata_delay_ms",
)
"""Columns of saved queries in which null claims nothing."""
_REASONS = ("ended_by", "ended_confidence", "ended_alternatives", "ended_evidence", "ended_facts")
"""Columns of saved queries that say what fits best, and what else does."""
_ABOUT_INPUTS = ("sources", "pending_ms", "commits_per_minute")
"""Columns of saved queries that say which inputs show something, or what is counted over the time of what was read."""
Key = tuple[Any, ...]
Values = dict[str, Any]

_ENDED = "was in force until"
"""In notes on what ended an offset."""
_ELSEWHERE = "Only log partition"
"""How a note on groups of other log partitions begins, which says nothing about those that were audited."""
_BEGINS = "The log begins only at"
"""How a note begins that says that changes are counted from the begin of the log on."""
_OPEN = re.compile(
    r"on record|not complete|may have existed|is not known|audits have read no record|before the start of the log"
    r"|range is not covered"
)
"""What an answer that leaves something open says in its notes, or in the error it raises."""


_EITHER = "LEAVE_OR_TIMEOUT"
"""The cause that says itself that it may be one of two; commits that speak for one of them may be missing."""


class Among(list[Any]):
    """A value that is one of several, as a cause with alternatives: equal to each of them."""

    def __eq__(self, other: object) -> bool:
        return other in iter(self)

    __hash__ = None  # type: ignore[assignment]  # as that of a list


@dataclass(frozen=True, slots=True)
class UpTo:
    """A time that may have been earlier: equal to each that is not later; None is before all."""

    time: datetime | None

    def __eq__(self, other: object) -> bool:
        return other is None or (self.time is not None and isinstance(other, datetime) and other <= self.time)

    __hash__ = None  # type: ignore[assignment]  # as it is equal to many


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A lower bound: equal to each number that is not lower; None claims nothing, and is no claim against it."""

    number: float | None

    def __eq__(self, other: object) -> bool:
        return other is None or self.number is None or (isinstance(other, int | float) and other >= self.number)

    __hash__ = None  # type: ignore[assignment]  # as it is equal to many


@dataclass(frozen=True, slots=True)
class Told:
    """What was told of one thing.

    Attributes:
        values: what is claimed, by name; a value of None or ``Unknown`` in a column of ``soft`` claims nothing.
        is_open: the answer says itself that it may be otherwise.
        place: log partition and offset that it begins at; None where that is not told.
        is_of_past: it rests on more than what stands from its place on: who left long before, for a rebalance.
    """

    values: Values
    is_open: bool = False
    place: tuple[int, int] | None = None
    is_of_past: bool = False


@dataclass(slots=True)
class Reply:
    """What one question was answered with.

    Attributes:
        rows: by what they are about.
        is_open: whether the answer says that there may have been more than its rows.
    """

    rows: dict[Key, Told] = field(default_factory=dict)
    is_open: bool = False


def moment(time_ms: int | None) -> datetime | None:
    """A time as the API takes it."""
    return None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC)


def says_open(answer: Answer[Any] | UsageError) -> bool:
    """Whether an answer, or what was said in its place, tells that there may have been more."""
    if isinstance(answer, UsageError):
        return _OPEN.search(str(answer)) is not None
    basis = getattr(answer, "basis", None)
    notes = [note for note in answer.notes if _ENDED not in note and not note.startswith(_ELSEWHERE)]
    return (basis is not None and not basis.is_complete) or any(_OPEN.search(note) for note in notes)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return tuple(_plain(getattr(value, one.name)) for one in fields(value))
    if isinstance(value, (list, tuple)):
        return tuple(_plain(one) for one in value)
    return value


def _row(row: Any, names: Sequence[str]) -> Values:
    return {name: _plain(getattr(row, name)) for name in names}


def _is_row_open(row: Any) -> bool:
    """A row says itself that it is not exact, or not proven."""
    return (
        getattr(row, "is_exact", True) is False
        or getattr(row, "is_proven", True) is False
        or getattr(row, "state", None) == UNKNOWN
    )


_GROUP = (
    "group_type",
    "protocol_type",
    "protocol",
    "state",
    "epoch",
    "assignment_epoch",
    "member_count",
)
_DESCRIBED = tuple("assignor" if name == "protocol" else name for name in _GROUP)
_MEMBER = (
    "instance_id",
    "client_id",
    "client_host",
    "rack_id",
    "subscribed_topics",
    "subscribed_topic_regex",
    "assignor",
    "member_state",
    "member_epoch",
    "current_assignment",
    "pending_revocation",
    "target_assignment",
)
_OFFSET = (
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp",
    "valid_from",
    "is_transactional",
    "from_offset",
)
_UNSTABLE = ("committed_offset", "is_unstable", "producer_id", "producer_epoch", "pending_since")


def ask_groups(warehouse: Warehouse, time_ms: int | None) -> Reply:
    """``groups --at``."""
    try:
        answer = warehouse.groups(at=moment(time_ms))
    except UsageError as refused:
        return Reply(is_open=says_open(refused))
    rows = {(one.group_id,): Told(_row(one, _GROUP), _is_row_open(one)) for one in answer}
    return Reply(rows, says_open(answer))


def ask_deleted(warehouse: Warehouse, time_ms: int | None) -> Reply:
    """``groups --deleted --at``."""
    try:
        answer = warehouse.deleted_groups(at=moment(time_ms))
    except UsageError as refused:
        return Reply(is_open=says_open(refused))
    rows = {
        # A reason that is not certain is what fits best of what is on record.
        (one.group_id,): Told(
            _row(one, ("group_type", "deleted_at", *["reason"] * (one.confidence == "certain"))), _is_row_open(one)
        )
        for one in answer
    }
    return Reply(rows, says_open(answer))


def ask_describe(warehouse: Warehouse, group: str, time_ms: int | None) -> Reply:
    """``describe --at``: the group, and each member."""
    try:
        answer = warehouse.describe(group, at=moment(time_ms))
    except UsageError as refused:
        return Reply(is_open=says_open(refused))
    is_open = _is_row_open(answer.group)
    rows: dict[Key, Told] = {("group",): Told(_row(answer.group, _DESCRIBED), is_open)}
    rows |= {(one.member_id,): Told(_row(one, _MEMBER), is_open or _is_row_open(one)) for one in answer}
    return Reply(rows, is_open or says_open(answer))


def ask_offsets(warehouse: Warehouse, group: str, time_ms: int | None, *, stable: bool = False) -> Reply:
    """``offsets --at``, and the same with ``--require-stable``."""
    try:
        answer = warehouse.offsets(group, at=moment(time_ms), require_stable=stable)
    except UsageError as refused:
        return Reply(is_open=says_open(refused))
    names = _UNSTABLE if stable else _OFFSET
    rows = {(one.topic, one.partition): Told(_row(one, names), _is_row_open(one)) for one in answer}
    return Reply(rows, says_open(answer))


def ask_diff(warehouse: Warehouse, start_ms: int, end_ms: int) -> Reply:
    """``diff``: what is at both times; what lay between them is counted. A copy may not have a client's host."""
    try:
        answer = warehouse.diff(moment(start_ms) or "now", moment(end_ms))
    except UsageError as refused:
        return Reply(is_open=says_open(refused))
    # Then the answer is about another time, and says so.
    is_since_begin = any(note.startswith(_BEGINS) for note in answer.notes)
    return Reply(
        {
            (one.group_id, one.what, one.change, (one.name or "").partition(" on /")[0]): Told(
                _row(one, ("before", "after", "number")), is_since_begin or _is_row_open(one)
            )
            for one in answer
            if one.what not in ("rebalance", "finding")
        }
    )


def ask_timeline(warehouse: Warehouse, group: str, start_ms: int, end_ms: int) -> Reply:
    """``timeline`` of a time range; what is no event of the group's own is not held against the whole log."""
    try:
        answer = warehouse.timeline(group, start=moment(start_ms), end=moment(end_ms))
    except UsageError as refused:
        return Reply(is_open=says_open(refused))
    names = ("to_state", "epoch", "member_count")
    rows: dict[Key, Told] = {
        (one.log_offset, one.event, one.member_id): Told(_row(one, names), not one.is_exact)
        for one in answer
        if one.seq is not None
    }
    # A record that can't be read is a row of the answer; the line that it stands on knows of missing ones alone.
    return Reply(rows, says_open(answer) or any(one.event == UNKNOWN_END for one in answer))


def ask_rebalances(warehouse: Warehouse, group: str, start_ms: int, end_ms: int) -> Reply:
    """``rebalances`` of a time range."""
    try:
        answer = warehouse.rebalances(group, start=moment(start_ms), end=moment(end_ms))
    except UsageError as refused:
        return Reply(is_open=says_open(refused))
    names = ("cause", "confidence", "members_before", "members_after", "members_joined", "members_left")
    rows: dict[Key, Told] = {
        (one.epoch, str(one.completed_at)): Told(
            _row(one, names if one.cause != _EITHER else names[2:]),
            one.is_exact is False or one.cause == "UNKNOWN" or one.confidence == "unknown",
        )
        for one in answer
    }
    return Reply(rows, says_open(answer))


def ask_impact(warehouse: Warehouse, start_ms: int, end_ms: int, *, is_whole: bool = False) -> Reply:
    """``impact`` of a time range: each group concerned, with what its row says is a lower bound.

    Of the whole log a bound is what its records prove, and a copy proves no more.
    """
    try:
        answer = warehouse.impact(start=moment(start_ms), end=moment(end_ms))
    except UsageError as refused:
        return Reply(is_open=says_open(refused))
    rows: dict[Key, Told] = {}
    for one in answer:
        values = _row(one, ("rebalances", "unowned_partitions", "unowned_ms"))
        if one.is_at_least and not is_whole:
            values = {name: AtLeast(value) for name, value in values.items()}
        else:
            values |= {"causes": one.causes, "first_at": one.first_at}
        pause = one.commit_pause_ms
        rows[one.group_id,] = Told(values | {"pause": AtLeast(pause) if one.is_pause_at_least else pause})
    return Reply(rows, answer.total.is_at_least)


def ask_findings(warehouse: Warehouse) -> Reply:
    """``findings``: each in full where its row does not say that records of it may be missing."""
    names = ("rule", "group_id", "severity", "first_seen", "ended_at", "occurrences", "message")
    rows: dict[Key, Told] = {
        (one.finding_id,): Told(_row(one, names), one.is_end_open or one.is_at_least or not one.is_proven)
        for one in warehouse.findings()
        if one.rule not in ABOUT_THE_DUMP
    }
    return Reply(rows)


Lanes = dict[str, tuple[Sequence[StateBand], datetime | None, datetime | None]]
"""The states of each group over time, the time of its first record, and that of its first state on record."""


def lanes_of(warehouse: Warehouse) -> Lanes:
    """The states of each group, as the lanes of the fleet's page have them."""
    tables = warehouse._tables
    start, lanes = tables.coverage.first, Lanes()
    for life in lives_of(tables, spans_of(tables), detail=Detail.STATES):
        past = unknown_past(tables, life.log_partition, life.first, life.states, start, life.start)
        own = next((band.since for band in life.states), None)
        lanes[life.group] = (*past, *life.states), life.first.at, own
    return lanes


def ask_lanes(warehouse: Warehouse, lanes: Lanes, time_ms: int) -> tuple[Reply, Reply]:
    """What ``groups`` says at a time, and what the lanes show; lanes have no states from offsets alone."""
    at = moment(time_ms)
    assert at is not None
    judged = {
        group
        for group, (_, first, own) in lanes.items()
        if (first is None or at < first) or (own is not None and own <= at)
    }
    shown = {
        (group,): Told({"state": band.state})
        for group, (bands, *_) in lanes.items()
        for band in bands
        if group in judged
        and (band.since is None or band.since <= at)
        and (band.until is None or at < band.until)
        and band.state != "Dead"
    }
    listed = {
        (one.group_id,): Told({"state": one.state})
        for one in warehouse.groups(at=at)
        if one.group_id in judged and (one.since is not None or one.state == UNKNOWN)
    }
    return Reply(listed), Reply(shown)


_CONSUMER = ("group_id", "how", "client_id", "client_host", "instance_id")


def ask_consumers(warehouse: Warehouse, topic: str, start_ms: int | None, end_ms: int | None) -> Reply:
    """``consumers`` of a time range."""
    try:
        answer = warehouse.consumers(topic, start=moment(start_ms), end=moment(end_ms))
    except UsageError as refused:
        return Reply(is_open=says_open(refused))
    names = ("member_ids", "partitions", "first_at", "last_at")
    return Reply({tuple(_row(one, _CONSUMER).values()): Told(_row(one, names), _is_row_open(one)) for one in answer})


def ask_owner(warehouse: Warehouse, group: str, topic: str, partition: int, time_ms: int | None) -> Reply:
    """``owner --at``."""
    try:
        answer = warehouse.owner(group, topic, partition, at=moment(time_ms))
    except UsageError as refused:
        return Reply(is_open=says_open(refused))
    rows = {(one.member_id,): Told(_row(one, ("instance_id",)), _is_row_open(one)) for one in answer}
    return Reply(rows, says_open(answer))


@dataclass(frozen=True, slots=True)
class TableQuestion:
    """The rows of a table about the past, and how they are held against those of the whole log.

    Attributes:
        key: columns that say what a row is about.
        begin: the column of the key that says since when; where that is open, ``end`` takes its place.
        end: the column that says until when.
        values: columns that an exact row claims.
        soft: columns in which null and ``Unknown`` claim nothing.
        offset: the column with the offset that a row begins at; None where there is none.
        source: a select of its rows where the table alone does not have that offset.
    """

    key: tuple[str, ...]
    values: tuple[str, ...]
    soft: tuple[str, ...] = ()
    begin: str | None = None
    end: str | None = None
    offset: str | None = None
    source: str | None = None

    def thing(self, row: Values, column: str | None) -> Key:
        """What a row is about, and one of its ends."""
        names = [name for name in self.key if name != self.begin]
        return tuple(_text(row[name]) for name in (*names, column) if name is not None)

    def keys(self, row: Values) -> list[Key]:
        """What a row is found by; by its end, too, where that is known without its beginning."""
        found = [tuple(_text(row[column]) for column in self.key)]
        if self.begin is not None and self.end is not None:
            rest = tuple(_text(row[column]) for column in self.key if column != self.begin)
            found.append((*rest, "until", _text(row[self.end])))
        return found


_REBALANCES = """
    SELECT rebalances.*, started_offset
    FROM rebalances LEFT JOIN (
        SELECT rebalance_id, min(log_offset) AS started_offset
        FROM group_timeline WHERE cluster = $cluster GROUP BY rebalance_id
    ) AS steps USING (rebalance_id)
    WHERE cluster = $cluster
"""
"""Rebalances with the offset of the first record of each."""

TABLES: Mapping[str, TableQuestion] = {
    "group_timeline": TableQuestion(
        ("group_id", "log_offset", "event", "member_id"),
        ("group_type", "to_state", "epoch", "assignment_epoch", "member_count"),
        ("from_state",),
        offset="log_offset",
    ),
    "member_timeline": TableQuestion(
        ("group_id", "member_id", "valid_from"),
        ("valid_to", "member_epoch", "member_state", "assigned", "pending_revocation", "target"),
        begin="valid_from",
        end="valid_to",
        offset="from_offset",
    ),
    "partition_ownership": TableQuestion(
        ("group_id", "topic_id", "topic", "partition", "member_id", "owned_from"),
        ("owned_to", "released_by"),
        begin="owned_from",
        end="owned_to",
    ),
    "rebalances": TableQuestion(
        ("group_id", "epoch", "completed_at"),
        (
            *("cause", "confidence", "members_before", "members_after", "partitions_reassigned", "partitions_total"),
            *("began_by", "duration_ms_min", "unowned_ms_max", "unowned_ms_total", "held_up_by", "held_up_ms"),
            "commit_pause_ms",
        ),
        ("started_at", "duration_ms", "metadata_delay_ms"),
        offset="started_offset",
        source=_REBALANCES,
    ),
    "offset_history": TableQuestion(
        ("group_id", "topic", "partition", "from_offset"),
        ("committed_offset", "valid_from", "valid_to", "ended_by"),
        ("previous_offset", "owner_member_id", "group_state"),
        offset="from_offset",
    ),
    "pending_offsets": TableQuestion(
        ("group_id", "topic", "partition", "producer_id", "pending_since", "valid_from"),
        ("valid_to",),
        begin="pending_since",
        end="valid_to",
    ),
    "expired_offsets": TableQuestion(
        ("group_id", "topic", "partition", "committed_offset", "commit_timestamp", "status"),
        ("expire_at", "rule", "tombstone_at"),
        ("group_state",),
    ),
    # What a finding counts may begin at a later record in a copy; a gap in the dump is nothing that the log tells of.
    "findings": TableQuestion(("rule", "group_id", "topic", "partition", "member_id"), ("severity",)),
}


FOLDED = {"offset_rewind", "offset_reset", "commit_stall"}
"""Rules of which one finding is about several partitions, of which a copy may have some."""


def unfolded(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A row of a table; one for each partition of a finding about several. Its member is that of the last of them."""
    if row.get("rule") == "long_transaction":
        # A copy may lack the commits of further topics.
        yield {**row, "topic": None}
        return
    if row.get("rule") not in FOLDED:
        yield row
        return
    # The table has it as text, an answer as an object.
    detail = json.loads(row["detail"]) if isinstance(row["detail"], str) else row["detail"]
    for partition in detail["partitions"]:
        yield {**row, "partition": partition, "member_id": None}


def ask_table(warehouse: Warehouse, name: str, *, is_whole: bool) -> Reply:
    """All rows of a table, those that say that they are not exact marked as open.

    Args:
        warehouse: the warehouse.
        name: the table.
        is_whole: of the whole log: a row is then found by its end as well.
    """
    question = TABLES[name]
    answer = warehouse.sql(question.source or f"SELECT * FROM {name} WHERE cluster = $cluster")
    rows: dict[Key, Told] = {}
    found = [dict(zip(answer.columns, values, strict=True)) for values in answer]
    found = [one for row in found if row.get("rule") not in ABOUT_THE_DUMP for one in unfolded(row)]
    # Of two rows that end at one time one may begin there, too: the other one is found by its end.
    found.sort(key=lambda row: question.begin is not None and row[question.begin] != row[str(question.end)])
    breaks = _breaks(warehouse) if name == "member_timeline" else set()
    goes_on = {question.thing(row, question.begin) for row in found if row.get("is_exact") is False}
    for row in found:
        is_cut = UNKNOWN_END in (row.get("ended_by"), row.get("released_by"))
        is_cut = is_cut or question.thing(row, question.end) in goes_on
        # An exact interval of a member ends where records begin to be missing; that it went on is not on record.
        is_cut = is_cut or (name == "member_timeline" and (row["group_id"], row["valid_to"]) in breaks)
        claimed = [column for column in question.values if not is_cut or column not in _ENDS]
        wanted = {column: _text(row[column]) for column in claimed}
        if not is_whole and row.get("ended_alternatives") and "ended_by" in wanted:
            wanted["ended_by"] = Among([row["ended_by"], *row["ended_alternatives"]])
        if not is_whole and row.get("cause") == _EITHER:
            wanted |= {"cause": Among([_EITHER, *row["alternatives"]]), "confidence": Among(["possible", "likely"])}
        if not is_whole and row.get("is_pause_at_least"):
            wanted["commit_pause_ms"] = AtLeast(row["commit_pause_ms"])
        # What is not there in the whole log was not; in a copy it claims nothing.
        nothing = () if is_whole else (None, UNKNOWN)
        wanted |= {column: _text(row[column]) for column in question.soft if row[column] not in nothing}
        is_open = any(row.get(column) is False for column in ("is_exact", "is_state_exact", "is_proven"))
        is_open = is_open or row.get("confidence") == "unknown" or row.get("cause") == "UNKNOWN"
        is_open = is_open or row.get("event") == "RECORDS_COMPLETE"
        # It was so at some time in between, which no row of the whole log can be found by.
        is_open = is_open or bool(is_cut and row.get("is_begin_open") and not is_whole)
        has_place = question.offset is not None and row[question.offset] is not None
        place = (row["log_partition"], row[str(question.offset)]) if has_place else None
        keys = question.keys(row)
        chosen = keys if is_whole else keys[-1:] if row.get("is_begin_open") else keys[:1]
        for key in chosen:
            if question.begin is not None:
                is_late = bool(row.get("is_begin_open")) and not is_whole
                wanted[question.begin] = UpTo(row[question.begin]) if is_late else row[question.begin]
            is_of_past = name == "rebalances" and bool(row["members_joined"] or row["members_left"])
            rows[key] = Told(wanted, is_open, place, is_of_past)
    return Reply(rows)


def _breaks(warehouse: Warehouse) -> set[Key]:
    """Groups with the times from which on records of them are missing."""
    statement = (
        f"SELECT group_id, log_timestamp FROM group_timeline WHERE cluster = $cluster AND event = '{UNKNOWN_END}'"
    )
    return set(map(tuple, warehouse.sql(statement)))


def ask_saved(warehouse: Warehouse, name: str, *, is_whole: bool) -> Reply:
    """The rows of a saved query, each as a whole: all of them, since other rows may be the first of a copy.

    A row says itself where it may be otherwise; what is said beside all rows does not count.

    Args:
        warehouse: the warehouse.
        name: the query.
        is_whole: of the whole log: what is not there was not.
    """
    query = saved_query(name)
    given = {one.name: one.default and one.read(one.default, warehouse._tables) for one in query.parameters}
    answer = warehouse.sql(_LIMIT.sub("", query.sql), **given)
    rows: dict[Key, Told] = {}
    for values in answer:
        row = dict(zip(answer.columns, values, strict=True))
        if "expired_offsets" in row:
            # What most likely removed an offset rests on the cluster's retention, which a copy may not show.
            row["deleted_offsets"] += row.pop("expired_offsets")
        is_open = any(row.get(name) is False for name in ("is_exact", "is_proven", "is_complete"))
        is_open = is_open or row.get("is_at_least") is True or UNKNOWN in map(_text, values)
        is_open = is_open or row.get("what") in ("no owner on record", "no conversion on record")
        is_open = is_open or row.get("ended_confidence") == "possible" or row.get("ended_by") == UNKNOWN_END
        key = tuple(_text(value) for name, value in row.items() if name not in (*_SOFT, *_REASONS, *_ABOUT_INPUTS))
        claimed = {name: row[name] for name in _SOFT if name in row and (is_whole or row[name] is not None)}
        if "ended_by" in row:
            claimed["ended_by"] = Among([row["ended_by"], *(row.get("ended_alternatives") or ())])
        rows[key] = Told(claimed, is_open)
    return Reply(rows, says_open(answer))


def saved_query_names() -> list[str]:
    """Saved queries that tell of groups; those about runs and records tell of the dump itself."""
    about_dump = {
        "audit-runs",
        "history-completeness",
        "inexact-groups",
        "loading-risks",
        "log-partition-growth",
        "log-partitions",
        "record-kinds",
        "undecoded-records",
        "what-fills-the-topic",
    }
    return sorted(one.name for one in Warehouse.saved_queries() if one.name not in about_dump)


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, (dict, list, tuple)) else value


def groups_of(warehouse: Warehouse) -> dict[str, int]:
    """Every group of the cluster, with its log partition."""
    statement = (
        "SELECT group_id, min(log_partition) FROM (SELECT group_id, log_partition FROM group_records "
        "WHERE cluster = $cluster UNION ALL SELECT group_id, log_partition FROM offset_commits "
        "WHERE cluster = $cluster) GROUP BY 1 ORDER BY 1"
    )
    return dict(warehouse.sql(statement))  # type: ignore[arg-type]  # two columns


def places_of(warehouse: Warehouse, group: str) -> Iterator[tuple[str, int]]:
    """The topic partitions that a group ever owned, by topic name or id."""
    statement = (
        "SELECT DISTINCT coalesce(topic, topic_id), partition FROM partition_ownership "
        "WHERE cluster = $cluster AND group_id = $group ORDER BY 1, 2"
    )
    yield from warehouse.sql(statement, group=group)


def topics_of(warehouse: Warehouse) -> list[str]:
    """The topics of which offsets were committed."""
    statement = "SELECT DISTINCT topic FROM offset_history WHERE cluster = $cluster ORDER BY 1"
    return [str(topic) for (topic,) in warehouse.sql(statement)]
