"""Rules over a group's progress: contradictions, groups that do not become Stable, rebalance storms."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coordinator_replay.analysis.broker_faults import KAFKA_13081, KAFKA_15106, KAFKA_16147
from coordinator_replay.analysis.findings.observation import (
    MOST_NAMED,
    Observation,
    has_lasted,
    lasting,
    of_partitions,
)
from coordinator_replay.analysis.findings.steps import GroupRule, Memory, Step
from coordinator_replay.analysis.ownership import UNREVOKED
from coordinator_replay.analysis.rebalances import GENERATIONS
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import NOTHING, GroupState, GroupType, Member, MemberState, Subscription
from coordinator_replay.engine.rules import EPOCHS_RISE, ONE_OWNER
from coordinator_replay.engine.rules import RULES as INVARIANTS
from coordinator_replay.listing import counted, listed
from coordinator_replay.times import elapsed_ms, time_text

_ON_THE_WAY = frozenset({GroupState.ASSIGNING, GroupState.RECONCILING, GroupState.NOT_READY})
_COMES_OR_GOES = frozenset(
    {EventKind.MEMBER_JOINED, EventKind.MEMBER_LEFT, EventKind.MEMBER_REPLACED, EventKind.SUBSCRIPTION_CHANGED}
)
_ALWAYS_BEGIN = frozenset({EventKind.REBALANCE_STARTED, EventKind.GROUP_EMPTIED})
_BEGINS = GENERATIONS | {EventKind.REBALANCE_STARTED}
_MOST_RECENT = 1000
"""Largest number of rebalances of a window that are examined; a group with more is in a storm anyway."""


def invariant_broken(step: Step, memory: Memory) -> Iterator[Observation]:
    """Yield the contradictions between records that events INVARIANT_BROKEN report.

    There is one finding for each broken rule and topic.
    """
    if EventKind.INVARIANT_BROKEN not in step.kinds:
        return
    broken: dict[tuple[Any, Any], list[Event]] = {}
    for event in step.events:
        if event.kind is EventKind.INVARIANT_BROKEN:
            broken.setdefault((event.changes.get("rule"), event.changes.get("topic")), []).append(event)
    for (rule, topic), events in broken.items():
        event = events[0]
        changes = dict(event.changes)
        numbers = sorted({event.changes["partition"] for event in events if event.changes.get("partition") is not None})
        named = step.topics.shown(step.now.group_type, topic)[0][1] if isinstance(topic, str) else None
        about = f", {of_partitions(named or topic, numbers)}," if numbers else ""
        yield Observation(
            (rule, topic),
            step.now.at_ms,
            step.now.at_ms,
            f"{_broken(rule, changes)}{about} at {time_text(step.now.at_ms)} (rule {rule}){_fault(rule, step)}",
            event.partition,
            event.offset,
            {
                key: value if isinstance(value, int | str | list | None) else str(value)
                for key, value in changes.items()
            },
            occurrences=len(events),
            topic=named,
            topic_partition=numbers[0] if len(numbers) == 1 else None,
            member_id=event.member_id,
        )


_EPOCHS = {"epoch": "group epoch", "assignment_epoch": "assignment epoch"}


def _broken(rule: object, changes: Mapping[str, Any]) -> str:
    """Return in words how a record contradicts the earlier records.

    Args:
        rule: the broken rule, a key of ``INVARIANTS``.
        changes: changes of the event that reports the contradiction.
    """
    for name, word in _EPOCHS.items():
        values = changes.get(name)
        if rule == EPOCHS_RISE and isinstance(values, list):
            return f"{word} decreased from {values[0]} to {values[1]}"
    return f"the records contradict this: {INVARIANTS.get(str(rule), str(rule))}"


def _fault(rule: object, step: Step) -> str:
    """Return a clause on the known fault of Kafka that leaves the same contradiction in the log.

    Return an empty text if there is no such fault.

    Args:
        rule: the broken rule, a key of ``INVARIANTS``.
        step: the step with the contradiction.
    """
    if rule == ONE_OWNER and step.now.group_type is GroupType.CONSUMER:
        return f", {KAFKA_16147.as_possible}"
    if rule == ONE_OWNER and any("sticky" in str(event.changes.get("protocol")) for event in step.events):
        return f", {KAFKA_13081.as_possible}"
    return ""


def stuck_group(step: Step, memory: Memory) -> Iterator[Observation]:
    """Yield times in which a group took too long to become Stable.

    Each observation names the members that the group waited for at the end of that time. If the log ends before the
    group is Stable, the observation is not yielded but kept in ``memory.open``.
    """
    now, notes = step.now, memory.notes
    if now.state in _ON_THE_WAY:
        notes.setdefault("since", [now.at_ms, now.partition, now.offset])
        notes["state"] = str(now.state)
        if step.is_end:
            memory.open["stuck"] = _stuck(step, notes, _waiting_for(step), None)
    elif notes:
        memory.open.clear()
        if has_lasted(step.limits.stuck_ms, notes["since"][0], now.at_ms):
            # The group had waited for the members whose step made it Stable.
            last = dict.fromkeys(event.member_id for event in step.events if event.member_id is not None)
            yield _stuck(step, notes, list(last)[:MOST_NAMED], now.at_ms)
        notes.clear()


def _stuck(step: Step, notes: Mapping[str, Any], waiting_for: list[str], until_ms: int | None) -> Observation:
    since, partition, offset = notes["since"]
    state, epoch = notes["state"], step.now.epoch
    waiting = f", waiting for {listed(waiting_for, 3)}" if waiting_for else ""
    return Observation(
        (partition, offset),
        since,
        until_ms,
        f"the group has not been Stable since {time_text(since)}; at last {state} at epoch {epoch}{waiting}",
        partition,
        offset,
        {"state": state, "epoch": epoch, "waiting_for": waiting_for},
        step.limits.stuck_ms,
    )


def _waiting_for(step: Step) -> list[str]:
    """Return the first members that are not at the group's epoch, or not in the state STABLE."""
    behind = [
        member_id
        for member_id, stay in step.members.items()
        if stay.member.current is None
        or stay.member.current.epoch != step.now.epoch
        or stay.member.current.state is not MemberState.STABLE
    ]
    return behind[:MOST_NAMED]


def unrevoked_partitions(step: Step, memory: Memory) -> Iterator[Observation]:
    """Yield members that did not revoke partitions within their rebalance timeout.

    An observation is about the partitions that a member must revoke at one step. At its next step, the member may have
    to revoke other partitions, so the rebalance timeout begins again.
    """
    if not memory.open and not step.ownership.unrevoked_since:
        return
    for event in step.events:
        if event.kind is EventKind.GROUP_DELETED or event.kind is EventKind.GROUP_CONVERTED:
            yield from memory.end_all(step.now.at_ms)
        member = event.member
        if member is None or event.kind is EventKind.INVARIANT_BROKEN:
            continue
        replaced = event.before if event.kind is EventKind.MEMBER_REPLACED else None
        if replaced is not None:
            yield from memory.end(replaced.member_id, step.now.at_ms)
        current = member.current
        is_unrevoked = current is not None and current.state is not None and current.state in UNREVOKED
        if event.kind is EventKind.MEMBER_LEFT or current is None or not is_unrevoked:
            yield from memory.end(member.member_id, step.now.at_ms)
        else:
            since = step.ownership.unrevoked_since.get(member.member_id, step.now.at_ms)
            if memory.since(member.member_id, since) != since:
                yield from memory.end(member.member_id, step.now.at_ms)
            memory.begin(member.member_id, _unrevoked(step, event, member, since))


def _unrevoked(step: Step, event: Event, member: Member, since: int | None) -> Observation:
    subscription = member.subscription
    own = subscription if subscription is not None and _is_own_client(subscription) else None
    pending = member.current.pending if member.current is not None else NOTHING
    timeout_ms = subscription.loaded_rebalance_ms if subscription is not None else 0
    needed_ms = timeout_ms if timeout_ms > 0 else step.limits.unrevoked_ms
    partitions = [
        f"{name or topic_id}-{partition}"
        for topic, numbers in sorted(pending.items())
        for topic_id, name in step.topics.shown(step.now.group_type, topic)
        for partition in numbers
    ]
    return Observation(
        (member.member_id, event.partition, event.offset),
        since,
        None,
        f"member {member.member_id}{_client(subscription)} has not revoked {counted(len(partitions), 'partition')} "
        f"since {time_text(since)}, for its rebalance timeout (max.poll.interval.ms {lasting(needed_ms)}) or longer",
        event.partition,
        event.offset,
        {
            "client_id": own.client_id if own is not None else None,
            "client_host": own.client_host if own is not None else None,
            "partitions": partitions[:MOST_NAMED],
            "partition_count": len(partitions),
            "rebalance_timeout_ms": timeout_ms if timeout_ms > 0 else None,
        },
        needed_ms,
        member_id=member.member_id,
    )


def _is_own_client(subscription: Subscription) -> bool:
    """Return whether client id and host are the member's own.

    A static member on the classic protocol may have the client id and host of an earlier process.
    """
    return subscription.instance_id is None or not subscription.uses_classic_protocol


def _client(subscription: Subscription | None) -> str:
    if subscription is None or subscription.client_id is None:
        return ""
    if not _is_own_client(subscription):
        return f" (instance {subscription.instance_id})"
    return f" (client {subscription.client_id} on {(subscription.client_host or '?').lstrip('/')})"


def rebalance_storm(step: Step, memory: Memory) -> Iterator[Observation]:
    """Yield times with more rebalances than the change of the group's size explains.

    A group that grows from zero to fifty members has fifty rebalances, and that is no storm. If members leave and come
    back again and again, a group has many rebalances but keeps its size.
    """
    notes, now, window_ms = memory.notes, step.now, step.limits.storm_window_ms
    if step.is_end:
        if "storm" in notes:
            yield _storm(notes, window_ms)
        return
    before = notes.get("members", 0 if EventKind.GROUP_CREATED in step.kinds else None)
    notes["members"] = None if step.is_in_gap else now.member_count
    begun = () if step.kinds.isdisjoint(_BEGINS) else [event for event in step.events if _begins_rebalance(event)]
    if not begun:
        return
    recent: list[list[Any]] = notes.setdefault("recent", [])
    while recent and (not _is_within(window_ms, recent[0][0], now.at_ms) or len(recent) >= _MOST_RECENT):
        recent.pop(0)
    passed = sum(max(1, int(event.changes.get("attempts") or 1)) for event in begun)
    place = (now.partition, begun[0].offset)
    recent.append([now.at_ms, before, now.member_count, passed, *place, _who(step), *_moved_by(step)])
    stormy = _unexplained(recent, step.limits.storm_rebalances)
    if stormy:
        storm = notes.setdefault("storm", [stormy[0][0], stormy[0][4], stormy[0][5], 0, 0, {}, 0, 0, None])
        for entry in stormy if not storm[3] else recent[-1:]:
            _add_up(storm, entry)
        storm[4] = now.at_ms
    elif "storm" in notes:
        yield _storm(notes, window_ms)
        del notes["storm"]


def _unexplained(recent: Sequence[list[Any]], least: int) -> Sequence[list[Any]]:
    """Return the longest series of the newest rebalances with at least ``least`` unexplained rebalances.

    If a group gains or loses N members, N rebalances are explained by this change of its size. All other rebalances are
    unexplained. Return an empty list if too few rebalances are unexplained.

    Args:
        recent: the rebalances within the window, oldest first.
        least: the lowest number of unexplained rebalances.
    """
    count, first = 0, None
    if sum(entry[3] for entry in recent) >= least:
        for index in range(len(recent) - 1, -1, -1):
            before, count = recent[index][1], count + recent[index][3]
            if before is not None and count - abs(recent[-1][2] - before) >= least:
                first = index
    return [] if first is None else recent[first:]


def _add_up(storm: list[Any], entry: list[Any]) -> None:
    """Add a rebalance to a storm.

    Add the rebalance's number of generations. Count how often each member joined, was removed or changed. If no member
    did, count the rebalance as quiet, and note whether partitions moved.

    Args:
        storm: the notes about the storm.
        entry: the notes about the rebalance.
    """
    passed, names, moved_by = entry[3], entry[6], entry[7:]
    storm[3] += passed
    for name in names:
        if name in storm[5] or len(storm[5]) < _MOST_RECENT:
            storm[5][name] = storm[5].get(name, 0) + 1
    if not names:
        storm[6] += passed
        if moved_by:
            storm[7], storm[8] = storm[7] + passed, moved_by[0]


def _is_within(window_ms: int, first_ms: int | None, last_ms: int | None) -> bool:
    """Return whether two times lie in the same window.

    A time that is not on record lies in no window.
    """
    between_ms = elapsed_ms(first_ms, last_ms)
    return between_ms is not None and between_ms <= window_ms


def _begins_rebalance(event: Event) -> bool:
    kind = event.kind
    if event.group_type is not GroupType.CLASSIC:
        return kind in _ALWAYS_BEGIN
    # The first remaining record of a generation need not be the one that ended its rebalance.
    return event.is_exact and (kind in _ALWAYS_BEGIN or kind in GENERATIONS)


def _who(step: Step) -> list[str]:
    """Return the names of members that joined, were removed, were replaced or changed their subscription.

    A name is the instance id of a static member, or the client id and host of a dynamic member. At most ``MOST_NAMED``
    names are returned.
    """
    names = []
    for event in step.events:
        if event.kind not in _COMES_OR_GOES:
            continue
        members = [member for member in (event.member, event.before) if member is not None]
        subscription = next((member.subscription for member in members if member.subscription is not None), None)
        if subscription is not None:
            client = f"{subscription.client_id} on {(subscription.client_host or '?').lstrip('/')}"
            names.append(subscription.instance_id if subscription.instance_id is not None else client)
    return names[:MOST_NAMED]


def _moved_by(step: Step) -> list[str]:
    """Return a list with the assignor that moved partitions to other members of a classic group.

    The list is empty if no partition moved, or if the assignor is not on record.
    """
    if step.now.group_type is not GroupType.CLASSIC or not step.ownership.handovers:
        return []
    changed = [event.changes.get("protocol") for event in step.events if event.kind is EventKind.REBALANCE_COMPLETED]
    names = [change[-1] if isinstance(change, list) else change for change in changed]
    return [str(name) for name in names if name is not None][:1]


def _storm(notes: dict[str, Any], window_ms: int) -> Observation:
    first_ms, partition, offset, count, last_ms, names, quiet, moved, assignor = notes["storm"]
    often = Counter(names).most_common(3)
    is_churn = often and 2 * quiet <= count and often[0][1] > 1
    by = f", most often by {often[0][0]} (joined, removed or changed {often[0][1]} times)" if is_churn else ""
    return Observation(
        (partition, offset),
        first_ms,
        last_ms,
        f"{count} rebalances in {lasting(elapsed_ms(first_ms, last_ms))}{by}, from {time_text(first_ms)} to "
        f"{time_text(last_ms)}{_without_churn(count, quiet, moved, assignor)}",
        partition,
        offset,
        {
            "rebalances": count,
            "members": dict(often) if is_churn else {},
            "without_churn": quiet,
            "assignor": assignor if 2 * moved > count else None,
        },
        goes_on_ms=window_ms,
        joins_ms=window_ms,
        occurrences=count,
    )


def _without_churn(count: int, quiet: int, moved: int, assignor: str | None) -> str:
    """Return words for a storm if, in most of its rebalances, no member joined, was removed or changed.

    Return an empty text for any other storm.

    Args:
        count: number of the storm's rebalances.
        quiet: number of rebalances in which no member joined, was removed or changed.
        moved: number of these rebalances in which partitions went to other members.
        assignor: the assignor that moved these partitions.
    """
    if 2 * quiet <= count:
        return ""
    words = f"; in {quiet} of them nobody joined, was removed or changed"
    if 2 * moved <= count:
        return words
    fault = f", {KAFKA_15106.as_possible}" if assignor is not None and "sticky" in assignor else ""
    return f"{words}, and {moved} of these moved partitions, as if the assignor {assignor} did not settle{fault}"


def static_member_flapping(step: Step, memory: Memory) -> Iterator[Observation]:
    """Yield static members that joined again several times within a short time."""
    if EventKind.MEMBER_REPLACED not in step.kinds and EventKind.MEMBER_REJOINED not in step.kinds:
        return
    wanted, now = step.limits.flapping_returns, step.now
    for event in step.events:
        if event.kind not in (EventKind.MEMBER_REPLACED, EventKind.MEMBER_REJOINED) or event.instance_id is None:
            continue
        subscription = event.member.subscription if event.member is not None else None
        # A classic group keeps the host of the member that was replaced (``ClassicGroup.replaceStaticMember``).
        is_own = subscription is not None and event.group_type is not GroupType.CLASSIC
        host = subscription.client_host if subscription is not None and is_own else None
        returns: list[list[Any]] = [*memory.notes.pop(event.instance_id, []), [now.at_ms, host]][-wanted:]
        memory.notes[event.instance_id] = returns
        if len(memory.notes) > _MOST_RECENT:
            # Forget the member that came back longest ago.
            del memory.notes[next(iter(memory.notes))]
        if len(returns) < wanted or not _is_within(step.limits.flapping_window_ms, returns[0][0], now.at_ms):
            continue
        hosts = sorted({str(host) for _, host in returns if host is not None})
        where = f"from {' and '.join(hosts)}" if len(hosts) < 4 else f"from {len(hosts)} hosts"
        if not hosts:
            where = "from hosts not on record: a classic group keeps that of the first member"
        yield Observation(
            (event.instance_id,),
            returns[0][0],
            now.at_ms,
            f"static member {event.instance_id} joined again {wanted} times from {time_text(returns[0][0])} to "
            f"{time_text(now.at_ms)}, {where}",
            event.partition,
            event.offset,
            {"instance_id": event.instance_id, "client_hosts": hosts},
            goes_on_ms=step.limits.flapping_window_ms,
            member_id=event.member_id,
        )


PROGRESS_RULES: tuple[GroupRule, ...] = (
    invariant_broken,
    stuck_group,
    unrevoked_partitions,
    rebalance_storm,
    static_member_flapping,
)
