"""Words for the details of timeline events (``words_of``), in the terms of Kafka's own tools and logs."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from coordinator_replay.analysis.coordinator_changes import NO_LEADER
from coordinator_replay.listing import counted, listed, partition_ranges
from coordinator_replay.query import offset_events
from coordinator_replay.query.removed import GROUP_MOVED, RECORDS_MISSING

Detail = Mapping[str, Any]

_MOST_NAMES = 4
_listed = partial(listed, most=_MOST_NAMES)


def _assignment(entries: Iterable[Mapping[str, Any]] | None) -> str:
    """Return an assignment as ``orders:0-2; audit:1``, or ``nothing``."""
    topics = [
        f"{entry.get('topic') or entry.get('topic_id') or 'subtopology ' + str(entry.get('subtopology'))}:"
        f"{partition_ranges(entry['partitions'])}"
        for entry in entries or ()
    ]
    return "; ".join(topics) or "nothing"


def _partition_count(assignments: Mapping[str, Any]) -> int:
    return sum(len(entry["partitions"]) for entries in assignments.values() for entry in entries or ())


def _pair(detail: Detail, name: str) -> tuple[Any, Any]:
    """Return the old and the new value of a field of an event's detail.

    If the field has a single value, the old value is None. If the event lacks the field, both are None.
    """
    value = detail.get(name)
    if isinstance(value, list) and len(value) == 2:
        return value[0], value[1]
    return None, value


def _changed(detail: Detail, name: str, what: str) -> str:
    before, now = _pair(detail, name)
    if now is None:
        return f"no {what} (before: {before})" if before is not None else ""
    return f"{what} {now}" if before in (None, now) else f"{what} {now} (before: {before})"


def _joined(detail: Detail) -> list[str]:
    host = str(detail.get("client_host") or "").lstrip("/")
    parts = [f"client {detail.get('client_id') or '?'}{f' on {host}' if host else ''}"]
    if detail.get("instance_id"):
        parts.append(f"group.instance.id {detail['instance_id']}")
    if detail.get("topics"):
        parts.append(f"subscribed to {_listed(detail['topics'])}")
    if detail.get("regex"):
        parts.append(f"subscribed to regex {detail['regex']!r}")
    if detail.get("assignor"):
        parts.append(f"assignor {detail['assignor']}")
    if detail.get("session_timeout_ms"):
        parts.append(f"session.timeout.ms {detail['session_timeout_ms']}")
    if detail.get("rebalance_timeout_ms") is not None:
        parts.append(f"max.poll.interval.ms {detail['rebalance_timeout_ms']}")
    return parts


def _left(detail: Detail) -> list[str]:
    # LeaveGroup, a timeout and a removal by an admin give the same event. Only a broker's log tells which it was.
    return [detail.get("departure") or "left or was removed", f"owned {_assignment(detail.get('assigned'))}"]


def _reconciled(detail: Detail) -> list[str]:
    before, now = _pair(detail, "assigned")
    parts = [f"owns {_assignment(now)}" if now != before else f"still owns {_assignment(now)}"]
    _, pending = _pair(detail, "pending_revocation")
    if pending:
        parts.append(f"to revoke {_assignment(pending)}")
    _, state = _pair(detail, "member_state")
    if state and state != "STABLE":
        parts.append(str(state))
    return [*parts, _changed(detail, "member_epoch", "member epoch")]


def _away(detail: Detail) -> list[str]:
    _, assigned = _pair(detail, "assigned")
    return ["static member left temporarily (member epoch -2)", f"keeps {_assignment(assigned)}"]


def _replaced(detail: Detail) -> list[str]:
    before, now = _pair(detail, "member_ids")
    return [f"member id {now} in place of {before}"]


def _completed(detail: Detail) -> list[str]:
    parts = [_changed(detail, "epoch", "generation")]
    if detail.get("protocol"):
        parts.append(f"protocol {detail['protocol']}")
    assigned = detail.get("assigned")
    if assigned is not None:
        parts.append(f"{counted(_partition_count(assigned), 'partition')} to {counted(len(assigned), 'member')}")
    if detail.get("leader"):
        parts.append(f"leader {detail['leader']}")
    return parts


def _started(detail: Detail) -> list[str]:
    before, now = _pair(detail, "metadata_hash")
    changed = "topic metadata changed" if before not in (None, 0) and now not in (None, 0) and before != now else ""
    return [_changed(detail, "epoch", "epoch"), changed]


def _target(detail: Detail) -> list[str]:
    targets = detail.get("targets") or {}
    shown = "; ".join(f"{member}: {_assignment(entries)}" for member, entries in list(targets.items())[:_MOST_NAMES])
    more = f"; and {counted(len(targets) - _MOST_NAMES, 'more member')}" if len(targets) > _MOST_NAMES else ""
    return [f"{shown}{more}", _changed(detail, "assignment_epoch", "assignment epoch")]


def _topics(detail: Detail) -> list[str]:
    before, now = _pair(detail, "topics")
    if (before is None) != (now is None):
        # One of the two subscriptions of a classic member can't be read.
        return ["subscription can't be read"] if now is None else [f"subscribed to {_listed(now)}"]
    added, removed = sorted(set(now or ()) - set(before or ())), sorted(set(before or ()) - set(now or ()))
    parts = [f"subscribed to {_listed(added)} as well"] if added else []
    return parts + ([f"no longer subscribed to {_listed(removed)}"] if removed else [])


def _regex(detail: Detail) -> list[str]:
    before, now = _pair(detail, "topics")
    if now is None:
        return [f"regex {detail['regex']!r} is no longer used"]
    added, removed = sorted(set(now) - set(before or ())), sorted(set(before or ()) - set(now))
    if before is None:
        return [f"regex {detail['regex']!r} matches {_listed(now) or 'no topic'}"]
    parts = [f"regex {detail['regex']!r} now also matches {_listed(added)}"] if added else []
    parts += [f"regex {detail['regex']!r} no longer matches {_listed(removed)}"] if removed else []
    return parts or [f"regex {detail['regex']!r} still matches {_listed(now) or 'no topic'}"]


def _topic_metadata(detail: Detail) -> list[str]:
    before, now = _pair(detail, "topics")
    left = {entry.get("topic") or entry.get("topic_id"): entry["partitions"] for entry in before or ()}
    parts = []
    for entry in now or ():
        name = entry.get("topic") or entry.get("topic_id")
        old = left.pop(name, None)
        if old is None:
            parts.append(f"{name} with {counted(entry['partitions'], 'partition')}")
        elif old != entry["partitions"]:
            parts.append(f"partitions of {name} increased from {old} to {entry['partitions']}")
    return parts + [f"{name} removed" for name in left]


def _protocols(detail: Detail) -> list[str]:
    before, now = _pair(detail, "protocols")
    names = [", ".join(topic["name"] for topic in side or ()) or "none" for side in (now, before)]
    return [f"protocols {names[0]} (before: {names[1]})"]


def _converted(detail: Detail) -> list[str]:
    """Return texts that say that a group got another type, for example from classic to consumer.

    If the records don't show whether the group was converted, or deleted and created again, a second text says so.
    """
    # If the group had no members, the records of these two cases are the same.
    is_same = bool(detail.get("assigned")) or bool(detail.get("has_no_tombstone"))
    doubt = "" if is_same else "or deleted and created again within the millisecond"
    return [_changed(detail, "group_type", "group type"), doubt]


def _leader(detail: Detail) -> list[str]:
    return [_changed(detail, "leader", "leader")]


def _assignor(detail: Detail) -> list[str]:
    return [_changed(detail, "protocol" if "protocol" in detail else "assignor", "assignor")]


def _topology(detail: Detail) -> list[str]:
    sources = sorted({topic for names in (detail.get("source_topics") or {}).values() for topic in names})
    named = f"source topics {_listed(sources)}" if sources else ""
    return [_changed(detail, "topology_epoch", "topology epoch"), named]


def _share_state(detail: Detail) -> list[str]:
    parts = []
    for name, what in (("initializing", "initializing"), ("initialized", "initialized"), ("deleting", "deleting")):
        entries = [
            {
                "topic": topic_.get("topicName"),
                "topic_id": topic_.get("topicId"),
                "partitions": topic_.get("partitions") or [],
            }
            for topic_ in detail.get(f"{name}Topics") or ()
        ]
        if entries:
            parts.append(f"{what} {_assignment(entries)}")
    return parts


def _records_missing(detail: Detail) -> list[str]:
    return ["records are missing from here on: what happened to the group is not on record", *_plain(detail)]


def _records_complete(detail: Detail) -> list[str]:
    return ["from here on all records are there", *_plain(detail)]


def _moved(detail: Detail) -> list[str]:
    return [f"from here on its records in log partition {detail['to_log_partition']} count"]


def _of_partitions(detail: Detail) -> str:
    return f"{detail['topic']}:{partition_ranges(detail['partitions'])}"


def _times(detail: Detail) -> str:
    return f"{counted(detail['times'], 'commit')}" if detail["times"] > len(detail["partitions"]) else ""


def _range(detail: Detail) -> str:
    low, high = detail["lowest"], detail["highest"]
    if low is None:
        return counted(len(detail["partitions"]), "offset")
    return f"offset {low}" if low == high else f"offsets {low} to {high}"


def _first_commit(detail: Detail) -> list[str]:
    return [f"{_of_partitions(detail)} {_range(detail)}", _times(detail)]


def _rewound(detail: Detail) -> list[str]:
    far = f"furthest back by {detail['furthest_back']:,}" if detail.get("furthest_back") else ""
    return [f"{_of_partitions(detail)} to {_range(detail)}", far, _times(detail)]


def _position_lost(detail: Detail) -> list[str]:
    return [f"{_of_partitions(detail)} set to {_range(detail)}: negative means no offset", _times(detail)]


def _other_topic(detail: Detail) -> list[str]:
    what = "the topic was created again (another topic id), not compared with offsets before"
    return [f"{_of_partitions(detail)} {_range(detail)}", what]


_REMOVED: Mapping[str, str] = {
    "DELETED": "DeleteOffsets or topic deleted",
    "GROUP_DELETED": "deleted with the group",
    "TOMBSTONE": "the log does not say why",
    RECORDS_MISSING: "in force until then at least; what ended it is not on record",
    GROUP_MOVED: "the group moved to another log partition",
    offset_events.UNREADABLE: "committed, but the record can't be read",
}


def _ended(detail: Detail) -> list[str]:
    how = "deleted with its topic" if detail.get("is_topic_deleted") else _REMOVED.get(detail["cause"], "")
    has_cause = detail["cause"] not in ("TOMBSTONE", RECORDS_MISSING, GROUP_MOVED)
    sure = f" ({detail['confidence']})" if detail["confidence"] and has_cause else ""
    of = f"{_of_partitions(detail)} {_range(detail)}"
    return [of, f"{how}{sure}"] if how else [f"{of}{sure}"]


def _coordinator(detail: Detail) -> list[str]:
    broker, before = detail.get("broker"), detail.get("broker_before")
    to = "no leader" if broker == NO_LEADER else "" if broker is None else f"broker {broker}"
    if detail.get("is_given_up"):
        to = "no new leader on record"
    loading = detail.get("loading_ms")
    return [
        f"leader epoch {detail['leader_epoch']}",
        f"{to} (before: {before})" if to and before is not None else to,
        "unclean election" if detail.get("is_unclean") else "",
        "" if loading is None else f"loaded in {loading:,} ms",
    ]


def _refused(detail: Detail) -> list[str]:
    instance, member = detail.get("instance_id"), detail.get("member_id")
    return [
        f"group.instance.id {instance}" if instance else "",
        f"member {member} was refused" if member else "a member was refused",
        f"log of broker {detail['broker']}" if "broker" in detail else "",
        "no record shows it",
    ]


def _contradicted(detail: Detail) -> list[str]:
    members, recorded = detail.get("member_count"), detail.get("members_by_record")
    return [
        f"{'generation' if detail.get('log_partition') is None else 'leader epoch'} {detail.get('epoch')}",
        "" if members is None else counted(members, "member"),
        "" if recorded is None else f"{recorded:,} by the record",
        f"log of broker {detail['broker']}" if "broker" in detail else "",
        f"not used: {detail.get('note')}",
    ]


def _pending(detail: Detail) -> list[str]:
    ended = [f"{detail[what]:,} {what}" for what in ("committed", "aborted") if detail[what]]
    if detail["longest_ms"] is not None:
        ended.append(f"longest {detail['longest_ms'] / 1000:.1f} s")
    if detail["open"]:
        ended.append(f"{detail['open']:,} still open at the end of the log")
        ended.append(f"producer id {_listed(detail['producer_ids'])}")
    return [f"{_of_partitions(detail)} {counted(detail['times'], 'transactional commit')}", *ended]


_WORDS: Mapping[str, Callable[[Detail], list[str]]] = {
    "GROUP_CONVERTED": _converted,
    "GROUP_EMPTIED": _started,
    "MEMBER_JOINED": _joined,
    "MEMBER_REJOINED": _joined,
    "MEMBER_LEFT": _left,
    "MEMBER_AWAY": _away,
    "MEMBER_REPLACED": _replaced,
    "MEMBER_RECONCILING": _reconciled,
    "MEMBER_RECONCILED": _reconciled,
    "SUBSCRIPTION_CHANGED": _topics,
    "METADATA_CHANGED": _protocols,
    "LEADER_CHANGED": _leader,
    "PROTOCOL_CHANGED": _assignor,
    "REGEX_RESOLVED": _regex,
    "REGEX_REMOVED": _regex,
    "TOPOLOGY_CHANGED": _topology,
    "TOPIC_METADATA_CHANGED": _topic_metadata,
    "SHARE_STATE_CHANGED": _share_state,
    "REBALANCE_STARTED": _started,
    "REBALANCE_COMPLETED": _completed,
    "EPOCH_CHANGED": _started,
    "TARGET_ASSIGNED": _target,
    "RECORDS_MISSING": _records_missing,
    "RECORDS_COMPLETE": _records_complete,
    "GROUP_MOVED": _moved,
    "COORDINATOR_CHANGED": _coordinator,
    "INSTANCE_ID_FENCED": _refused,
    "INSTANCE_ID_UNRELEASED": _refused,
    "BROKER_LOG_CONTRADICTED": _contradicted,
    offset_events.FIRST_COMMIT: _first_commit,
    offset_events.FIRST_ON_RECORD: _first_commit,
    offset_events.REWIND: _rewound,
    offset_events.RESET: _rewound,
    offset_events.PENDING: _pending,
    offset_events.LOST: _position_lost,
    offset_events.OTHER_TOPIC: _other_topic,
    **dict.fromkeys(offset_events.ENDED.values(), _ended),
}


def _plain(detail: Detail) -> list[str]:
    """Return texts such as ``member id: a``, one for each field of an event's detail that has a value."""
    return [f"{name.replace('_', ' ')}: {value}" for name, value in detail.items() if value not in (None, [], {})]


def words_of(event: str, detail: Any) -> str | None:
    """Return an event's detail in words; None if the detail adds nothing to the event's name.

    >>> words_of("LEADER_CHANGED", {"leader": ["a", "b"]})
    'leader b (before: a)'
    """
    if not isinstance(detail, Mapping):
        return None if detail is None else str(detail)
    try:
        parts = _WORDS.get(event, _plain)(detail)
    except (KeyError, TypeError, ValueError, AttributeError):
        # The detail comes from an older release, so it is shown unchanged.
        parts = _plain(detail)
    return ", ".join(part for part in parts if part) or None
