"""Output of one rebalance for people: first the reason, then the costs, then the records of the evidence."""

from collections import Counter
from typing import TYPE_CHECKING

from coordinator_replay.cli import work
from coordinator_replay.cli.output import print_text
from coordinator_replay.listing import counted, counted_as, listed, ranges_by_topic
from coordinator_replay.times import moment_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_replay.query.hold_ups import HoldUp
    from coordinator_replay.query.rebalances import Rebalance

_MOST_NAMED = 8
"""Largest number of partitions or members that a line names; the rest is counted."""


def _duration(rebalance: "Rebalance") -> str:
    """Return its duration; for a classic rebalance, the duration of the sync and the limit that the log proves."""
    if not rebalance.is_over:
        return "when it was over is not on record" if rebalance.is_end_missing else "not over at the end of the log"
    if rebalance.duration_ms is not None:
        return f"took {rebalance.duration_ms:,} ms"
    if rebalance.is_end_open:
        return "the log does not show when it was over, and how long it took"
    # A lower bound of 0 says nothing: records before it may have later times, if brokers' clocks differ.
    if not rebalance.duration_ms_min and rebalance.limit_ms is None:
        return "the log does not show how long it took"
    most = "" if rebalance.limit_ms is None else f", the whole rebalance at most {rebalance.limit_ms:,} ms"
    return f"sync took {rebalance.duration_ms_min:,} ms{most}; its join phase is not on record"


def _cost(rebalance: "Rebalance") -> str:
    parts = [
        f"{counted_as(rebalance.members_before)} to {counted(rebalance.members_after, 'member')}",
        f"{counted(rebalance.partitions_reassigned, 'partition')} reassigned",
        f"{rebalance.partitions_added or 0:,} newly assigned",
    ]
    if rebalance.unowned_ms_max:
        parts.append(f"longest without an owner {rebalance.unowned_ms_max:,} ms")
    if rebalance.commit_pause_ms is not None:
        parts.append(f"commits paused {'at least ' * rebalance.is_pause_at_least}{rebalance.commit_pause_ms:,} ms")
    # In other rebalances there may have been earlier members and partitions that are not on record.
    return f"{'' if rebalance.is_exact is not False else 'on record: '}{', '.join(parts)}"


def _blocked(hold_up: "HoldUp") -> str:
    client = " on ".join(name.lstrip("/") for name in (hold_up.client_id, hold_up.client_host) if name)
    name = f"{hold_up.member_id} ({client})" if client else hold_up.member_id
    waiting = [member_id for member_id in hold_up.waiting if member_id != hold_up.member_id]
    names = (partition.rpartition("-") for partition in hold_up.partitions)
    partitions = ranges_by_topic((topic, int(number)) for topic, _, number in names)
    return f"held up by member {name}: {listed(waiting, _MOST_NAMED)} waited {hold_up.waited_ms:,} ms for {partitions}"


def _times(reasons: "Sequence[str]") -> "list[tuple[str, int]]":
    """Return each reason with the number of times it was given, in order of first appearance."""
    return list(Counter(reasons).items())


def print_reason(rebalance: "Rebalance", hold_up: "HoldUp | None" = None) -> None:
    """Print one rebalance with its reason.

    Args:
        rebalance: the rebalance.
        hold_up: the member that blocked it, if there was one.
    """
    began = rebalance.started_at or rebalance.completed_at
    sure = f", {rebalance.confidence}" if rebalance.confidence else ""
    when = "at an unknown time" if began is None else f"{'by ' * rebalance.is_end_open}{moment_text(began)}"
    matched = " (matched by an alternative)" if rebalance.matched_by == "alternative" else ""
    parts = [when, rebalance.group_id, rebalance.number, f"{rebalance.cause or 'UNKNOWN'}{sure}{matched}"]
    print_text("  ".join(filter(None, parts)), style={"bold": True})
    print_text(_duration(rebalance), indent="  ")
    if rebalance.members_after is not None:
        print_text(_cost(rebalance), indent="  ")
    if hold_up is not None and hold_up.waited_ms >= work.SHORT_WAIT_MS:
        print_text(_blocked(hold_up), indent="  ")
    for fact in rebalance.evidence or ():
        print_text(f"- {fact}", indent="  ")
    if rebalance.reasons and len(rebalance.reasons) > 1:
        reasons = [reason.rstrip(".") for reason in rebalance.reasons]
        print_text(f"reasons of the coordinator: {listed(reasons, _MOST_NAMED, '; ')}", indent="  ")
    if rebalance.client_reasons:
        given = [
            f"{reason} ({times:,} times)" if times > 1 else reason for reason, times in _times(rebalance.client_reasons)
        ]
        print_text(f"reasons of clients: {listed(given, _MOST_NAMED, '; ')}", indent="  ")
    if rebalance.alternatives:
        print_text(f"could also be: {', '.join(rebalance.alternatives)}", indent="  ")
    if rebalance.exactness_note is not None:
        print_text(rebalance.exactness_note, indent="  ")
