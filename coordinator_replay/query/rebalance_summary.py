"""Many rebalances in three sentences: how many and why, which groups, and what they cost."""

from collections import Counter
from collections.abc import Iterable, Sequence

from coordinator_replay.query.rebalances import Rebalance
from coordinator_replay.query.tables import shown

MOST_UNSUMMED = 10
"""Rebalances that are read one by one without a summary."""

_MOST_NAMED = 3
"""Causes, or groups, that a sentence names; the others are counted."""


def summary_of(rebalances: Sequence[Rebalance]) -> list[str]:
    """Three sentences over rebalances.

    Args:
        rebalances: at least one, in the order in which they began.
    """
    times = [one.began_by for one in rebalances if one.began_by is not None]
    when = f" from {shown(min(times))} to {shown(max(times))}" if times else ""
    causes = _most((one.cause or "UNKNOWN" for one in rebalances), "by {} other causes")
    groups = Counter(one.group_id for one in rebalances)
    return [
        f"{len(rebalances):,} rebalances of {len(groups):,} group{'s' * (len(groups) > 1)}{when}: {causes}.",
        f"Most of {_most((one.group_id for one in rebalances), 'in {} other groups')}; {_triggers(rebalances)}.",
        f"Longest: {_longest(rebalances)}.",
    ]


def _most(names: Iterable[str], others: str) -> str:
    counts = Counter(names).most_common()
    named = ", ".join(f"{name} {count:,}" for name, count in counts[:_MOST_NAMED])
    rest = counts[_MOST_NAMED:]
    return f"{named}, {sum(count for _, count in rest):,} {others.format(len(rest))}" if rest else named


def _triggers(rebalances: Sequence[Rebalance]) -> str:
    """How many members set them off: few that did it often, or each another one."""
    members = {(one.group_id, member) for one in rebalances for member in one.trigger_members or ()}
    triggered = sum(bool(one.trigger_members) for one in rebalances)
    return f"{triggered:,} set off by {len(members):,} member{'s' * (len(members) != 1)}"


def _longest(rebalances: Sequence[Rebalance]) -> str:
    """The longest of what can be compared: pauses of commits for all protocols, exact durations for some."""
    paused = max(rebalances, key=lambda one: one.commit_pause_ms or 0)
    exact = max(rebalances, key=lambda one: one.duration_ms or 0)
    parts = [
        f"{what} {number:,} ms ({one.group_id}, epoch {one.epoch})"
        for what, one, number in (
            ("commits paused", paused, paused.commit_pause_ms),
            ("of those with an exact duration", exact, exact.duration_ms),
        )
        if number
    ]
    open_ones = sum(not one.is_over for one in rebalances)
    return "; ".join([*(parts or ["not on record"]), *([f"{open_ones:,} not over"] if open_ones else [])])
