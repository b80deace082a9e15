"""A summary of many rebalances in three sentences: their number and causes, the groups, and the costs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from coordinator_replay.listing import counted, listed
from coordinator_replay.query.impact import CommonTrait, traits_of
from coordinator_replay.query.rebalances import Rebalance
from coordinator_replay.query.tables import Tables
from coordinator_replay.times import duration_within, moment_text

_CLIENTS = """
    SELECT group_id, member_id,
           arg_max(coalesce(instance_id, CASE WHEN NOT coalesce(is_client_inherited, false)
                                              THEN client_id || coalesce(' on ' || ltrim(client_host, '/'), '') END),
                   from_offset)
    FROM member_timeline WHERE cluster = $cluster {of_groups} GROUP BY group_id, member_id
"""

_NAMES = """
    SELECT member_id, coalesce(min(instance_id), min(client_id), member_id) FROM member_timeline
    WHERE cluster = $cluster AND group_id = $group GROUP BY member_id
"""

MOST_UNSUMMED = 5
"""Largest number of rebalances without a summary: people can read these one by one."""

_MOST_NAMED = 3
"""Largest number of causes or groups that a sentence names. The sentence only counts all others."""


def summary_of(
    rebalances: Sequence[Rebalance],
    clients: Mapping[tuple[str, str], str],
    traits: Sequence[CommonTrait],
    *,
    is_complete: bool = True,
) -> list[str]:
    """Return three sentences about rebalances.

    Args:
        rebalances: at least one, in the order in which they began.
        clients: names of members, by group and member id.
        traits: what the groups have in common, such as a host. The sentences name only the first of them.
        is_complete: whether no record is missing. If records are missing, the sentences say "at least".
    """
    least = "" if is_complete and not any(rebalance.lacks_records for rebalance in rebalances) else "At least "
    times = [rebalance.shown_at for rebalance in rebalances if rebalance.shown_at is not None]
    when = f" from {moment_text(min(times))} to {moment_text(max(times))}" if times else ""
    causes = _most((rebalance.cause or "UNKNOWN" for rebalance in rebalances), "other causes")
    groups = Counter(rebalance.group_id for rebalance in rebalances)
    most = (
        f"By group: {_most((rebalance.group_id for rebalance in rebalances), 'other groups')}; "
        if len(groups) > 1
        else ""
    )
    second = f"{most}{_triggers(rebalances, clients)}{_in_common(traits)}."
    return [
        f"{least}{counted(len(rebalances), 'rebalance')} of {counted(len(groups), 'group')}{when}: {causes}.",
        second[0].upper() + second[1:],
        f"Longest: {_longest(rebalances)}.",
    ]


def group_note(tables: Tables, group: str, rebalances: Sequence[Rebalance], *, is_complete: bool) -> str | None:
    """Return a note that sums up the rebalances of a group: for example, their number and the longest rebalance.

    Return None if there are no rebalances.

    Args:
        tables: the tables to read.
        group: id of the group.
        rebalances: the group's rebalances, in the order in which they began.
        is_complete: whether no record is missing. If records are missing, the note says "at least".
    """
    if not rebalances:
        return None
    least = "" if is_complete and not any(rebalance.lacks_records for rebalance in rebalances) else "At least "
    parts = [f"{least}{counted(len(rebalances), 'rebalance')}", *_failed(rebalances), *_longest_took(rebalances)]
    names = dict(tables.rows(_NAMES, group=group))
    moved = [
        f"{what} {_most((names.get(member, member) for member in members), 'other clients')}"
        for what, members in (
            ("joined", [member for rebalance in rebalances for member in rebalance.members_joined or ()]),
            ("left", [member for rebalance in rebalances for member in rebalance.members_left or ()]),
        )
        if members
    ]
    return f"{'; '.join([*parts, *moved])}."


def _failed(rebalances: Sequence[Rebalance]) -> list[str]:
    """Return a text with the number of failed attempts to rebalance. Only classic groups have failed attempts.

    A failed attempt raises the generation, but leaves no record. The text is the only item of a list. The list is empty
    if the number is not on record.
    """
    known = [
        rebalance
        for rebalance in rebalances
        if rebalance.group_type == "classic" and rebalance.attempts is not None and not rebalance.lacks_records
    ]
    failed = {rebalance.epoch: attempts - 1 for rebalance in known if (attempts := rebalance.attempts or 1) > 1}
    if not failed:
        return ["no failed attempt on record"] if known and len(known) == len(rebalances) else []
    before = f"before generation {listed(list(failed), _MOST_NAMED)}"
    return [f"{counted(sum(failed.values()), 'failed attempt')} ({before})"]


def _longest_took(rebalances: Sequence[Rebalance]) -> list[str]:
    """Return a text with the duration of the longest rebalance, or with bounds of this duration.

    The text is the only item of a list. The list is empty if no duration and no bound is known.
    """
    over = [rebalance for rebalance in rebalances if rebalance.is_over]
    least = max((ms for rebalance in over if (ms := rebalance.duration_ms_min) is not None), default=None)
    most = max((ms for rebalance in over if (ms := rebalance.limit_ms) is not None), default=None)
    text = duration_within(least, most)
    unknown = sum(rebalance.limit_ms is None for rebalance in over)
    open_ones = f" ({unknown:,} without an upper bound)" if unknown and most is not None else ""
    return [f"the longest took {text}{open_ones}"] if text else []


def clients_of(tables: Tables, groups: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return names of the members of some groups, by group and member id.

    A name is the instance id, or client id and host. Members without a name are left out.
    """
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
    """Return three sentences about the rebalances of a time range.

    Return an empty list if there are at most ``MOST_UNSUMMED`` rebalances.
    """
    if len(rebalances) <= MOST_UNSUMMED:
        return []
    groups = sorted({rebalance.group_id for rebalance in rebalances})
    traits = traits_of(tables, groups, start, end)
    return summary_of(rebalances, clients_of(tables, groups), traits, is_complete=is_complete)


def _most(names: Iterable[str], others: str) -> str:
    counts = Counter(names).most_common()
    # A single other name takes no more room than a count.
    if len(counts) > _MOST_NAMED + 1:
        counts[_MOST_NAMED:] = [(others, sum(count for _, count in counts[_MOST_NAMED:]))]
    return ", ".join(f"{name} {count:,}" for name, count in counts)


def _triggers(rebalances: Sequence[Rebalance], clients: Mapping[tuple[str, str], str]) -> str:
    """Return a text with the number of rebalances that members triggered, and the clients that triggered the most."""
    members = {(rebalance.group_id, member) for rebalance in rebalances for member in rebalance.trigger_members or ()}
    triggered = sum(bool(rebalance.trigger_members) for rebalance in rebalances)
    by_client = Counter(
        name
        for rebalance in rebalances
        for name in {clients.get((rebalance.group_id, member)) for member in rebalance.trigger_members or ()}
        if name is not None
    )
    count = max(by_client.values(), default=0)
    most = sorted(name for name, own in by_client.items() if own == count)
    often = f", most often by {_joined(most)} ({count:,}{' each' * (len(most) > 1)})" if count > 1 else ""
    return f"{triggered:,} of {len(rebalances):,} set off by {len(members):,} member{'s' * (len(members) != 1)}{often}"


def _joined(names: Sequence[str]) -> str:
    """Return names as a part of a sentence, such as ``a, b and c``."""
    if len(names) > _MOST_NAMED:
        return listed(names, _MOST_NAMED)
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _in_common(traits: Sequence[CommonTrait]) -> str:
    """Return a clause on what groups have in common, such as a host, with the numbers of groups.

    Return an empty text if ``traits`` is empty.

    Args:
        traits: what the groups have in common. The clause is about the first of them.
    """
    if not traits:
        return ""
    trait = traits[0]
    return (
        f"; in common: {trait.trait} {trait.value} ({trait.concerned:,} of {trait.concerned_groups:,} groups, "
        f"{trait.others:,} of {trait.other_groups:,} others)"
    )


def _longest(rebalances: Sequence[Rebalance]) -> str:
    """Return a text with the longest commit pause and the longest duration among some rebalances.

    If a rebalance without an exact duration may have taken longer, the text also has an upper bound.
    """
    paused = max(rebalances, key=lambda rebalance: rebalance.commit_pause_ms or 0)
    exact = max(rebalances, key=lambda rebalance: rebalance.duration_ms or 0)
    least = " at least" * any(rebalance.is_pause_at_least for rebalance in rebalances)
    parts = [
        f"{what} {number:,} ms ({_named(trait)})"
        for what, trait, number in (
            (f"commits paused{least}", paused, paused.commit_pause_ms),
            ("exact duration", exact, exact.duration_ms),
        )
        if number
    ]
    parts += _bounds(rebalances, exact.duration_ms or 0)
    open_ends = Counter(rebalance.open_end for rebalance in rebalances if not rebalance.is_over)
    return "; ".join([*(parts or ["not on record"]), *(f"{count:,} {words}" for words, count in open_ends.items())])


def _bounds(rebalances: Sequence[Rebalance], exact_ms: int) -> Iterable[str]:
    """Yield at most one text, about rebalances whose exact duration is not on record.

    The text has the longest upper bound of these durations. Yield no text if all upper bounds are below ``exact_ms``.

    Args:
        rebalances: the rebalances.
        exact_ms: the longest duration among the rebalances whose exact duration is on record.
    """
    inexact = [rebalance for rebalance in rebalances if rebalance.is_over and rebalance.duration_ms is None]
    limits = [(limit_ms, rebalance) for rebalance in inexact if (limit_ms := rebalance.limit_ms) is not None]
    most_ms, longest = max(limits, key=lambda pair: pair[0], default=(0, None))
    if longest is None or most_ms <= exact_ms:
        return
    unbounded = len(inexact) - len(limits)
    rest = f", {unbounded:,} without an upper bound below 5 minutes" if unbounded else ""
    yield f"duration not exact, {duration_within(None, most_ms)} ({_named(longest)}){rest}"


def _named(rebalance: Rebalance) -> str:
    return ", ".join(filter(None, (rebalance.group_id, rebalance.number)))
