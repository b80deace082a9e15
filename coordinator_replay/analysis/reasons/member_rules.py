"""Rows about the group as a whole and about members that join and are removed."""

from collections.abc import Sequence

from coordinator_replay.analysis.reasons.arrivals import Return, namesake, returns, twin
from coordinator_replay.analysis.reasons.departures import Departure, departures, possible_timeouts
from coordinator_replay.analysis.reasons.history import Conversion, chosen
from coordinator_replay.analysis.reasons.rule import CLASSIC, EVERY_TYPE, RuleTable
from coordinator_replay.analysis.reasons.situation import Situation, called, lasting, passed
from coordinator_replay.analysis.reasons.together import MemberFact, together
from coordinator_replay.analysis.reasons.vocabulary import Cause, Confidence, Explanation
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import GroupType, Member

MEMBER_RULES = RuleTable()
"""In the order of their rank."""

CERTAIN, LIKELY, POSSIBLE = Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE

_ABOUT_MEMBERS = (
    Cause.CLIENT_UPGRADE,
    Cause.CLIENT_DOWNGRADE,
    Cause.MEMBER_RESTART,
    Cause.MEMBER_JOIN,
    Cause.REBALANCE_TIMEOUT,
    Cause.SESSION_TIMEOUT,
    Cause.MEMBER_LEAVE,
    Cause.LEAVE_OR_TIMEOUT,
)
_FOLLOWS_MEMBERS = (Cause.PROTOCOL_CHANGE, Cause.TOPIC_METADATA_CHANGE)


@MEMBER_RULES.row(
    Cause.GROUP_CONVERSION,
    explains=(*_ABOUT_MEMBERS, *_FOLLOWS_MEMBERS, Cause.GROUP_CREATED, Cause.SUBSCRIPTION_CHANGE, Cause.LEADER_REJOIN),
)
def group_conversion(situation: Situation) -> Explanation | None:
    """The group went over to another protocol.

    Footprint: records of one type after the tombstone of another, in one write.
    Confidence: certain.
    """
    conversion = _conversion_here(situation)
    if conversion is None:
        return None
    evidence = [_converted(situation, conversion)]
    evidence += _joined(situation, situation.joined)
    return Explanation(CERTAIN, evidence, triggers=[member.member_id for member, _ in situation.joined])


@MEMBER_RULES.row(
    Cause.GROUP_CONVERSION, explains=(*_FOLLOWS_MEMBERS, Cause.GROUP_CREATED, Cause.LEADER_REJOIN, Cause.CLIENT_UPGRADE)
)
def converted_before(situation: Situation) -> Explanation | None:
    """The group went over to another protocol some time before, and rebalances for the first time since.

    Footprint: the first rebalance after a conversion that had none of its own; in groups of the newer protocols one in
        which no member joined, was removed or changed its subscription.
    Confidence: likely.
    Look-alikes: whatever else changed since.
    """
    conversion = situation.history.conversion
    if conversion is None or _conversion_here(situation) is not None:
        return None
    if _has_own_cause(situation) and situation.group_type is not GroupType.CLASSIC:
        return None
    return Explanation(LIKELY, [_converted(situation, conversion)], (Cause.LEADER_REJOIN,))


def _conversion_here(situation: Situation) -> Conversion | None:
    """Return the conversion in this operation, or in the same write as it."""
    converted = situation.of_kind(EventKind.GROUP_CONVERTED)
    if converted:
        old, new = converted[0].changes["group_type"]
        return Conversion(str(old), str(new), converted[0].partition, converted[0].offset, situation.at_ms)
    before = situation.history.conversion
    is_one_write = before is not None and before.at_ms is not None and before.at_ms == situation.at_ms
    return before if is_one_write else None


def _has_own_cause(situation: Situation) -> bool:
    """Return whether a member joined, was removed or changed its subscription in this operation.

    A member whose regex was not resolved yet counts as joining later, but it had joined before.
    """
    first_offset = min(event.offset for event in situation.events)
    has_joined = any(offset >= first_offset for _, offset in situation.joined)
    return has_joined or bool(situation.left or situation.resubscribed)


def _converted(situation: Situation, conversion: Conversion) -> str:
    old, new, partition, offset, _ = conversion
    return f"converted from a {old} to a {new} group {situation.at(offset, partition)}"


@MEMBER_RULES.row(
    Cause.GROUP_CREATED,
    explains=(*_ABOUT_MEMBERS, *_FOLLOWS_MEMBERS, Cause.TOPOLOGY_CHANGE, Cause.SHARE_PARTITIONS_READY),
)
def group_created(situation: Situation) -> Explanation | None:
    """The group begins.

    Footprint: the first generation or epoch after the group's first record.
    Confidence: certain; likely where the log begins later and the number is a first one.
    Look-alikes: the log was cut before.
    """
    is_new = situation.history.is_new_life or bool(situation.of_kind(EventKind.GROUP_CREATED))
    number = situation.opening.epoch
    word = "generation" if situation.group_type is GroupType.CLASSIC else "epoch"
    is_first = 0 < number <= (1 if situation.group_type is GroupType.CLASSIC else 2)
    if not situation.joined or not (is_new or (situation.is_beginning_unseen and is_first)):
        return None
    evidence = [f"{word} {number} is the first of the group {situation.at()}"]
    evidence += _joined(situation, situation.joined)
    triggers = [member.member_id for member, _ in situation.joined]
    if is_new:
        return Explanation(CERTAIN, evidence, triggers=triggers)
    return Explanation(LIKELY, evidence, (Cause.UNKNOWN,), triggers)


@MEMBER_RULES.row(Cause.UNKNOWN, explains=tuple(cause for cause in Cause if cause is not Cause.GROUP_CREATED))
def beginning_unseen(situation: Situation) -> Explanation | None:
    """Nothing is known of what was before.

    Footprint: the first record seen of the group, or its epoch fell over a gap.
    Confidence: possible.
    Look-alikes: everything.
    """
    if not situation.is_beginning_unseen or situation.history.conversion is not None:
        return None
    fact = f"the group's first record after those that are missing {situation.at()}"
    return Explanation(POSSIBLE, (fact,))


@MEMBER_RULES.row(
    Cause.PROTOCOL_CHANGE,
    CLASSIC,
    explains=(Cause.MEMBER_RESTART, Cause.SUBSCRIPTION_CHANGE, Cause.TOPIC_METADATA_CHANGE, Cause.LEADER_REJOIN),
)
def protocol_change(situation: Situation) -> Explanation | None:
    """The same members, another assignor. Where members came or went, that is the cause and this its consequence.

    Footprint: another assignor was chosen while no member joined or was removed.
    Confidence: certain.
    """
    if situation.joined or situation.left:
        return None
    for event in situation.of_kind(EventKind.PROTOCOL_CHANGED):
        old, new = event.changes["protocol"]
        replaced = situation.of_kind(EventKind.MEMBER_REPLACED)
        evidence = [f"the assignor changed from {old} to {new} {situation.at(event.offset)}"]
        evidence += [
            f"static {called(event.member)} joined under a new member id" for event in replaced if event.member
        ]
        return Explanation(CERTAIN, evidence, triggers=[event.member_id for event in replaced if event.member_id])
    return None


@MEMBER_RULES.row(Cause.CLIENT_UPGRADE, explains=_ABOUT_MEMBERS[2:])
def client_upgrade(situation: Situation) -> Explanation | None:
    """A client came back as another.

    Footprint: a client that had been removed joined again on the consumer protocol after the classic one, with another
        assignor, or with a newer version of its subscription.
    Confidence: certain by instance id; likely by client id and host.
    Look-alikes: MEMBER_RESTART; another client with the same client id on the same host.
    """
    return _changed(situation, [back for back in returns(situation)[0] if back.is_upgrade])


@MEMBER_RULES.row(Cause.CLIENT_DOWNGRADE, explains=_ABOUT_MEMBERS[2:])
def client_downgrade(situation: Situation) -> Explanation | None:
    """A client was rolled back to the classic protocol.

    Footprint: a client that had been removed joined again on the classic protocol after the consumer one.
    Confidence: certain by instance id; likely by client id and host.
    Look-alikes: MEMBER_RESTART; another client with the same client id on the same host.
    """
    return _changed(situation, [back for back in returns(situation)[0] if back.is_downgrade])


def _changed(situation: Situation, upgraded: list[Return]) -> Explanation | None:
    """Return an explanation by clients that came back with another protocol, assignor or version."""
    if not upgraded:
        return None
    facts = (back.fact(situation, f"; {_spoken(back)}") for back in upgraded)
    evidence = [*together(facts), *_removals(situation)]
    sure = CERTAIN if all(back.is_same_instance for back in upgraded) else LIKELY
    if any(back.is_ambiguous for back in upgraded):
        sure = POSSIBLE
    others = (Cause.MEMBER_RESTART, Cause.MEMBER_JOIN, *possible_timeouts(situation))
    alternatives = () if sure is CERTAIN else others
    triggers = [back.member.member_id for back in upgraded]
    return Explanation(sure, evidence, alternatives, triggers)


def _spoken(back: Return) -> str:
    subscription = back.member.subscription
    if subscription is None:
        return "now on another protocol"
    if subscription.uses_classic_protocol is not back.departed.uses_classic_protocol:
        return "downgraded to the classic protocol" if back.is_downgrade else "now on the consumer protocol"
    protocol, version = chosen(subscription)
    if protocol == back.departed.protocol:
        return f"its subscription's version changed from {back.departed.version} to {version}"
    return f"its assignor changed from {back.departed.protocol} to {protocol}"


POLL_SLACK_MS = 15_000
"""A client that polls too late leaves so soon after its time, counted from its last commit."""


@MEMBER_RULES.row(
    Cause.POLL_TIMEOUT_REJOIN,
    explains=(
        Cause.MEMBER_RESTART,
        Cause.REBALANCE_TIMEOUT,
        Cause.SESSION_TIMEOUT,
        Cause.MEMBER_LEAVE,
        Cause.LEAVE_OR_TIMEOUT,
    ),
)
def poll_timeout_rejoin(situation: Situation) -> Explanation | None:
    """A process that ran all the time was removed from the group, and joined again.

    Footprint: a member joined again under its member id; or a client joined again that had no record showing it alive
        for some seconds more than its rebalance timeout (max.poll.interval.ms) when it was removed; the rebalance of
        the removal then has this cause too.
    Confidence: possible: a client that has nothing to commit is silent, too.
    Look-alikes: SESSION_TIMEOUT of a process that hung; MEMBER_RESTART; a client that unsubscribed and joined again.
    """
    back = [back for back in returns(situation)[0] if has_polled_late(back)]
    if not back:
        return None
    silences = (
        f"; the last record showing it alive was {lasting(returned.silence_ms)} old when it was removed "
        f"(max.poll.interval.ms {lasting(returned.departed.timeout_ms)})"
        for returned in back
    )
    facts = (returned.fact(situation, silence) for returned, silence in zip(back, silences, strict=True))
    evidence = [*together(facts), *_removals(situation)]
    is_same = all(returned.is_same_process for returned in back)
    others = (Cause.MEMBER_RESTART,) if is_same else (Cause.MEMBER_RESTART, Cause.MEMBER_JOIN)
    return Explanation(
        POSSIBLE,
        evidence,
        (*others, *possible_timeouts(situation)),
        [returned.member.member_id for returned in back],
    )


def has_polled_late(back: Return) -> bool:
    """Return whether records show that a client that came back had exceeded its max.poll.interval.ms."""
    return back.is_same_process or _was_silent(back)


def _was_silent(back: Return) -> bool:
    timeout = back.departed.timeout_ms
    is_another = back.is_same_instance or back.is_upgrade or back.is_downgrade
    return not is_another and 0 < timeout <= back.silence_ms <= timeout + POLL_SLACK_MS


@MEMBER_RULES.row(
    Cause.MEMBER_RESTART,
    explains=(
        Cause.REBALANCE_TIMEOUT,
        Cause.SESSION_TIMEOUT,
        Cause.MEMBER_LEAVE,
        Cause.LEAVE_OR_TIMEOUT,
        Cause.LEADER_REJOIN,
    ),
)
def member_restart(situation: Situation) -> Explanation | None:
    """A client came back.

    Footprint: a member joined with the instance id of one that was removed, or with its client id and host within its
        timeouts, or before its session timed out; in a classic group also a static member under a new member id.
    Confidence: certain by instance id; likely by client id and host; possible where several share them.
    Look-alikes: MEMBER_JOIN of a like-named client; POLL_TIMEOUT_REJOIN.
    """
    back, new = returns(situation)
    if not back:
        return _replaced(situation)
    evidence = together(returned.fact(situation) for returned in back)
    evidence += _joined(situation, new, "joined as well")
    evidence += _removals(situation)
    sure = CERTAIN if all(returned.is_same_instance for returned in back) and not new else LIKELY
    if any(returned.is_ambiguous for returned in back):
        sure = POSSIBLE
        evidence.append("several members have this client.id and host: which of them was restarted is not certain")
    alternatives = [] if sure is CERTAIN else [Cause.MEMBER_JOIN, *possible_timeouts(situation)]
    late = [
        returned
        for returned in back
        if not returned.is_same_instance and 0 < returned.departed.timeout_ms <= returned.silence_ms
    ]
    if late:
        alternatives.append(Cause.POLL_TIMEOUT_REJOIN)
        sure = POSSIBLE
        evidence += together(_silence(back) for back in late)
    return Explanation(
        sure, evidence, tuple(dict.fromkeys(alternatives)), [returned.member.member_id for returned in back]
    )


def _silence(back: Return) -> MemberFact:
    predicate = (
        f"was last shown alive {lasting(back.silence_ms)} before it was removed: it may have exceeded "
        f"max.poll.interval.ms ({lasting(back.departed.timeout_ms)})"
    )
    return MemberFact(back.departed, predicate)


def _removals(situation: Situation) -> list[str]:
    """Return what is on record of members that were removed in the same operation as others came back."""
    return together(departure.fact for departure in departures(situation))


def _replaced(situation: Situation) -> Explanation | None:
    """Return an explanation by static members that came back during a rebalance, or began one."""
    replaced = situation.of_kind(EventKind.MEMBER_REPLACED)
    if situation.group_type is not GroupType.CLASSIC or not replaced:
        return None
    evidence = [
        f"static {called(back.member)} replaced {back.before.member_id} {situation.at(back.offset)}"
        for back in replaced
        if back.member is not None and back.before is not None
    ]
    triggers = [back.member_id for back in replaced if back.member_id]
    return Explanation(LIKELY, evidence, (Cause.LEADER_REJOIN,), triggers)


@MEMBER_RULES.row(Cause.MEMBER_JOIN, explains=_FOLLOWS_MEMBERS)
def member_join(situation: Situation) -> Explanation | None:
    """A member came.

    Footprint: a member joined that nothing on record shows to have been in the group before.
    Confidence: certain; likely where a member that is still in the group has the same client id and host; possible
        where one had them that was removed long before.
    Look-alikes: MEMBER_RESTART of a client whose old member has not timed out yet, or that was away for long.
    """
    _, new = returns(situation)
    if not new:
        return None
    facts = []
    sure: Confidence = CERTAIN
    for member, offset in new:
        predicate = f"joined {situation.at(offset)}"
        other = twin(situation, member)
        if other is not None:
            sure = max(sure, LIKELY, key=list(Confidence).index)
            predicate += f"; {other.member_id} has the same client.id and host and is still in the group"
        past = namesake(situation, member)
        if past is not None:
            sure = POSSIBLE
            predicate += (
                f"; {past.member_id}, with the same client.id and host, was removed "
                f"{passed(past.left_ms, situation.started_ms)} earlier {situation.at(past.offset, past.partition)}"
            )
        facts.append(MemberFact(member, predicate))
    alternatives = () if sure is CERTAIN else (Cause.MEMBER_RESTART,)
    return Explanation(sure, together(facts), alternatives, [member.member_id for member, _ in new])


def _joined(situation: Situation, members: Sequence[tuple[Member, int]], predicate: str = "joined") -> list[str]:
    return together(MemberFact(member, f"{predicate} {situation.at(offset)}") for member, offset in members)


def _departure(situation: Situation, cause: Cause) -> Explanation | None:
    removals = [departure for departure in departures(situation) if departure.cause is cause] if situation.left else ()
    if not removals:
        return None
    weakest = max(removals, key=lambda removal: _ORDER[removal.confidence])
    evidence = together(departure.fact for departure in removals)
    if not situation.opening.member_count:
        evidence.append("the group is Empty")
    return Explanation(weakest.confidence, evidence, _unique(removals), [removal.member_id for removal in removals])


_ORDER = {CERTAIN: 0, LIKELY: 1, POSSIBLE: 2}


def _unique(removals: Sequence[Departure]) -> tuple[Cause, ...]:
    return tuple(dict.fromkeys(cause for removal in removals for cause in removal.alternatives))


@MEMBER_RULES.row(Cause.REBALANCE_TIMEOUT, EVERY_TYPE - {GroupType.SHARE}, explains=_FOLLOWS_MEMBERS)
def rebalance_timeout(situation: Situation) -> Explanation | None:
    """A member was removed because it blocked the others' rebalance.

    Footprint: a member was removed that had not revoked partitions for its rebalance timeout, to the second; in a
        classic group a dynamic member, after the largest rebalance timeout of all, while it was alive and the others'
        partitions were not committed for that time, or where every member's timeout is 0 or less.
    Confidence: likely.
    Look-alikes: SESSION_TIMEOUT or MEMBER_LEAVE at that time.
    """
    return _departure(situation, Cause.REBALANCE_TIMEOUT)


@MEMBER_RULES.row(Cause.SESSION_TIMEOUT, explains=_FOLLOWS_MEMBERS)
def session_timeout(situation: Situation) -> Explanation | None:
    """A member sent no heartbeat any more.

    Footprint: a member was removed that had left temporarily, or is static, or whose client had joined again before and
        was alive since while it was not, or whose partitions had not been committed for a session timeout while others
        were.
    Confidence: likely.
    Look-alikes: MEMBER_LEAVE (an admin can remove any member).
    """
    return _departure(situation, Cause.SESSION_TIMEOUT)


@MEMBER_RULES.row(Cause.MEMBER_LEAVE, explains=_FOLLOWS_MEMBERS)
def member_leave(situation: Situation) -> Explanation | None:
    """A member left.

    Footprint: a member was removed, and the log speaks against a timeout.
    Confidence: certain where the last record showing it alive is younger than every timeout; likely after a young
        commit, or with several in one operation.
    Look-alikes: SESSION_TIMEOUT, REBALANCE_TIMEOUT.
    """
    return _departure(situation, Cause.MEMBER_LEAVE)


@MEMBER_RULES.row(Cause.LEAVE_OR_TIMEOUT, explains=_FOLLOWS_MEMBERS)
def leave_or_timeout(situation: Situation) -> Explanation | None:
    """A member left, or a timeout removed it.

    Footprint: a member was removed, and nothing on record shows whether it left or a timeout removed it.
    Confidence: possible.
    Look-alikes: MEMBER_LEAVE, SESSION_TIMEOUT, REBALANCE_TIMEOUT.
    """
    return _departure(situation, Cause.LEAVE_OR_TIMEOUT)
