"""Data of two figures on a group's page: the owners of each partition, and the partitions of each member."""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from coordinator_replay.report.columns import Clock, Columns, columns, packed
from coordinator_replay.report.gaps import Gap, gaps_of
from coordinator_replay.report.life import GroupLife, MemberSpan, OwnedInterval
from coordinator_replay.report.members import MemberIdentities
from coordinator_replay.report.wording import neutral
from coordinator_replay.times import duration, milliseconds

MOST_ROWS = 1000
"""Largest number of rows of a figure; no screen shows more rows separately."""

OWNED = ("left", "right", "row", "partition", "client", "member", "instance", "colour", "release", "length")
GAPS = ("left", "right", "row", "partition", "length", "before", "release")
MEMBERS = (
    *("left", "right", "row", "height", "colour", "client", "member", "instance", "state", "epoch", "partitions"),
    *("assigned", "pending"),
)
REVOKING = ("left", "right", "row")
_ENDS = ("left", "right")

Partition = tuple[str, int]
"""A topic's name, and the number of one of its partitions."""


def partitions_of(life: GroupLife) -> Mapping[Partition, Sequence[OwnedInterval]]:
    """Return ownerships by partition, sorted by topic and partition number."""
    partitions: dict[Partition, list[OwnedInterval]] = {}
    for holding in life.holdings:
        partitions.setdefault((holding.topic, holding.partition), []).append(holding)
    return {partition: partitions[partition] for partition in sorted(partitions)}


def partition_columns(life: GroupLife, clock: Clock, members: MemberIdentities) -> Mapping[str, Columns]:
    """Return bars for the owners of each partition, and bars for the times without an owner.

    The page's script reads them as columns.
    """
    shown = list(partitions_of(life).items())[:MOST_ROWS]
    names = [neutral(f"{topic}-{partition}") for (topic, partition), _ in shown]
    end_ms = milliseconds(life.end)
    gaps: list[dict[str, Any]] = []
    for row, (_, holdings) in enumerate(shown):
        for gap in gaps_of(holdings, end_ms):
            left, right = clock.left(gap.since_ms), clock.right(gap.until_ms)
            if right > left:
                gaps.append(
                    {
                        "left": left,
                        "right": right,
                        "row": row,
                        "partition": names[row],
                        "length": _gap_length(right - left, gap),
                        "before": members.label(gap.before.member_id),
                        "release": neutral(gap.before.released_by or "not known"),
                    }
                )
    return {"owned": _owned(shown, names, clock, members), "gaps": columns(gaps, GAPS, _ENDS)}


def _gap_length(length_ms: int, gap: Gap) -> str:
    """Return in words how long nobody owned a partition."""
    if gap.is_lower_bound:
        return f"at least {duration(length_ms)}: the join phase is not on record"
    return duration(length_ms)


def _owned(
    shown: Sequence[tuple[Partition, Sequence[OwnedInterval]]],
    names: Sequence[str],
    clock: Clock,
    members: MemberIdentities,
) -> Columns:
    """Return ownerships as columns that the page's script reads."""
    # There may be tens of thousands of ownerships. To build the columns directly is faster than ``columns``, which
    # needs a mapping for each row.
    every = [holding for _, holdings in shown for holding in holdings]
    rows = [row for row, (_, holdings) in enumerate(shown) for _ in holdings]
    lefts = clock.lefts(holding.from_ms for holding in every)
    rights = clock.rights(holding.to_ms for holding in every)
    ids = [holding.member_id for holding in every]
    labels = {member_id: members.label(member_id) for member_id in set(ids)}
    colours = {member_id: members.colour(member_id) for member_id in labels}
    return packed(
        {
            "left": lefts,
            "right": rights,
            "row": rows,
            "partition": [names[row] for row in rows],
            "client": [labels[member_id] for member_id in ids],
            "member": [neutral(member_id) for member_id in ids],
            "instance": [neutral(holding.instance_id or "-") for holding in every],
            "colour": [colours[member_id] for member_id in ids],
            "release": [neutral(holding.released_by or "still owned") for holding in every],
            "length": [duration(max(right - left, 0)) for left, right in zip(lefts, rights, strict=True)],
        },
        _ENDS,
    )


def identities_of(life: GroupLife, members: MemberIdentities) -> Mapping[str, str]:
    """Return the label of each member, by identity: the instance id of a static member, else the member id.

    The page has a row for each identity, also if a static member had several member ids.
    """
    return {members.identity(member.member_id): members.label(member.member_id) for member in life.members}


def member_columns(life: GroupLife, clock: Clock, members: MemberIdentities) -> Mapping[str, Columns]:
    """Return the bars that show when each member was in the group, as columns that the page's script reads.

    The more partitions the member had, the higher is the bar. The second set of columns has the bars' hatching: the
    times in which a member had to give up partitions.
    """
    place = {identity: row for row, identity in enumerate(list(identities_of(life, members))[:MOST_ROWS])}
    most = max((member.partitions for member in life.members), default=0) or 1
    shown = [member for member in life.members if members.identity(member.member_id) in place]
    values: dict[str, list[Any]] = {
        "left": clock.lefts(member.from_ms for member in shown),
        "right": clock.rights(member.to_ms for member in shown),
        "row": [place[members.identity(member.member_id)] for member in shown],
        "height": [round(0.08 + 0.78 * member.partitions / most, 3) for member in shown],
        "colour": [members.colour(member.member_id) for member in shown],
        "client": [_client(member) for member in shown],
        "member": [neutral(member.member_id) for member in shown],
        "instance": [neutral(member.instance_id or "-") for member in shown],
        "state": [member.member_state or "-" for member in shown],
        "epoch": ["-" if member.member_epoch is None else str(member.member_epoch) for member in shown],
        "partitions": [str(member.partitions) for member in shown],
        "assigned": [neutral(member.assigned or "none") for member in shown],
        "pending": [neutral(member.pending or "none") for member in shown],
    }
    is_revoking = [pending != "none" for pending in values["pending"]]
    revoking = {name: list(compress(values[name], is_revoking)) for name in REVOKING}
    return {"members": packed(values, _ENDS), "revoking": packed(revoking, _ENDS)}


def _client(member: MemberSpan) -> str:
    client = f"{member.client_id or '-'} {member.client_host or ''}"
    return neutral(f"not on record; its first process was {client}" if member.is_client_inherited else client)
