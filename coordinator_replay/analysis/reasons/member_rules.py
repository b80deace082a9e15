"""Rows of the decision table about the group as a whole, and about members that joined or were removed."""

from collections.abc import Sequence

from coordinator_replay.analysis.reasons.arrivals import Return, namesake, returns, twin
from coordinator_replay.analysis.reasons.departures import Departure, departures, possible_timeouts
from coordinator_replay.analysis.reasons.explanation import Explanation
from coordinator_replay.analysis.reasons.facts import Fact, FactKind, Sentence, about
from coordinator_replay.analysis.reasons.history import Conversion, Departed, chosen
from coordinator_replay.analysis.reasons.rule import CLASSIC, EVERY_TYPE, RuleTable
from coordinator_replay.analysis.reasons.situation import Situation
from coordinator_replay.analysis.reasons.together import together
from coordinator_replay.analysis.reasons.vocabulary import Cause, Confidence
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import GroupType, Member
from coordinator_replay.times import elapsed_ms

MEMBER_RULES = RuleTable()
"""Rows in the order of their rank."""

CERTAIN, LIKELY, POSSIBLE = Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE

FIRST_GENERATION = 1
"""First generation of a classic group: before it, the group was created, or was empty since its creation."""
FIRST_EPOCH = 2
"""Highest first epoch of a group of the newer protocols: before Kafka 4.2 it is 1, since then 2."""

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

    Footprint: one write has the tombstone of a group of one type, and after it records of a group of another type.
    Confidence: certain; likely if the group was empty, or if a regex was resolved in the same write; possible if the
        group was empty and a regex was resolved, or if no tombstone is on record.
    Look-alikes: TOPIC_METADATA_CHANGE, if the regex is resolved later; GROUP_CREATED, if no tombstone is on
        record, or if the empty group was deleted in the millisecond of the join.
    """
    conversion = _conversion_here(situation)
    if conversion is None:
        return None
    evidence = [_converted(situation, conversion)]
    evidence += _joined(situation, situation.joined)
    triggers = [member.member_id for member, _ in situation.joined]
    if not conversion.has_tombstone:
        return Explanation(POSSIBLE, evidence, (Cause.GROUP_CREATED,), triggers)
    # An empty group can be deleted and created again in one millisecond, with the same records.
    had_members = bool(situation.before.keys() - set(triggers))
    others = () if had_members else (Cause.GROUP_CREATED,)
    if situation.resolved:
        # An empty group is converted without a rebalance: the regex of its first member begins one.
        return Explanation(
            LIKELY if had_members else POSSIBLE, evidence, (Cause.TOPIC_METADATA_CHANGE, *others), triggers
        )
    return Explanation(CERTAIN if had_members else LIKELY, evidence, others, triggers)


@MEMBER_RULES.row(
    Cause.GROUP_CONVERSION, explains=(*_FOLLOWS_MEMBERS, Cause.GROUP_CREATED, Cause.LEADER_REJOIN, Cause.CLIENT_UPGRADE)
)
def converted_before(situation: Situation) -> Explanation | None:
    """The group's first rebalance after a change to another protocol.

    Footprint: the group was converted without a rebalance, and this is its first rebalance since then. In a group on a
        newer protocol, no member joined, was removed or changed its subscription in this rebalance.
    Confidence: likely if the group is classic now and had members at the conversion, and if the tombstone of the group
        on the other protocol is on record; else possible.
    Look-alikes: any change after the conversion; GROUP_CREATED, if the group on the other protocol was empty and was
        removed.
    """
    conversion = situation.history.conversion
    if conversion is None or _conversion_here(situation) is not None:
        return None
    if _has_own_cause(situation) and situation.group_type is not GroupType.CLASSIC:
        return None
    is_classic = situation.group_type is GroupType.CLASSIC
    # A group that is converted back has members.
    is_first = is_classic and (situation.opening.epoch <= FIRST_GENERATION or not situation.before)
    if is_first or not conversion.has_tombstone:
        return Explanation(POSSIBLE, [_converted(situation, conversion)], (Cause.GROUP_CREATED,))
    if is_classic:
        return Explanation(LIKELY, [_converted(situation, conversion)], (Cause.LEADER_REJOIN,))
    return Explanation(POSSIBLE, [_converted(situation, conversion)], (Cause.TOPIC_METADATA_CHANGE,))


def _conversion_here(situation: Situation) -> Conversion | None:
    """Return the conversion that the coordinator wrote with the present operation of the group.

    Return None if it wrote no conversion.
    """
    converted = situation.of_kind(EventKind.GROUP_CONVERTED)
    if converted:
        return Conversion.of(converted[0], situation.at_ms)
    before = situation.history.conversion
    is_one_write = before is not None and before.at_ms is not None and before.at_ms == situation.at_ms
    # An empty group that is converted back has its first generation later, however soon.
    is_later = situation.group_type is GroupType.CLASSIC and not situation.before
    return before if is_one_write and not is_later else None


def _has_own_cause(situation: Situation) -> bool:
    """Return whether a member joined, was removed or changed its subscription in this operation.

    A member that joined in an earlier operation does not count.
    """
    first_offset = min(event.offset for event in situation.events)
    has_joined = any(offset >= first_offset for _, offset in situation.joined)
    return has_joined or bool(situation.left or situation.resubscribed)


def _converted(situation: Situation, conversion: Conversion) -> Sentence:
    kind = FactKind.CONVERTED if conversion.has_tombstone else FactKind.TYPE_CHANGED
    place = situation.place(conversion.offset, conversion.partition)
    return (Fact(kind, old=conversion.old, new=conversion.new, place=place),)


@MEMBER_RULES.row(
    Cause.GROUP_CREATED,
    explains=(*_ABOUT_MEMBERS, *_FOLLOWS_MEMBERS, Cause.TOPOLOGY_CHANGE, Cause.SHARE_PARTITIONS_READY),
)
def group_created(situation: Situation) -> Explanation | None:
    """The group was created.

    Footprint: the first generation or epoch after the group's first record.
    Confidence: certain; likely if earlier records are missing, and the number is one of a new group: generation 1, or
        epoch 1 or 2 of a newer protocol.
    Look-alikes: a group that existed before the log begins.
    """
    is_new = situation.history.is_new_life or bool(situation.of_kind(EventKind.GROUP_CREATED))
    number = situation.opening.epoch
    is_classic = situation.group_type is GroupType.CLASSIC
    is_first = 0 < number <= (FIRST_GENERATION if is_classic else FIRST_EPOCH)
    if not situation.joined or not (is_new or (situation.is_beginning_unseen and is_first)):
        return None
    kind = FactKind.FIRST_GENERATION if is_classic else FactKind.FIRST_EPOCH
    evidence: list[Sentence] = [(Fact(kind, number=number, place=situation.place()),)]
    evidence += _joined(situation, situation.joined)
    triggers = [member.member_id for member, _ in situation.joined]
    if is_new:
        return Explanation(CERTAIN, evidence, triggers=triggers)
    return Explanation(LIKELY, evidence, (Cause.UNKNOWN,), triggers)


@MEMBER_RULES.row(Cause.UNKNOWN, explains=tuple(cause for cause in Cause if cause is not Cause.GROUP_CREATED))
def beginning_unseen(situation: Situation) -> Explanation | None:
    """No record shows the group before this rebalance.

    Footprint: the group's first record in the log, or the group's epoch is lower after a gap than before it.
    Confidence: possible.
    Look-alikes: everything.
    """
    if not situation.is_beginning_unseen or situation.history.conversion is not None:
        return None
    return Explanation(POSSIBLE, [(Fact(FactKind.FIRST_RECORD, place=situation.place()),)])


@MEMBER_RULES.row(
    Cause.PROTOCOL_CHANGE,
    CLASSIC,
    explains=(Cause.MEMBER_RESTART, Cause.SUBSCRIPTION_CHANGE, Cause.TOPIC_METADATA_CHANGE, Cause.LEADER_REJOIN),
)
def protocol_change(situation: Situation) -> Explanation | None:
    """The same members chose another assignor.

    If members joined or were removed, this is the cause, and the other assignor is a consequence.

    Footprint: another assignor was chosen while no member joined or was removed.
    Confidence: certain.
    """
    if situation.joined or situation.left:
        return None
    for event in situation.of_kind(EventKind.PROTOCOL_CHANGED):
        old, new = event.changes["protocol"]
        replaced = situation.of_kind(EventKind.MEMBER_REPLACED)
        changed = Fact(FactKind.ASSIGNOR_CHANGED, old=old, new=new, place=situation.place(event.offset))
        evidence: list[Sentence] = [(changed,)]
        evidence += _under_new_ids(situation, FactKind.NEW_MEMBER_ID)
        return Explanation(CERTAIN, evidence, triggers=[event.member_id for event in replaced if event.member_id])
    return None


@MEMBER_RULES.row(Cause.CLIENT_UPGRADE, explains=_ABOUT_MEMBERS[2:])
def client_upgrade(situation: Situation) -> Explanation | None:
    """A client came back with another protocol, assignor or version.

    Footprint: a removed client joined again. It changed from the classic to the consumer protocol, uses another
        assignor, or sends a newer version of its subscription.
    Confidence: certain if the instance id is the same; likely if only client id and host are the same; possible if
        several members share client id and host.
    Look-alikes: MEMBER_RESTART; another client with the same client id on the same host.
    """
    return _changed(situation, [back for back in returns(situation)[0] if back.is_upgrade])


@MEMBER_RULES.row(Cause.CLIENT_DOWNGRADE, explains=_ABOUT_MEMBERS[2:])
def client_downgrade(situation: Situation) -> Explanation | None:
    """A client was rolled back to the classic protocol.

    Footprint: a removed client joined again, now on the classic protocol instead of the consumer protocol.
    Confidence: certain if the instance id is the same; likely if only client id and host are the same; possible if
        several members share client id and host.
    Look-alikes: MEMBER_RESTART; another client with the same client id on the same host.
    """
    return _changed(situation, [back for back in returns(situation)[0] if back.is_downgrade])


def _changed(situation: Situation, upgraded: list[Return]) -> Explanation | None:
    """Return the explanation that clients came back after an upgrade or a downgrade; None if none did.

    Args:
        situation: the rebalance.
        upgraded: the returns after an upgrade or a downgrade.
    """
    if not upgraded:
        return None
    facts = (back.facts(situation, _spoken(back)) for back in upgraded)
    evidence = [*together(facts), *_removals(situation)]
    sure = CERTAIN if all(back.is_same_instance for back in upgraded) else LIKELY
    if any(back.is_ambiguous for back in upgraded):
        sure = POSSIBLE
    others = (Cause.MEMBER_RESTART, Cause.MEMBER_JOIN, *possible_timeouts(situation))
    alternatives = () if sure is CERTAIN else others
    triggers = [back.member.member_id for back in upgraded]
    return _beside_others(situation, Explanation(sure, evidence, alternatives, triggers))


def _beside_others(situation: Situation, explanation: Explanation) -> Explanation:
    """Lower the confidence that returning members caused a rebalance, if other members were removed just before it.

    The removal of these other members may have begun the rebalance instead. So the causes of the removal become
    alternatives.

    Args:
        situation: the rebalance.
        explanation: the explanation that members came back.
    """
    back = {returned.departed.member_id for returned in returns(situation)[0]}
    others = [departure for departure in departures(situation) if departure.member_id not in back]
    if not others:
        return explanation
    causes = dict.fromkeys(cause for other in others for cause in (other.cause, *other.alternatives))
    most = POSSIBLE if situation.group_type is GroupType.CLASSIC else LIKELY
    named = {Cause.LEAVE_OR_TIMEOUT, *explanation.alternatives}
    return explanation._replace(
        confidence=max(explanation.confidence, most, key=_ORDER.__getitem__),
        alternatives=(*explanation.alternatives, *(cause for cause in causes if cause not in named)),
    )


def _spoken(back: Return) -> Fact:
    subscription, old = back.member.subscription, back.departed
    if subscription is None:
        return about(FactKind.OTHER_PROTOCOL, back.member)
    if subscription.uses_classic_protocol is not old.uses_classic_protocol:
        is_classic = back.is_downgrade
        return about(FactKind.TO_CLASSIC_PROTOCOL if is_classic else FactKind.TO_CONSUMER_PROTOCOL, back.member)
    protocol, version = chosen(subscription)
    if protocol == old.protocol:
        return about(FactKind.VERSION_CHANGED, back.member, old=str(old.version), new=str(version))
    return about(FactKind.CLIENT_ASSIGNOR_CHANGED, back.member, old=str(old.protocol), new=str(protocol))


POLL_SLACK_MS = 15_000
"""A client that polls too late leaves at most this long after max.poll.interval.ms, counted from its last commit."""


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

    Footprint: a member joined again under its old member id. Or a removed client joined again, and before its removal
        it had been silent for its rebalance timeout (max.poll.interval.ms), or at most 15 seconds longer. If the
        session timeout is longer, the session timeout counts. The rebalance that began with the removal can get this
        cause, too.
    Confidence: possible, because a client that has nothing to commit is silent, too.
    Look-alikes: SESSION_TIMEOUT of a process that hung; MEMBER_RESTART; a client that unsubscribed and joined again.
    """
    back = [back for back in returns(situation)[0] if has_polled_late(back)]
    if not back:
        return None
    facts = (returned.facts(situation, _silent_when_removed(returned)) for returned in back)
    evidence = [*together(facts), *_removals(situation)]
    is_same = all(returned.is_same_process for returned in back)
    others = (Cause.MEMBER_RESTART,) if is_same else (Cause.MEMBER_RESTART, Cause.MEMBER_JOIN)
    return Explanation(
        POSSIBLE,
        evidence,
        (*others, *possible_timeouts(situation)),
        [returned.member.member_id for returned in back],
    )


def _silent_when_removed(back: Return) -> Fact:
    limit_ms = back.departed.rebalance_ms
    return back.fact(FactKind.SILENT_WHEN_REMOVED, elapsed_ms=back.silence_ms, limit_ms=limit_ms)


def has_polled_late(back: Return) -> bool:
    """Return whether a client that came back may have exceeded its max.poll.interval.ms.

    Return True in two cases:

    - The client joined again under its old member id.
    - The client was silent before its removal, for at least its timeout (``Departed.timeout_ms``) and at most
      POLL_SLACK_MS longer. It came back neither under its instance id nor after an upgrade or a downgrade.
    """
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

    Footprint: a member joined with the instance id of a removed member. Or a dynamic member joined with the client id
        and host of a dynamic member that was removed at most five minutes earlier. If a timeout of the removed member
        is longer, this timeout counts instead of the five minutes. On the newer protocols, the old member may also
        still be in the group, if its session times out later. In a classic group also: a static member got a new member
        id.
    Confidence: certain if the instance id is the same; likely if only client id and host are the same, or if a static
        member got a new member id; possible if several members share client id and host, or if the removed member had
        been silent for its timeouts.
    Look-alikes: MEMBER_JOIN of another client with the same client id and host; POLL_TIMEOUT_REJOIN.
    """
    back, new = returns(situation)
    if not back:
        return _replaced(situation)
    evidence = together(returned.facts(situation) for returned in back)
    evidence += _joined(situation, new, FactKind.JOINED_AS_WELL)
    evidence += _removals(situation)
    sure = CERTAIN if all(returned.is_same_instance for returned in back) and not new else LIKELY
    if any(returned.is_ambiguous for returned in back):
        sure = POSSIBLE
        evidence.append((Fact(FactKind.SHARED_CLIENT),))
    alternatives = [] if sure is CERTAIN else [Cause.MEMBER_JOIN, *possible_timeouts(situation)]
    late = [
        returned
        for returned in back
        if not returned.is_same_instance and 0 < returned.departed.timeout_ms <= returned.silence_ms
    ]
    if late:
        alternatives.append(Cause.POLL_TIMEOUT_REJOIN)
        sure = POSSIBLE
        evidence += together([_silence(back)] for back in late)
    triggers = [returned.member.member_id for returned in back]
    return _beside_others(situation, Explanation(sure, evidence, tuple(dict.fromkeys(alternatives)), triggers))


def _silence(back: Return) -> Sentence:
    return (
        about(FactKind.SEEN_BEFORE_REMOVAL, back.departed, elapsed_ms=back.silence_ms),
        about(FactKind.MAY_HAVE_POLLED_LATE, back.departed, limit_ms=back.departed.rebalance_ms),
    )


def _removals(situation: Situation) -> list[Sentence]:
    """Return sentences about the members that the operation removed."""
    return together(departure.evidence for departure in departures(situation))


def _replaced(situation: Situation) -> Explanation | None:
    """Return the explanation that static members came back under new member ids. Return None if none did."""
    replaced = situation.of_kind(EventKind.MEMBER_REPLACED)
    if situation.group_type is not GroupType.CLASSIC or not replaced:
        return None
    evidence = _under_new_ids(situation, FactKind.REPLACED)
    triggers = [back.member_id for back in replaced if back.member_id]
    return _beside_others(situation, Explanation(LIKELY, evidence, triggers=triggers))


def _under_new_ids(situation: Situation, kind: FactKind) -> list[Sentence]:
    """Return sentences on static members that got another member id."""
    return [
        (about(kind, event.member, others=(event.before.member_id,), place=situation.place(event.offset)),)
        for event in situation.of_kind(EventKind.MEMBER_REPLACED)
        if event.member is not None and event.before is not None
    ]


@MEMBER_RULES.row(Cause.MEMBER_JOIN, explains=_FOLLOWS_MEMBERS)
def member_join(situation: Situation) -> Explanation | None:
    """A new member joined.

    Footprint: a member joined, and no record shows it in the group before.
    Confidence: certain; possible if another member with the same client id and host is still in the group, or was
        removed long before.
    Look-alikes: MEMBER_RESTART of a client whose old member has not timed out yet, or of a client that was away for
        long.
    """
    _, new = returns(situation)
    if not new:
        return None
    of_members: list[list[Sentence]] = []
    sure: Confidence = CERTAIN
    for member, offset in new:
        facts = [about(FactKind.JOINED, member, place=situation.place(offset))]
        other = twin(situation, member)
        if other is not None:
            sure = POSSIBLE
            facts.append(about(FactKind.CLIENT_STILL_THERE, member, others=(other.member_id,)))
        past = namesake(situation, member)
        if past is not None:
            sure = POSSIBLE
            facts.append(_removed_before(situation, member, past))
        of_members.append([tuple(facts)])
    alternatives = () if sure is CERTAIN else (Cause.MEMBER_RESTART,)
    return Explanation(sure, together(of_members), alternatives, [member.member_id for member, _ in new])


def _removed_before(situation: Situation, member: Member, past: Departed) -> Fact:
    place, away_ms = situation.place(past.offset, past.partition), elapsed_ms(past.left_ms, situation.started_ms)
    others = (past.member_id,)
    return about(FactKind.CLIENT_REMOVED_BEFORE, member, others=others, since=place, elapsed_ms=away_ms)


def _joined(
    situation: Situation, members: Sequence[tuple[Member, int]], kind: FactKind = FactKind.JOINED
) -> list[Sentence]:
    return together([(about(kind, member, place=situation.place(offset)),)] for member, offset in members)


def _departure(situation: Situation, cause: Cause) -> Explanation | None:
    removals = [departure for departure in departures(situation) if departure.cause is cause] if situation.left else ()
    if not removals:
        return None
    weakest = max(removals, key=lambda removal: _ORDER[removal.confidence])
    evidence = together(departure.evidence for departure in removals)
    if not situation.opening.member_count:
        evidence.append((Fact(FactKind.GROUP_EMPTY, place=situation.place()),))
    return Explanation(weakest.confidence, evidence, _unique(removals), [removal.member_id for removal in removals])


_ORDER = {CERTAIN: 0, LIKELY: 1, POSSIBLE: 2}


def _unique(removals: Sequence[Departure]) -> tuple[Cause, ...]:
    return tuple(dict.fromkeys(cause for removal in removals for cause in removal.alternatives))


@MEMBER_RULES.row(Cause.REBALANCE_TIMEOUT, EVERY_TYPE - {GroupType.SHARE}, explains=_FOLLOWS_MEMBERS)
def rebalance_timeout(situation: Situation) -> Explanation | None:
    """A member was removed because it blocked the others' rebalance.

    Footprint: a member that had to revoke partitions kept them for its rebalance timeout, or at most one second longer,
        and was then removed. In a classic group: a dynamic member was removed although it was alive, and the other
        members had committed nothing for about the group's largest rebalance timeout. Or the rebalance timeout of every
        member is 0 or less.
    Confidence: likely; possible in a classic group, where the timeout ends a join phase that something else began.
    Look-alikes: SESSION_TIMEOUT or MEMBER_LEAVE, if the member happens to be removed at that time.
    """
    return _departure(situation, Cause.REBALANCE_TIMEOUT)


@MEMBER_RULES.row(Cause.SESSION_TIMEOUT, explains=_FOLLOWS_MEMBERS)
def session_timeout(situation: Situation) -> Explanation | None:
    """A member stopped sending heartbeats.

    Footprint: a static member, or a member that had left temporarily, was removed. Or the member's client had joined
        again before the removal, and since then records showed only the new member alive. Or the removed member's
        partitions had no commits for a session timeout, while other partitions had commits.
    Confidence: likely; possible if only commits are missing.
    Look-alikes: MEMBER_LEAVE (an admin can remove any member).
    """
    return _departure(situation, Cause.SESSION_TIMEOUT)


@MEMBER_RULES.row(Cause.MEMBER_LEAVE, explains=_FOLLOWS_MEMBERS)
def member_leave(situation: Situation) -> Explanation | None:
    """A member left.

    Footprint: a member was removed, and the log speaks against a timeout.
    Confidence: certain if the last record that shows the member alive is younger than each of its timeouts; likely if
        only a commit of its partitions is that young, or if one operation removed several members.
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
