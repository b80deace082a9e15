"""Additions of a broker's log to recorded rebalances: when they began, and the coordinator's own reasons.

Log lines can be forged, so lines count only if a record agrees with them:

- A rebalance of a classic group ends with a line "Stabilized group" or "is now empty". This line must have the
  generation, the number of members and the time of the rebalance's record. The coordinator's lines between the end of
  the previous rebalance and this line belong to the rebalance. The rebalance begins with the first line "Preparing to
  rebalance" that has the old generation.
- In groups on newer protocols, records show when a rebalance began. A line counts if its time is near this time, and if
  the line names a member that the records name too.

Sources: ``ClassicGroup`` and ``GroupMetadataManager`` of Kafka 3.9 to 4.3, ``GroupCoordinator`` (Scala) of 2.x and 3.x;
KIP-800 for client reasons.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from coordinator_replay.analysis.broker_logs.lines import (
    BEGIN,
    DEPARTURES,
    LONGEST_MS,
    NO_REASON,
    POLL_TIMEOUT,
    SLACK_MS,
    GroupLogLine,
    broker_name,
    cause_of,
    fencing_cause,
    rejoin_cause,
)
from coordinator_replay.analysis.reasons.facts import FACTS, Fact, FactKind, fact_row, fact_rows
from coordinator_replay.analysis.reasons.sentences import sentence, sentences, without_question
from coordinator_replay.analysis.reasons.vocabulary import JOIN_REASONS, Cause, Confidence, JoinReason

Row = Mapping[str, Any]

BY_RECORDS = "by_records"
"""The column that keeps the reason as the records alone give it."""

REASON_COLUMNS = ("cause", "join_reason", "confidence", "evidence", "alternatives", "trigger_members")
"""The columns of a reason, which ``by_records`` keeps."""

LOG_COLUMNS = ("reasons", "client_reasons")
"""Columns that only a broker's log fills."""

_ENDS = frozenset({"STABILIZED", "GROUP_EMPTY"})
_REMOVED: Mapping[str, Cause] = {
    "MEMBER_LEFT": Cause.MEMBER_LEAVE,
    "SESSION_EXPIRED": Cause.SESSION_TIMEOUT,
    "JOIN_EXPIRED": Cause.REBALANCE_TIMEOUT,
    "SYNC_EXPIRED": Cause.REBALANCE_TIMEOUT,
}
_OF_CLASSIC = _ENDS | _REMOVED.keys() | {BEGIN, "ASSIGNMENT_RECEIVED", "NO_MEMBER_REJOINED"}
_OF_MEMBERS = frozenset({"MEMBER_JOINED", "MEMBER_LEFT", "MEMBER_FENCED", "SUBSCRIPTION_CHANGED"})

_OF_LOGS = frozenset({FactKind.LOGGED, FactKind.CONTRADICTED})

EVENTS = _OF_CLASSIC | _OF_MEMBERS
"""Kinds of lines about a rebalance."""

UNSEEN = frozenset({Cause.LEADER_REJOIN, Cause.MEMBER_JOIN, Cause.TOPIC_METADATA_CHANGE})
"""Possible causes that leave no record; a line with the coordinator's reason rules them out."""

_REJOINS = frozenset(
    {Cause.LEADER_REJOIN, Cause.TOPIC_METADATA_CHANGE, Cause.SUBSCRIPTION_CHANGE, Cause.COOPERATIVE_FOLLOW_UP}
)

MOST_LINES = 1_000
"""Largest number of lines that are used for a rebalance. A log can have any number."""

_at_ms = attrgetter("at_ms")


def searched_from_ms(row: Row) -> int:
    """Return the earliest time of lines that may belong to a finished rebalance.

    Args:
        row: a row of table ``rebalances``, times in milliseconds since 1970.
    """
    longest_ms = LONGEST_MS if row["duration_ms_max"] is None else min(row["duration_ms_max"], LONGEST_MS)
    return int(row["completed_at"] - longest_ms - SLACK_MS)


class _Named(NamedTuple):
    """The cause that a line of a broker's log names.

    Attributes:
        alternatives: other possible causes.
        triggers: the trigger members; None to keep the trigger members of the row.
    """

    cause: Cause
    confidence: Confidence
    line: GroupLogLine
    alternatives: Sequence[str] = ()
    triggers: Sequence[str] | None = None


def by_records(row: Row) -> dict[str, Any]:
    """Return a rebalance without the additions of brokers' logs.

    Args:
        row: a row of table ``rebalances``.
    """
    recorded = {**row, **dict.fromkeys((*LOG_COLUMNS, BY_RECORDS))}
    if row["group_type"] == "classic":
        recorded |= {"started_at": None, "duration_ms": None}
    if row.get(BY_RECORDS):
        recorded[FACTS] = _of_records(row.get(FACTS))
    return recorded | dict(row.get(BY_RECORDS) or {})


def with_broker_log(row: Row, lines: Sequence[GroupLogLine]) -> dict[str, Any]:
    """Return a rebalance with the additions of brokers' logs.

    Args:
        row: a row of table ``rebalances``, times in milliseconds since 1970.
        lines: lines about the row's group on its log partition, by time.

    Returns:
        The new row.
    """
    recorded = by_records(row)
    if recorded["group_type"] == "classic":
        return _classic(recorded, lines)
    return _by_members(recorded, lines)


def _classic(row: dict[str, Any], lines: Sequence[GroupLogLine]) -> dict[str, Any]:
    if row["completed_at"] is None:
        return row
    ended_ms = row["completed_at"] if row["began_by"] is None else row["began_by"]
    kind = "STABILIZED" if row["members_after"] else "GROUP_EMPTY"
    ends = [
        (abs(lines[place].at_ms - ended_ms), place)
        for place in _near(lines, ended_ms)
        if lines[place].event == kind and lines[place].epoch == row["epoch"]
    ]
    agreeing = [end for end in ends if lines[end[1]].member_count in (None, row["members_after"])]
    contradicting = [end for end in ends if end not in agreeing]
    if contradicting:
        row = _contradicted(row, lines[min(contradicting)[1]])
    if not agreeing:
        return row
    logged = _back_from(lines, min(agreeing)[1], row, {place for _, place in contradicting})
    if not logged:
        return row
    row |= reasons_of(logged)
    before = row["epoch"] - (row["attempts"] or 1)
    firsts = [line for line in logged if line.event == BEGIN and line.epoch == before]
    if not firsts:
        return row
    first = firsts[0]
    row |= {"started_at": first.at_ms}
    if not row["is_end_open"]:
        row |= {"duration_ms": row["completed_at"] - first.at_ms}
    # A group leaves a generation once, unless its coordinator fails over. If there are two lines, one may be forged.
    return _with_reason(row, _named(row, first, logged) if len(firsts) == 1 else None, first)


def _near(lines: Sequence[GroupLogLine], at_ms: int) -> range:
    """Return the indices of the lines that are so near in time to a record that they may report it."""
    return range(bisect_left(lines, at_ms - SLACK_MS, key=_at_ms), bisect_right(lines, at_ms + SLACK_MS, key=_at_ms))


def _back_from(lines: Sequence[GroupLogLine], end: int, row: Row, contradicting: Collection[int]) -> list[GroupLogLine]:
    """Return the log lines that may say why a rebalance happened, in the order of the log.

    The result has at most ``MOST_LINES`` lines. They lie between the end of the previous rebalance and the end of this
    rebalance.

    Args:
        lines: the log lines about the group.
        end: index of the line about the end of this rebalance.
        row: row of the rebalance.
        contradicting: indices of lines to leave out, because they contradict the records.
    """
    logged: list[GroupLogLine] = []
    before, since_ms = row["epoch"] - (row["attempts"] or 1), searched_from_ms(row)
    for place in range(end - 1, -1, -1):
        line = lines[place]
        if line.event not in _OF_CLASSIC or place in contradicting:
            continue
        is_end = line.event in _ENDS or line.event == "ASSIGNMENT_RECEIVED"
        is_within = line.epoch is None or before <= line.epoch < row["epoch"]
        is_other = not is_within or (is_end and line.epoch == before) or line.event == "GROUP_EMPTY"
        if is_other or line.at_ms < since_ms or len(logged) == MOST_LINES:
            break
        if not is_end:
            logged.append(line)
    return logged[::-1]


def reasons_of(lines: Sequence[GroupLogLine]) -> dict[str, Any]:
    """Return the columns ``LOG_COLUMNS`` of a rebalance, given the lines about the rebalance in order of time."""
    clients = [line.client_reason for line in lines if (line.client_reason or "") not in NO_REASON]
    return {"reasons": [line.words for line in lines if line.event != "SESSION_EXPIRED"], "client_reasons": clients}


def _named(row: Row, first: GroupLogLine, lines: Sequence[GroupLogLine]) -> _Named | None:
    """Return the cause that the coordinator names for a classic rebalance.

    Return None if the coordinator's reason is not known, contradicts the records, or adds nothing to them.
    """
    named = cause_of(first.reason)
    if named is Cause.MEMBER_JOIN:
        return _joined(row, first)
    if named in DEPARTURES:
        removed = [line for line in lines if line is first or _REMOVED.get(line.event) is named]
        left = [
            member_id for member_id in row["members_left"] or () if any(line.names([member_id]) for line in removed)
        ]
        return _left(row, named, first, lines, left)
    return None if named is None else _rejoined(row, first)


def _left(
    row: Row, named: Cause, line: GroupLogLine, lines: Sequence[GroupLogLine], left: Sequence[str]
) -> _Named | None:
    if not left and row["is_exact"]:
        # No record shows the member that the line names.
        return None
    cause, others = Cause(row["cause"]), _others(row, DEPARTURES - {named} | UNSEEN)
    polled_late = (
        _polled_late(row, lines) if cause is Cause.POLL_TIMEOUT_REJOIN and named is Cause.MEMBER_LEAVE else None
    )
    if polled_late is not None:
        sure = Confidence.CERTAIN if row["is_exact"] else Confidence.LIKELY
        return _Named(cause, sure, polled_late, _others(row, DEPARTURES | UNSEEN))
    if cause not in DEPARTURES | _REJOINS | {Cause.MEMBER_JOIN}:
        # If a member left and came back, or the protocol changed, the records show more than the line.
        is_seen = row["is_exact"] and not others
        return _Named(cause, Confidence.CERTAIN if is_seen else Confidence(row["confidence"]), line, others)
    if cause is Cause.MEMBER_JOIN and others:
        return _Named(named, Confidence.LIKELY, line, [str(cause), *others], left)
    return _Named(named, Confidence.CERTAIN if row["is_exact"] else Confidence.LIKELY, line, (), left or None)


def _polled_late(row: Row, lines: Sequence[GroupLogLine]) -> GroupLogLine | None:
    """Return the first line about a member that left because its poll timeout had expired.

    The line counts only if all trigger members of the rebalance left for this reason. Otherwise return None.
    """
    gave = [line for line in lines if line.event == "MEMBER_LEFT" and POLL_TIMEOUT in (line.client_reason or "")]
    triggers = row["trigger_members"] or ()
    is_known = bool(triggers) and all(any(line.names([member_id]) for line in gave) for member_id in triggers)
    return gave[0] if is_known else None


def _others(row: Row, ruled_out: Collection[Cause]) -> list[str]:
    return [alternative for alternative in row["alternatives"] or () if Cause(alternative) not in ruled_out]


def _joined(row: Row, line: GroupLogLine) -> _Named | None:
    if not line.names(row["members_joined"] or ()) or Cause(row["cause"]) in DEPARTURES | _REJOINS:
        return None
    # Other members left while the group was already joining, so they did not begin the rebalance.
    others = _others(row, DEPARTURES | _REJOINS | UNSEEN)
    sure = Confidence.CERTAIN if not others and row["is_exact"] else Confidence(row["confidence"])
    return _Named(Cause(row["cause"]), sure, line, others)


def _rejoined(row: Row, line: GroupLogLine) -> _Named | None:
    """Return the cause of a rebalance that began because a member joined again.

    Only the client knows why, so the client's reason decides. Return None if the line adds nothing to the records.
    """
    client, cause = line.client_reason or "", Cause(row["cause"])
    if cause not in _REJOINS | DEPARTURES or row["confidence"] == Confidence.CERTAIN:
        return None
    named, ruled_out = rejoin_cause(client), DEPARTURES | {Cause.MEMBER_JOIN}
    if client in NO_REASON:
        others = _others(row, ruled_out)
        return None if cause in DEPARTURES else _Named(cause, Confidence(row["confidence"]), line, others)
    if cause is named and row["is_exact"]:
        return _Named(named, Confidence.CERTAIN, line)
    others = [other for other in (str(cause), *_others(row, ruled_out)) if Cause(other) not in DEPARTURES | {named}]
    return _Named(named, Confidence.LIKELY, line, list(dict.fromkeys(others)))


def _by_members(row: dict[str, Any], lines: Sequence[GroupLogLine]) -> dict[str, Any]:
    """Return a rebalance of a group on a newer protocol, with the additions of brokers' logs.

    Such a rebalance begins with the records that trigger it. So a line counts if its time is near the start of the
    rebalance, and if it names a member that joined, left or triggered the rebalance.
    """
    at_ms = row["started_at"]
    members = [*(row["members_joined"] or ()), *(row["members_left"] or ()), *(row["trigger_members"] or ())]
    places = range(0) if at_ms is None else _near(lines, at_ms)
    near = [line for line in map(lines.__getitem__, places) if line.event in _OF_MEMBERS and line.member_id in members]
    if not near:
        return row
    row |= reasons_of(near)
    left = row["trigger_members"] or row["members_left"] or ()
    removals = _removals(near, row["members_left"] or ())
    if Cause(row["cause"]) not in DEPARTURES or not left or any(member_id not in removals for member_id in left):
        return row
    causes = [removals[member_id][0] for member_id in left]
    others = _others(row, DEPARTURES)
    others += [str(fromkey) for fromkey in dict.fromkeys(causes[1:]) if fromkey is not causes[0]]
    sure = Confidence.CERTAIN if row["is_exact"] and not others else Confidence.LIKELY
    line = removals[left[0]][1]
    return _with_reason(row, _Named(causes[0], sure, line, others, list(left)), line)


def _removals(lines: Sequence[GroupLogLine], left: Collection[str]) -> dict[str, tuple[Cause, GroupLogLine]]:
    """Return the cause of each member's removal, and the first log line about this removal.

    Leave out members about whom lines disagree.

    Args:
        lines: lines about the rebalance.
        left: ids of the removed members.
    """
    removals: dict[str, tuple[Cause, GroupLogLine]] = {}
    unclear: set[str] = set()
    for line in lines:
        if line.member_id is None or line.member_id not in left or line.event not in ("MEMBER_LEFT", "MEMBER_FENCED"):
            continue
        cause = fencing_cause(line.reason) if line.event == "MEMBER_FENCED" else Cause.MEMBER_LEAVE
        if removals.setdefault(line.member_id, (cause, line))[0] is not cause:
            unclear.add(line.member_id)
    return {member_id: removal for member_id, removal in removals.items() if member_id not in unclear}


def _with_reason(row: dict[str, Any], named: _Named | None, line: GroupLogLine) -> dict[str, Any]:
    """Return a row with a line of a broker's log added to its evidence, and with the cause that the log names.

    Args:
        row: the row of the rebalance, made from records alone.
        named: the cause that the log names; None if the row's cause stays.
        line: the line about the beginning of the rebalance.
    """
    kept = row[BY_RECORDS] or {name: row[name] for name in REASON_COLUMNS}
    evidence = [without_question(text) if named else text for text in row["evidence"] or ()]
    used = [line] if named is None or named.line is line else [line, named.line]
    logged = [(line_fact(line),) for line in used]
    row |= {BY_RECORDS: kept, "evidence": [*sentences(logged), *evidence]}
    row[FACTS] = [*fact_rows(logged), *_moved(row.get(FACTS), len(logged))]
    if named is None:
        return row
    row |= {
        "cause": str(named.cause),
        "confidence": str(named.confidence),
        "alternatives": [alternative for alternative in named.alternatives if alternative != named.cause],
    }
    if named.cause is not Cause.COOPERATIVE_FOLLOW_UP:
        row["join_reason"] = str(JOIN_REASONS.get(named.cause, JoinReason.UNKNOWN))
    if named.triggers is not None:
        row["trigger_members"] = list(named.triggers)
    return row


def line_sentence(line: GroupLogLine) -> str:
    """Return a line as a sentence of evidence."""
    return sentence((line_fact(line),))


def line_fact(line: GroupLogLine) -> Fact:
    """Return the fact that a broker logged a line."""
    has_reason = (line.client_reason or "") not in NO_REASON and line.event != "MEMBER_LEFT"
    client = f"; client reason: {line.client_reason}" if has_reason else ""
    broker = broker_name(line.broker)
    return Fact(FactKind.LOGGED, at_ms=line.at_ms, old=broker, new=f"{line.words}{client}")


def _contradicted(row: dict[str, Any], line: GroupLogLine) -> dict[str, Any]:
    """Return a row with a line added to its evidence.

    The line contradicts a record of the rebalance. The cause of the rebalance stays as it is.
    """
    kept = {name: row[name] for name in REASON_COLUMNS}
    broker, members = broker_name(line.broker), str(line.member_count)
    said = Fact(FactKind.CONTRADICTED, at_ms=line.at_ms, old=broker, new=members, number=line.epoch)
    evidence = row["evidence"] or []
    facts = [*_moved(row.get(FACTS), 0), fact_row(len(evidence), said)]
    return row | {BY_RECORDS: kept, "evidence": [*evidence, sentence((said,))], FACTS: facts}


def _moved(facts: Sequence[Row] | None, by: int) -> list[Row]:
    """Return stored facts, with ``by`` added to the sentence number of each fact."""
    return [{**fact, "sentence": fact["sentence"] + by} for fact in facts or ()]


def _of_records(facts: Sequence[Row] | None) -> list[Row] | None:
    """Return the stored facts without facts that a broker's log shows.

    The sentence numbers of the remaining facts begin at 0 again. Return None if the row has no facts.
    """
    if facts is None:
        return None
    shown = [fact for fact in facts if fact["kind"] not in _OF_LOGS]
    return _moved(shown, -min((fact["sentence"] for fact in shown), default=0))
