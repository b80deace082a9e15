"""Many rebalances in three sentences: how many and why, which groups, and what they cost."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from coordinator_replay.listing import counted
from coordinator_replay.query.impact import CommonTrait, traits_of
from coordinator_replay.query.rebalances import Rebalance
from coordinator_replay.query.tables import Tables, shown

_CLIENTS = """
    SELECT group_id, member_id,
           arg_max(coalesce(instance_id, CASE WHEN NOT coalesce(is_client_inherited, false)
                                              THEN client_id || coalesce(' on ' || ltrim(client_host, '/'), '') END),
                   from_offset)
    FROM member_timeline WHERE cluster = $cluster {of_groups} GROUP BY group_id, member_id
"""

MOST_UNSUMMED = 10
"""Rebalances that are read one by one without a summary."""

_MOST_NAMED = 3
"""Causes, or groups, that a sentence names; the others are counted."""


def summary_of(
    rebalances: Sequence[Rebalance],
    clients: Mapping[tuple[str, str], str],
    traits: Sequence[CommonTrait],
    *,
    is_complete: bool = True,
) -> list[str]:
    """Three sentences over rebalances.

    Args:
        rebalances: at least one, in the order in which they began.
        clients: names of members, by group and member id.
        traits: what the groups have in common, the most telling first.
        is_complete: whether no record of the time range is missing: there may have been others else.
    """
    least = "" if is_complete and not any(one.lacks_records for one in rebalances) else "At least "
    times = [one.began_by for one in rebalances if one.began_by is not None]
    when = f" from {shown(min(times))} to {shown(max(times))}" if times else ""
    causes = _most((one.cause or "UNKNOWN" for one in rebalances), "by {} other cause{}")
    groups = Counter(one.group_id for one in rebalances)
    most = (
        f"By group: {_most((one.group_id for one in rebalances), 'in {} other group{}')}; " if len(groups) > 1 else ""
    )
    second = f"{most}{_triggers(rebalances, clients)}{_in_common(traits)}."
    return [
        f"{least}{counted(len(rebalances), 'rebalance')} of {counted(len(groups), 'group')}{when}: {causes}.",
        second[0].upper() + second[1:],
        f"Longest: {_longest(rebalances)}.",
    ]


def clients_of(tables: Tables, groups: Sequence[str]) -> dict[tuple[str, str], str]:
    """Names of the members of some groups: instance id, or client and host."""
    by_group = tables.rows_by_group(_CLIENTS, groups)
    return {(group, member): name for group, rows in by_group.items() for member, name in rows if name}


def summary_between(
    tables: Tables,
    rebalances: Sequence[Rebalance],
    start: datetime | None,
    end: datetime | None,
    *,
    is_complete: bool = True,
) -> list[str]:
    """Three sentences over the rebalances of a time range; none where they are few enough to be read one by one."""
    if len(rebalances) <= MOST_UNSUMMED:
        return []
    groups = sorted({one.group_id for one in rebalances})
    traits = traits_of(tables, groups, start, end)
    return summary_of(rebalances, clients_of(tables, groups), traits, is_complete=is_complete)


def _most(names: Iterable[str], others: str) -> str:
    counts = Counter(names).most_common()
    named = ", ".join(f"{name} {count:,}" for name, count in counts[:_MOST_NAMED])
    rest = counts[_MOST_NAMED:]
    return (
        f"{named}, {sum(count for _, count in rest):,} {others.format(len(rest), 's' * (len(rest) != 1))}"
        if rest
        else named
    )


def _triggers(rebalances: Sequence[Rebalance], clients: Mapping[tuple[str, str], str]) -> str:
    """How many members set them off, and the client that did it most: a restarted one has a member id each time."""
    members = {(one.group_id, member) for one in rebalances for member in one.trigger_members or ()}
    triggered = sum(bool(one.trigger_members) for one in rebalances)
    by_client = Counter(
        name
        for one in rebalances
        for name in {clients.get((one.group_id, member)) for member in one.trigger_members or ()}
        if name is not None
    )
    name, count = max(by_client.items(), key=lambda one: (one[1], one[0]), default=("", 0))
    often = f", most often by {name} ({count:,})" if count > 1 else ""
    return f"{triggered:,} of {len(rebalances):,} set off by {len(members):,} member{'s' * (len(members) != 1)}{often}"


def _in_common(traits: Sequence[CommonTrait]) -> str:
    """What is commonest among the groups, with the count of the others."""
    if not traits:
        return ""
    one = traits[0]
    return (
        f"; in common: {one.trait} {one.value} ({one.concerned:,} of {one.concerned_groups:,} groups, "
        f"{one.others:,} of {one.other_groups:,} others)"
    )


def _longest(rebalances: Sequence[Rebalance]) -> str:
    """The longest of what can be compared: pauses of commits for all protocols, exact durations for some."""
    paused = max(rebalances, key=lambda one: one.commit_pause_ms or 0)
    exact = max(rebalances, key=lambda one: one.duration_ms or 0)
    least = " at least" * any(one.is_pause_at_least for one in rebalances)
    parts = [
        f"{what} {number:,} ms ({one.group_id}, epoch {one.epoch})"
        for what, one, number in (
            (f"commits paused{least}", paused, paused.commit_pause_ms),
            ("exact duration", exact, exact.duration_ms),
        )
        if number
    ]
    open_ones = sum(not one.is_over for one in rebalances)
    return "; ".join([*(parts or ["not on record"]), *([f"{open_ones:,} not over"] if open_ones else [])])
