"""One rebalance as people read it: the reason first, then what it took, and the records it rests on."""

from collections import Counter
from typing import TYPE_CHECKING

from coordinator_replay.cli.output import print_text
from coordinator_replay.listing import counted, counted_as, listed, ranges_by_topic
from coordinator_replay.times import moment_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_replay.query.hold_ups import HoldUp
    from coordinator_replay.query.rebalances import Rebalance

_MOST_NAMED = 8
"""Partitions or members that a line names; the rest is counted."""


def _duration(one: "Rebalance") -> str:
    """How long it took; of a classic rebalance what the log proves, which is the sync and a limit."""
    if not one.is_over:
        return "when it was over is not on record" if one.is_end_missing else "not over at the end of the log"
    if one.duration_ms is not None:
        return f"took {one.duration_ms:,} ms"
    if one.is_end_open:
        return "the log does not show when it was over, and how long it took"
    if one.duration_ms_min is None:
        return "the log does not show how long it took"
    most = "" if one.limit_ms is None else f", the whole rebalance at most {one.limit_ms:,} ms"
    return f"sync took {one.duration_ms_min:,} ms{most}; its join phase is not on record"


def _cost(one: "Rebalance") -> str:
    parts = [
        f"{counted_as(one.members_before)} to {counted(one.members_after, 'member')}",
        f"{counted(one.partitions_reassigned, 'partition')} reassigned",
        f"{one.partitions_added or 0:,} newly assigned",
    ]
    if one.unowned_ms_max:
        parts.append(f"longest without an owner {one.unowned_ms_max:,} ms")
    if one.commit_pause_ms is not None:
        parts.append(f"commits paused {'at least ' * one.is_pause_at_least}{one.commit_pause_ms:,} ms")
    # Of others there may have been members and partitions before that are not on record.
    return f"{'' if one.is_exact is not False else 'on record: '}{', '.join(parts)}"


def _blocked(one: "HoldUp") -> str:
    client = " on ".join(name.lstrip("/") for name in (one.client_id, one.client_host) if name)
    name = f"{one.member_id} ({client})" if client else one.member_id
    waiting = [member_id for member_id in one.waiting if member_id != one.member_id]
    names = (partition.rpartition("-") for partition in one.partitions)
    partitions = ranges_by_topic((topic, int(number)) for topic, _, number in names)
    return f"held up by member {name}: {listed(waiting, _MOST_NAMED)} waited {one.waited_ms:,} ms for {partitions}"


def _times(reasons: "Sequence[str]") -> "list[tuple[str, int]]":
    """Return how often each reason was given, in the order in which they came."""
    return list(Counter(reasons).items())


def print_reason(one: "Rebalance", hold_up: "HoldUp | None" = None) -> None:
    """Print one rebalance with its reason.

    Args:
        one: the rebalance.
        hold_up: the member that blocked it, where one did.
    """
    from coordinator_replay.query.rebalances import SHORT_WAIT_MS

    began = one.started_at or one.completed_at
    sure = f", {one.confidence}" if one.confidence else ""
    when = "at an unknown time" if began is None else f"{'by ' * one.is_end_open}{moment_text(began)}"
    matched = " (matched by an alternative)" if one.matched_by == "alternative" else ""
    parts = [when, one.group_id, one.number, f"{one.cause or 'UNKNOWN'}{sure}{matched}"]
    print_text("  ".join(filter(None, parts)), style={"bold": True})
    print_text(_duration(one), indent="  ")
    if one.members_after is not None:
        print_text(_cost(one), indent="  ")
    if hold_up is not None and hold_up.waited_ms >= SHORT_WAIT_MS:
        print_text(_blocked(hold_up), indent="  ")
    for fact in one.evidence or ():
        print_text(f"- {fact}", indent="  ")
    if one.reasons and len(one.reasons) > 1:
        reasons = [reason.rstrip(".") for reason in one.reasons]
        print_text(f"reasons of the coordinator: {listed(reasons, _MOST_NAMED, '; ')}", indent="  ")
    if one.client_reasons:
        given = [f"{reason} ({times:,} times)" if times > 1 else reason for reason, times in _times(one.client_reasons)]
        print_text(f"reasons of clients: {listed(given, _MOST_NAMED, '; ')}", indent="  ")
    if one.alternatives:
        print_text(f"could also be: {', '.join(one.alternatives)}", indent="  ")
    if one.exactness_note is not None:
        print_text(one.exactness_note, indent="  ")
