"""What a rebalance cost, as far as the log proves: exact, a bound, or not known. Bounds are never shown as values."""

from collections.abc import Iterable

from coordinator_replay.listing import counted_as
from coordinator_replay.query.rebalances import SHORT_WAIT_MS, Rebalance
from coordinator_replay.report.members import MemberIdentities
from coordinator_replay.report.wording import duration


def unended(one: Rebalance) -> str:
    """Return what there is instead of the end of a rebalance that is not over."""
    return "end not on record" if one.is_end_missing else "not over"


def took(one: Rebalance) -> str:
    """Return how long it took."""
    if not one.is_over:
        return unended(one)
    if one.duration_ms is not None:
        return duration(one.duration_ms)
    # A classic rebalance: its join phase is not on record, and the sync says nothing without an upper bound.
    least = [f"at least {duration(one.duration_ms_min)}"] if one.duration_ms_min else []
    most = [] if one.limit_ms is None else [f"at most {duration(one.limit_ms)}"]
    return ", ".join([*least, *most]) or "not known"


def moved(one: Rebalance) -> str:
    """Return how many partitions changed hands, and how many had none before."""
    if one.epoch is None:
        return "not yet"
    added = f", {one.partitions_added:,} newly assigned" if one.partitions_added else ""
    return f"{counted_as(one.partitions_reassigned)} of {counted_as(one.partitions_total)}{added}"


def member_counts(one: Rebalance) -> str:
    """Return how many members there were before and after."""
    return f"{counted_as(one.members_before)} → {counted_as(one.members_after)}"


def unowned(one: Rebalance) -> str:
    """Return the longest time for which one of its partitions had no owner."""
    return "not on record" if one.unowned_ms_max is None else duration(one.unowned_ms_max)


def pause(one: Rebalance) -> str:
    """For how long commits paused around it."""
    if one.commit_pause_ms is None:
        return "not known"
    return f"{'at least ' * one.is_pause_at_least}{duration(one.commit_pause_ms)}"


def blocked_by(one: Rebalance, members: MemberIdentities) -> str:
    """Return the member that others waited for, and how long; empty where none is on record, or nobody waited long."""
    if one.held_up_by is None or (one.held_up_ms or 0) < SHORT_WAIT_MS:
        return ""
    return f"{members.label(one.held_up_by)}, {duration(one.held_up_ms)}"


def worst(rebalances: Iterable[Rebalance]) -> tuple[str, str, str]:
    """Return the worst that can be compared between protocols, else what is exact: value, what it is, more about it."""
    listed = list(rebalances)
    pauses = [one.commit_pause_ms for one in listed if one.commit_pause_ms is not None]
    if pauses:
        least = "at least " * any(one.is_pause_at_least for one in listed)
        return f"{least}{duration(max(pauses))}", "longest pause of commits", "of one partition, around a rebalance"
    exact = [one.unowned_ms_max for one in listed if one.unowned_ms_max is not None]
    hint = "of one partition, in a rebalance" if exact else "no such time is on record"
    return duration(max(exact)) if exact else "–", "longest without owner", hint
