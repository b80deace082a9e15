"""Facts that evidence states. A fact has a kind, members, the positions of the records that show it, and times.

A sentence of evidence is one fact, or several that go together; ``sentences`` has the words of each kind.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from coordinator_replay.analysis.reasons.history import Departed
from coordinator_replay.engine.model import Member

MOST_NAMES = 5
"""Largest number of topics that a fact names; ``number`` counts all of them."""

DEFAULT_SESSION_MS = 45_000
"""Default session timeout of members on the new protocol. Their records don't have the timeout."""


FACTS = "facts"
"""The column of facts; another column has the sentences that state them."""


class FactKind(StrEnum):
    """Kinds of facts that evidence states. ``sentences.FORMS`` has the sentence of each kind."""

    CONVERTED = "CONVERTED"
    TYPE_CHANGED = "TYPE_CHANGED"
    FIRST_GENERATION = "FIRST_GENERATION"
    FIRST_EPOCH = "FIRST_EPOCH"
    FIRST_RECORD = "FIRST_RECORD"
    GROUP_EMPTY = "GROUP_EMPTY"

    JOINED = "JOINED"
    JOINED_AS_WELL = "JOINED_AS_WELL"
    NEW_MEMBER_ID = "NEW_MEMBER_ID"
    REPLACED = "REPLACED"
    CLIENT_STILL_THERE = "CLIENT_STILL_THERE"
    CLIENT_REMOVED_BEFORE = "CLIENT_REMOVED_BEFORE"
    REMOVED_IN_GENERATION = "REMOVED_IN_GENERATION"
    REMOVED_IN_WRITE = "REMOVED_IN_WRITE"
    REMOVED_EARLIER = "REMOVED_EARLIER"
    SAME_MEMBER_ID = "SAME_MEMBER_ID"
    SAME_INSTANCE_ID = "SAME_INSTANCE_ID"
    SAME_CLIENT = "SAME_CLIENT"
    SHARED_CLIENT = "SHARED_CLIENT"
    OTHER_PROTOCOL = "OTHER_PROTOCOL"
    TO_CLASSIC_PROTOCOL = "TO_CLASSIC_PROTOCOL"
    TO_CONSUMER_PROTOCOL = "TO_CONSUMER_PROTOCOL"
    VERSION_CHANGED = "VERSION_CHANGED"
    CLIENT_ASSIGNOR_CHANGED = "CLIENT_ASSIGNOR_CHANGED"
    SILENT_WHEN_REMOVED = "SILENT_WHEN_REMOVED"
    SEEN_BEFORE_REMOVAL = "SEEN_BEFORE_REMOVAL"
    MAY_HAVE_POLLED_LATE = "MAY_HAVE_POLLED_LATE"
    CAME_BACK = "CAME_BACK"
    CLIENT_JOINED_LATER = "CLIENT_JOINED_LATER"
    REMOVED_LATER = "REMOVED_LATER"
    MORE_MEMBERS = "MORE_MEMBERS"

    REMOVED = "REMOVED"
    LAST_SEEN = "LAST_SEEN"
    NEVER_SEEN = "NEVER_SEEN"
    TIMEOUTS = "TIMEOUTS"
    LESS_THAN_TIMEOUTS = "LESS_THAN_TIMEOUTS"
    LESS_THAN_MOST_TIMEOUTS = "LESS_THAN_MOST_TIMEOUTS"
    REMOVED_BY_LEAVE = "REMOVED_BY_LEAVE"
    REMOVED_BY_LEAVE_OF_STATIC = "REMOVED_BY_LEAVE_OF_STATIC"
    LIKELY_LEFT = "LIKELY_LEFT"
    LIKELY_REMOVED_BY_ADMIN = "LIKELY_REMOVED_BY_ADMIN"
    KEPT_PARTITIONS = "KEPT_PARTITIONS"
    STAYED_AWAY = "STAYED_AWAY"
    NO_TIME_TO_JOIN = "NO_TIME_TO_JOIN"
    OTHERS_WAITED = "OTHERS_WAITED"
    COMMITTED = "COMMITTED"
    LESS_THAN_SESSION_TIMEOUT = "LESS_THAN_SESSION_TIMEOUT"
    LESS_THAN_MOST_SESSION_TIMEOUTS = "LESS_THAN_MOST_SESSION_TIMEOUTS"
    REMOVED_AT_ONCE = "REMOVED_AT_ONCE"
    STATIC_SENDS_NO_LEAVE = "STATIC_SENDS_NO_LEAVE"
    FELL_SILENT = "FELL_SILENT"
    CLIENT_JOINED_BEFORE = "CLIENT_JOINED_BEFORE"
    UNDECIDED = "UNDECIDED"

    TOPIC_CREATED = "TOPIC_CREATED"
    TOPIC_DELETED = "TOPIC_DELETED"
    PARTITIONS_ADDED = "PARTITIONS_ADDED"
    BY_THEN = "BY_THEN"
    UNREADABLE_SUBSCRIPTION = "UNREADABLE_SUBSCRIPTION"
    SUBSCRIBED_ANEW = "SUBSCRIBED_ANEW"
    SUBSCRIBED = "SUBSCRIBED"
    UNSUBSCRIBED = "UNSUBSCRIBED"
    REGEX_SUBSCRIBED = "REGEX_SUBSCRIBED"
    REGEX_DROPPED = "REGEX_DROPPED"
    SUBSCRIPTION_CHANGED = "SUBSCRIPTION_CHANGED"
    METADATA_HASHED = "METADATA_HASHED"
    METADATA_HASH_CHANGED = "METADATA_HASH_CHANGED"
    TOPIC_METADATA_CHANGED = "TOPIC_METADATA_CHANGED"
    REGEX_RESOLVED = "REGEX_RESOLVED"
    REGEX_MATCHES = "REGEX_MATCHES"
    REGEX_MATCHES_NO_LONGER = "REGEX_MATCHES_NO_LONGER"
    ASSIGNED_FIRST = "ASSIGNED_FIRST"
    NO_LONGER_ASSIGNED = "NO_LONGER_ASSIGNED"
    PARTITIONS_READY = "PARTITIONS_READY"
    ONLY_EPOCH_CHANGED = "ONLY_EPOCH_CHANGED"
    MEMBER_CHANGED = "MEMBER_CHANGED"
    HANDED_ON = "HANDED_ON"
    TO_BE_HANDED_ON = "TO_BE_HANDED_ON"
    UNCHANGED = "UNCHANGED"
    MEMBERS_UNCHANGED = "MEMBERS_UNCHANGED"
    SAME_MEMBERS = "SAME_MEMBERS"
    OTHER_METADATA = "OTHER_METADATA"
    UNREADABLE_ASSIGNMENT = "UNREADABLE_ASSIGNMENT"
    REASSIGNED = "REASSIGNED"
    GENERATIONS_PASSED = "GENERATIONS_PASSED"
    ASSIGNOR_CHANGED = "ASSIGNOR_CHANGED"
    ASSIGNOR_CHANGED_TOO = "ASSIGNOR_CHANGED_TOO"

    NOTHING_ON_RECORD = "NOTHING_ON_RECORD"
    CHANGE_MISSING = "CHANGE_MISSING"
    STEPS_MISSING = "STEPS_MISSING"
    GENERATIONS_MISSING = "GENERATIONS_MISSING"
    DEPARTURES_MISSING = "DEPARTURES_MISSING"
    CONVERSION_MISSING = "CONVERSION_MISSING"
    NO_ASSIGNMENT = "NO_ASSIGNMENT"
    KNOWN_FAULT = "KNOWN_FAULT"

    LOGGED = "LOGGED"
    CONTRADICTED = "CONTRADICTED"


class Place(NamedTuple):
    """The position of a record of ``__consumer_offsets``."""

    partition: int
    offset: int


class Client(NamedTuple):
    """The identity of a member's client, as sentences name it.

    Attributes:
        client_id: client.id of the client.
        host: address of the client.
        instance_id: group.instance.id of the client.
        is_classic: whether the client uses the classic protocol.
    """

    client_id: str | None
    host: str | None
    instance_id: str | None
    is_classic: bool


class Timeouts(NamedTuple):
    """The timeouts that count for a member, as far as they are on record.

    Attributes:
        session_ms: session timeout in the member's record; None if the record has none.
        has_rebalance: whether a rebalance timeout can remove the member.
        rebalance_ms: rebalance timeout as it is on record, so it may be -1; None if it is not on record.
        is_largest: whether ``rebalance_ms`` is the largest of all members of a classic group.
    """

    session_ms: int | None
    has_rebalance: bool
    rebalance_ms: int | None
    is_largest: bool


class Fact(NamedTuple):
    """A fact that a sentence of evidence states.

    Attributes:
        kind: kind of the fact, which determines the meaning of the other fields.
        members: ids of the members that the fact is about.
        client: the client of the first of these members.
        others: ids of other members that the fact names, such as earlier ids of ``members``.
        place: the record that shows the fact.
        since: an earlier record, from which ``elapsed_ms`` counts.
        elapsed_ms: a duration; None if records have no times.
        timeouts: timeouts with which the duration is compared.
        limit_ms: another limit with which the duration is compared.
        names: topics, or partitions by topic; at most MOST_NAMES names.
        number: a count, or another number that facts of this kind have.
        old: the value before the change.
        new: the value after the change.
        at_ms: a time that the fact names.
        causes: the possible causes, if the fact leaves the cause open.
    """

    kind: FactKind
    members: tuple[str, ...] = ()
    client: Client | None = None
    place: Place | None = None
    since: Place | None = None
    elapsed_ms: int | None = None
    others: tuple[str, ...] = ()
    timeouts: Timeouts | None = None
    limit_ms: int | None = None
    names: tuple[str, ...] = ()
    number: int | None = None
    old: str | None = None
    new: str | None = None
    at_ms: int | None = None
    causes: tuple[str, ...] = ()


Sentence = tuple[Fact, ...]
"""Facts that one sentence of evidence states."""

Evidence = Sequence[Sentence]


def about(kind: FactKind, member: Member | Departed, **fields: Any) -> Fact:
    """Return a fact about a member."""
    identity = member if isinstance(member, Departed) else member.subscription_or_empty
    client = Client(identity.client_id, identity.client_host, identity.instance_id, identity.uses_classic_protocol)
    return Fact(kind, (member.member_id,), client, **fields)


def named(kind: FactKind, names: Sequence[str], **fields: Any) -> Fact:
    """Return a fact about topics or partitions, with at most MOST_NAMES of their names."""
    return Fact(kind, names=tuple(names[:MOST_NAMES]), number=len(names), **fields)


def fact_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """Return the facts of evidence in the form of rows. Leave out UNDECIDED facts."""
    return [
        fact_row(number, fact)
        for number, sentence in enumerate(evidence)
        for fact in sentence
        if fact.kind is not FactKind.UNDECIDED
    ]


def fact_row(number: int, fact: Fact) -> dict[str, Any]:
    """Return a fact in the form of rows, with the number of its sentence."""
    place = fact.place or fact.since
    timeouts = fact.timeouts
    return {
        "sentence": number,
        "kind": str(fact.kind),
        "members": list(fact.members),
        "others": list(fact.others),
        "log_partition": None if place is None else place.partition,
        "log_offset": None if fact.place is None else fact.place.offset,
        "since_offset": None if fact.since is None else fact.since.offset,
        "elapsed_ms": fact.elapsed_ms,
        "session_timeout_ms": None if timeouts is None else timeouts.session_ms,
        "rebalance_timeout_ms": None if timeouts is None else timeouts.rebalance_ms,
        "limit_ms": fact.limit_ms,
        "names": list(fact.names),
        "count": fact.number,
        "old": fact.old,
        "new": fact.new,
        "at_ms": fact.at_ms,
    }
