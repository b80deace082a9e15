"""Words for the times and costs of a rebalance.

A cost that the log does not prove is a bound ("at least", "at most") or "not known", but never an exact value.
"""

from collections.abc import Iterable

from coordinator_replay.listing import counted_as
from coordinator_replay.query.rebalances import SHORT_WAIT_MS, Rebalance
from coordinator_replay.report.columns import Clock
from coordinator_replay.report.members import MemberIdentities
from coordinator_replay.times import duration


def time_heading(rebalances: Iterable[Rebalance]) -> str:
    """Return the heading of the column with the time of each rebalance: ``Began``, ``Ended``, or ``Began or ended``.

    The column has the start of each rebalance, or its end if its start is not on record.
    """
    has_start = {rebalance.started_at is not None for rebalance in rebalances}
    return "Began" if has_start == {True} else "Ended" if has_start == {False} else "Began or ended"


def shown_bound(rebalance: Rebalance, clock: Clock) -> str:
    """Return a text that says that the time shown for a rebalance is its end, because its start is not on record.

    Return an empty text if the start of the rebalance is shown, or no time.
    """
    if rebalance.started_at is not None or rebalance.completed_at is None:
        return ""
    ended = "ended by then" if rebalance.is_end_open else "its end"
    after = "" if rebalance.began_after is None else f"; began after {clock.text(rebalance.began_after)}"
    return f"{ended}{after}"


def took(rebalance: Rebalance) -> str:
    """Return a text that says how long a rebalance took, such as ``at least 5 s``."""
    if not rebalance.is_over:
        return rebalance.open_end
    if rebalance.duration_ms is not None:
        return duration(rebalance.duration_ms)
    # The join phase of a classic rebalance is not on record, and the sync alone shows nothing without an upper bound.
    least = [f"at least {duration(rebalance.duration_ms_min)}"] if rebalance.duration_ms_min else []
    most = [] if rebalance.limit_ms is None else [f"at most {duration(rebalance.limit_ms)}"]
    return ", ".join([*least, *most]) or "not known"


def moved(rebalance: Rebalance) -> str:
    """Return a text with the number of partitions that changed their owner in a rebalance.

    The text also has the number of all partitions, and the number of partitions that had no owner before the rebalance.
    The text is "not yet" if the rebalance has no generation or epoch yet.
    """
    if rebalance.epoch is None:
        return "not yet"
    added = f", {rebalance.partitions_added:,} newly assigned" if rebalance.partitions_added else ""
    return f"{counted_as(rebalance.partitions_reassigned)} of {counted_as(rebalance.partitions_total)}{added}"


def member_counts(rebalance: Rebalance) -> str:
    """Return a text with the numbers of members before and after a rebalance, such as ``3 → 4``."""
    return f"{counted_as(rebalance.members_before)} → {counted_as(rebalance.members_after)}"


def unowned(rebalance: Rebalance) -> str:
    """Return a text with the longest time that a partition had no owner in a rebalance."""
    return "not on record" if rebalance.unowned_ms_max is None else duration(rebalance.unowned_ms_max)


def pause(rebalance: Rebalance) -> str:
    """Return a text with the commit pause around a rebalance, such as ``at least 5 s``."""
    if rebalance.commit_pause_ms is None:
        return "not known"
    return f"{'at least ' * rebalance.is_pause_at_least}{duration(rebalance.commit_pause_ms)}"


def blocked_by(rebalance: Rebalance, members: MemberIdentities) -> str:
    """Return a text with the member that blocked a rebalance, and how long other members waited for it.

    The text is empty if no such member is on record, or if the wait was short.
    """
    if rebalance.held_up_by is None or (rebalance.held_up_ms or 0) < SHORT_WAIT_MS:
        return ""
    return f"{members.label(rebalance.held_up_by)}, {duration(rebalance.held_up_ms)}"


def worst(rebalances: Iterable[Rebalance]) -> tuple[str, str, str]:
    """Return the worst cost of some rebalances: its value, its name, and a remark.

    The worst cost is the longest commit pause around a rebalance. If no pause is on record, the worst cost is the
    longest time that a partition had no owner. It is a lower bound if this time is not on record for all rebalances.
    """
    listed = list(rebalances)
    pauses = [rebalance.commit_pause_ms for rebalance in listed if rebalance.commit_pause_ms is not None]
    if pauses:
        least = "at least " * any(rebalance.is_pause_at_least for rebalance in listed)
        return f"{least}{duration(max(pauses))}", "longest pause of commits", "of one partition, around a rebalance"
    times = [rebalance.unowned_ms_max for rebalance in listed]
    longest_ms = max((time_ms for time_ms in times if time_ms is not None), default=None)
    name = "longest without owner"
    if None not in times and longest_ms is not None:
        return duration(longest_ms), name, "of one partition, in a rebalance"
    if longest_ms:
        return f"at least {duration(longest_ms)}", name, "of one partition, in a rebalance"
    return "–", name, "no such time is on record"
