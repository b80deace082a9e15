"""The words of evidence: each sentence is made from the facts that it states."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from coordinator_replay.analysis.broker_faults import FAULTS, KAFKA_8653
from coordinator_replay.analysis.reasons.facts import (
    DEFAULT_SESSION_MS,
    Client,
    Evidence,
    Fact,
    FactKind,
    Place,
    Sentence,
)
from coordinator_replay.analysis.reasons.vocabulary import Cause
from coordinator_replay.engine.model import AWAY_EPOCH, UNKNOWN_TIMEOUT
from coordinator_replay.listing import counted, listed
from coordinator_replay.times import time_text

MOST_IDS = 3
"""Largest number of ids in a sentence about several members."""

_STATIC = "since static members (group.instance.id) don't send LeaveGroup on close unless CloseOptions ask for it"

FORMS: Mapping[FactKind, str] = {
    FactKind.CONVERTED: "converted from a {old} to a {new} group {at}",
    FactKind.TYPE_CHANGED: "was a {old} group and is a {new} one {at}; no tombstone of the {old} group is on record",
    FactKind.FIRST_GENERATION: "generation {number} is the first of the group {at}",
    FactKind.FIRST_EPOCH: "epoch {number} is the first of the group {at}",
    FactKind.FIRST_RECORD: "the group's first record after those that are missing {at}",
    FactKind.GROUP_EMPTY: "the group is Empty",
    FactKind.JOINED: "{who} joined {at}",
    FactKind.JOINED_AS_WELL: "{who} joined as well {at}",
    FactKind.NEW_MEMBER_ID: "static {who} joined under a new member id",
    FactKind.REPLACED: "static {who} replaced {others} {at}",
    FactKind.CLIENT_STILL_THERE: "; {others} has the same client.id and host and is still in the group",
    FactKind.CLIENT_REMOVED_BEFORE: "; {others}, with the same client.id and host, was removed {ago} earlier {since}",
    FactKind.REMOVED_IN_GENERATION: ", and {others} was removed in the same generation",
    FactKind.REMOVED_IN_WRITE: ", and {others} was removed in the same write",
    FactKind.REMOVED_EARLIER: ", {ago} after {others} was removed {since}",
    FactKind.SAME_MEMBER_ID: ": same member id",
    FactKind.SAME_INSTANCE_ID: ": same group.instance.id",
    FactKind.SAME_CLIENT: ": same client.id and host",
    FactKind.SHARED_CLIENT: (
        "several members have this client.id and host: which of them was restarted is not certain"
    ),
    FactKind.OTHER_PROTOCOL: "; now on another protocol",
    FactKind.TO_CLASSIC_PROTOCOL: "; downgraded to the classic protocol",
    FactKind.TO_CONSUMER_PROTOCOL: "; now on the consumer protocol",
    FactKind.VERSION_CHANGED: "; its subscription's version changed from {old} to {new}",
    FactKind.CLIENT_ASSIGNOR_CHANGED: "; its assignor changed from {old} to {new}",
    FactKind.SILENT_WHEN_REMOVED: (
        "; the last record showing it alive was {ago} old when it was removed (max.poll.interval.ms {limit})"
    ),
    FactKind.SEEN_BEFORE_REMOVAL: "{who} was last shown alive {ago} before it was removed",
    FactKind.MAY_HAVE_POLLED_LATE: ": it may have exceeded max.poll.interval.ms ({limit})",
    FactKind.CAME_BACK: "it came back {ago} later {at}",
    FactKind.CLIENT_JOINED_LATER: "a client with its client.id and host came {ago} later {at}",
    FactKind.REMOVED_LATER: "{ids} was still in the group then, and was removed {at}",
    FactKind.MORE_MEMBERS: "and {more_members}: members_joined and members_left name all of them",
    FactKind.REMOVED: "{who} was removed from the group {at}",
    FactKind.LAST_SEEN: "last record showing it alive: {ago} earlier {since}",
    FactKind.NEVER_SEEN: "no record shows when it was last alive",
    FactKind.TIMEOUTS: "; {timeouts}",
    FactKind.LESS_THAN_TIMEOUTS: "; its timeouts are longer: {timeouts}",
    FactKind.LESS_THAN_MOST_TIMEOUTS: "; most session timeouts are longer, but {timeouts}",
    FactKind.REMOVED_BY_LEAVE: ". A LeaveGroup of the member or of an admin removed it",
    FactKind.REMOVED_BY_LEAVE_OF_STATIC: f". LeaveGroup removed it, most likely an admin's, {_STATIC}",
    FactKind.LIKELY_LEFT: ". It is likely that the member left",
    FactKind.LIKELY_REMOVED_BY_ADMIN: f". It is likely that an admin removed it, {_STATIC}",
    FactKind.KEPT_PARTITIONS: (
        "it had not revoked its partitions since {moment}, for its rebalance timeout (max.poll.interval.ms {limit})"
    ),
    FactKind.STAYED_AWAY: (
        f"static member left temporarily (member epoch {AWAY_EPOCH}) {{ago}} earlier {{since}} and did not come back "
        "within its session timeout"
    ),
    FactKind.NO_TIME_TO_JOIN: "members had no time to join again ({rebalance_timeout})",
    FactKind.OTHERS_WAITED: (
        "no other partition of the group was committed in the last {ago} {since}, as if their owners waited for it to "
        "join again: {rebalance_timeout}"
    ),
    FactKind.COMMITTED: "one of its partitions was committed {ago} earlier {since} ({timeouts})",
    FactKind.LESS_THAN_SESSION_TIMEOUT: ", less than its session timeout",
    FactKind.LESS_THAN_MOST_SESSION_TIMEOUTS: ", too soon for most session timeouts",
    FactKind.REMOVED_AT_ONCE: (
        "{number} members were removed at once: a timeout removes one, LeaveGroup can remove many"
    ),
    FactKind.STATIC_SENDS_NO_LEAVE: "static members (group.instance.id) don't send LeaveGroup on close ({timeouts})",
    FactKind.FELL_SILENT: (
        "its partitions were last committed {ago} earlier {since}, while other partitions of the group were {at}; "
        "{timeouts}"
    ),
    FactKind.CLIENT_JOINED_BEFORE: (
        "a client with its client.id and host had come {ago} earlier as {others} {since}, and no record since shows "
        "the removed member alive ({timeouts}): a client that is closed sends LeaveGroup before it joins again"
    ),
    FactKind.UNDECIDED: ". {causes}: the log doesn't show which",
    FactKind.TOPIC_CREATED: "topic {name} was created with {partitions}",
    FactKind.TOPIC_DELETED: "topic {name} was deleted",
    FactKind.PARTITIONS_ADDED: "partitions of {name} increased{from_old} to {number}",
    FactKind.BY_THEN: " by then",
    FactKind.UNREADABLE_SUBSCRIPTION: "{who} sent a subscription that can't be read {at}",
    FactKind.SUBSCRIBED_ANEW: "{who} subscribed to {names}, after a subscription that can't be read {at}",
    FactKind.SUBSCRIBED: "subscribed to {names} as well",
    FactKind.UNSUBSCRIBED: "unsubscribed from {names}",
    FactKind.REGEX_SUBSCRIBED: "subscribed to regex {new!r}",
    FactKind.REGEX_DROPPED: "dropped its regex",
    FactKind.SUBSCRIPTION_CHANGED: "changed its subscription",
    FactKind.METADATA_HASHED: "the topic metadata of brokers before 4.1 was replaced by a metadata hash {at}",
    FactKind.METADATA_HASH_CHANGED: "the metadata hash changed, membership did not {at}",
    FactKind.TOPIC_METADATA_CHANGED: "topic metadata changed, membership did not {at}",
    FactKind.REGEX_RESOLVED: "regex {new!r} was resolved {at}: it matches {names}",
    FactKind.REGEX_MATCHES: "now also matches {names}",
    FactKind.REGEX_MATCHES_NO_LONGER: "no longer matches {names}",
    FactKind.ASSIGNED_FIRST: "{name} assigned for the first time {at}",
    FactKind.NO_LONGER_ASSIGNED: "no partition of {name} is assigned any more {at}",
    FactKind.PARTITIONS_READY: "partitions were initialised {at}; members and topics did not change",
    FactKind.ONLY_EPOCH_CHANGED: "a new epoch, and neither members nor topics changed {at}",
    FactKind.MEMBER_CHANGED: "{who} changed {at}",
    FactKind.HANDED_ON: "revoked in the generation before and assigned {at}: {names}",
    FactKind.TO_BE_HANDED_ON: "revoked in this generation, so that another one follows: {names}",
    FactKind.UNCHANGED: "members, topics, assignor and assignment are those of the generation before {at}",
    FactKind.MEMBERS_UNCHANGED: "members, topics and assignor are those of the generation before {at}",
    FactKind.SAME_MEMBERS: "members and assignor are those of the generation before {at}",
    FactKind.OTHER_METADATA: "; {who} sent other metadata than before, which can't be read",
    FactKind.UNREADABLE_ASSIGNMENT: "; an assignment can't be read",
    FactKind.REASSIGNED: ", the assignment is not: {new}",
    FactKind.GENERATIONS_PASSED: ", after {number} generations: a member may have joined and left",
    FactKind.ASSIGNOR_CHANGED: "the assignor changed from {old} to {new} {at}",
    FactKind.ASSIGNOR_CHANGED_TOO: "the assignor changed, too: from {old} to {new} {at}",
    FactKind.NOTHING_ON_RECORD: "no record around this epoch shows why {at}",
    FactKind.CHANGE_MISSING: "records of the group around it are missing: what changed is not on record {at}",
    FactKind.STEPS_MISSING: "records may be missing in between: several rebalances may show as this one",
    FactKind.GENERATIONS_MISSING: "the log has no record of {generations} before this one",
    FactKind.DEPARTURES_MISSING: (
        "members that left before the group's first proven record are not on record: a member that joined may be back"
    ),
    FactKind.CONVERSION_MISSING: (
        "records before the last generation are missing: it may have been written by a downgrade of the group"
    ),
    FactKind.NO_ASSIGNMENT: (
        "{who} has an assignment of 0 bytes {at}: the leader's SyncGroup named no assignment for this member id"
    ),
    FactKind.KNOWN_FAULT: "{fault}",
    FactKind.LOGGED: "log of {old} at {moment}: {new}",
    FactKind.CONTRADICTED: (
        "log of {old} at {moment} contradicts the record, and is not used: generation {number} with {new} members"
    ),
}
"""Words of each kind of fact. Words that begin with a punctuation mark continue the fact before."""

_OF_SUBSCRIPTIONS = frozenset(
    {
        FactKind.SUBSCRIBED,
        FactKind.UNSUBSCRIBED,
        FactKind.REGEX_SUBSCRIBED,
        FactKind.REGEX_DROPPED,
        FactKind.SUBSCRIPTION_CHANGED,
    }
)
_OF_REGEXES = frozenset({FactKind.REGEX_MATCHES, FactKind.REGEX_MATCHES_NO_LONGER})

_UNDECIDED = FORMS[FactKind.UNDECIDED].rpartition("}")[2]
_OPTIONS = {
    Cause.MEMBER_LEAVE: "LeaveGroup",
    Cause.SESSION_TIMEOUT: "session timeout",
    Cause.REBALANCE_TIMEOUT: "rebalance timeout",
}


def sentences(evidence: Evidence) -> list[str]:
    """Return the sentences of evidence."""
    return list(map(sentence, evidence))


def sentence(facts: Sentence) -> str:
    """Return the sentence that states some facts.

    >>> sentence((Fact(FactKind.REMOVED_AT_ONCE, number=3),))
    '3 members were removed at once: a timeout removes one, LeaveGroup can remove many'
    """
    first = facts[0]
    if first.kind in _OF_SUBSCRIPTIONS or first.kind in _OF_REGEXES:
        subject = _who(first) if first.kind in _OF_SUBSCRIPTIONS else f"regex {first.new!r}"
        return f"{subject} {' and '.join(map(_words, facts))} {_at(first.place)}"
    return "".join(map(_words, facts))


def without_question(text: str) -> str:
    """Return a sentence of a stored row without its open question.

    >>> without_question("it was silent. LeaveGroup or session timeout: the log doesn't show which")
    'it was silent'
    """
    return text.rpartition(". ")[0] if text.endswith(_UNDECIDED) else text


def lasting(milliseconds: int | None) -> str:
    """Return a duration in words.

    A negative duration, from a clock that went back, is 0 ms.

    >>> [lasting(ms) for ms in (850, 4500, 300000, -1, None)]
    ['850 ms', '4.5 s', '300 s', '0 ms', 'an unknown time']
    """
    if milliseconds is None:
        return "an unknown time"
    if milliseconds < 1000:
        return f"{max(milliseconds, 0)} ms"
    return f"{milliseconds / 1000:.1f}".removesuffix(".0") + " s"


def _words(fact: Fact) -> str:
    words = FORMS[fact.kind]
    if len(fact.members) > 1:
        words = words.replace("{who} was ", "{who} were ").replace("{who} has ", "{who} have ")
    if len(fact.others) > 1:
        words = words.replace("{others} was ", "{others} were ")
    return words.format_map(_Values(fact))


class _Values(dict[str, object]):
    """Values of a fact, by the placeholders in FORMS."""

    def __init__(self, fact: Fact) -> None:
        self._fact = fact

    def __missing__(self, name: str) -> object:
        return _VALUES[name](self._fact)


def _who(fact: Fact) -> str:
    """Return the members of a fact as a sentence names them.

    The client id of a static member on the classic protocol is introduced by the words "first joined as client". A
    classic group keeps the client id and host of the first process that used the instance id, even if another process
    uses the instance id now.
    """
    client = fact.client or Client(None, None, None, False)
    where = " on ".join(filter(None, (client.client_id, (client.host or "").lstrip("/"))))
    if len(fact.members) != 1:
        return f"{counted(len(fact.members), 'member')} of client {where} ({listed(fact.members, MOST_IDS)})"
    [member_id] = fact.members
    if client.instance_id is None:
        return f"member {member_id} (client {where})" if where else f"member {member_id}"
    word = "first joined as client" if client.is_classic else "client"
    return f"member {member_id} (instance {client.instance_id}{f', {word} {where}' if where else ''})"


def _others(fact: Fact) -> str:
    return fact.others[0] if len(fact.others) == 1 else f"{len(fact.others):,} others"


def _at(place: Place | None) -> str:
    return "" if place is None else f"(__consumer_offsets-{place.partition}, offset {place.offset})"


def _names(fact: Fact) -> str:
    shown, left_out = ", ".join(fact.names), (fact.number or 0) - len(fact.names)
    return f"{shown} and {left_out:,} more" if left_out > 0 else shown


def _timeouts(fact: Fact) -> str:
    """Return a member's timeouts as text.

    Session timeouts are on record only for the classic protocol. The text has the default for other members.
    """
    timeouts = fact.timeouts
    if timeouts is None:
        return ""
    words = (
        f"session.timeout.ms {lasting(timeouts.session_ms)}"
        if timeouts.session_ms is not None
        else f"its session timeout is not on record, by default {lasting(DEFAULT_SESSION_MS)}"
    )
    return f"{words}, {_rebalance_timeout(fact)}" if timeouts.has_rebalance else words


def _rebalance_timeout(fact: Fact) -> str:
    timeouts = fact.timeouts
    if timeouts is None or timeouts.rebalance_ms is None:
        return "rebalance timeouts are not on record in this version of the group's value"
    if timeouts.rebalance_ms == UNKNOWN_TIMEOUT:
        return f"rebalance timeout -1: {KAFKA_8653.words}"
    which = "largest rebalance timeout" if timeouts.is_largest else "rebalance timeout"
    return f"{which} (max.poll.interval.ms) {lasting(timeouts.rebalance_ms)}"


def _options(causes: Iterable[str]) -> str:
    words = [_OPTIONS[Cause(cause)] for cause in causes]
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _counted(what: str, fact: Fact) -> str:
    return counted(fact.number, what)


_VALUES: Mapping[str, Callable[[Fact], object]] = {
    "who": _who,
    "ids": lambda fact: listed(fact.members, MOST_IDS),
    "others": _others,
    "at": lambda fact: _at(fact.place),
    "since": lambda fact: _at(fact.since),
    "ago": lambda fact: lasting(fact.elapsed_ms),
    "limit": lambda fact: "not on record" if fact.limit_ms is None else lasting(fact.limit_ms),
    "moment": lambda fact: time_text(fact.at_ms),
    "timeouts": _timeouts,
    "rebalance_timeout": _rebalance_timeout,
    "causes": lambda fact: _options(fact.causes),
    "name": lambda fact: fact.names[0],
    "names": _names,
    "number": lambda fact: str(fact.number),
    "old": lambda fact: fact.old,
    "new": lambda fact: fact.new,
    "from_old": lambda fact: "" if fact.old is None else f" from {fact.old}",
    "fault": lambda fact: FAULTS[fact.new or ""].as_possible,
    "more_members": partial(_counted, "more member"),
    "partitions": partial(_counted, "partition"),
    "generations": partial(_counted, "generation"),
}
