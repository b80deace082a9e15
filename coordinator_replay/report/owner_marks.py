"""What a group's page shows of owners: a row for each partition, or a row for each member."""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_replay.query.life import GroupLife, Holding
from coordinator_replay.report.columns import Clock, Columns, columns
from coordinator_replay.report.gaps import Wanted
from coordinator_replay.report.members import Members
from coordinator_replay.report.wording import duration, neutral

MOST_ROWS = 1000
"""Rows of one figure; beyond that no screen tells them apart."""

OWNED = ("left", "right", "row", "partition", "client", "member", "instance", "colour", "release", "length")
GAPS = ("left", "right", "row", "partition", "length", "before", "release")
MEMBERS = (
    *("left", "right", "row", "height", "colour", "client", "member", "instance", "state", "epoch", "partitions"),
    *("assigned", "pending"),
)
REVOKING = ("left", "right", "row")
_ENDS = ("left", "right")


def partitions_of(life: GroupLife) -> Mapping[tuple[str, int], Sequence[Holding]]:
    """Ownerships by topic and partition, in their order."""
    found: dict[tuple[str, int], list[Holding]] = {}
    for holding in life.holdings:
        found.setdefault((holding.topic, holding.partition), []).append(holding)
    return {partition: found[partition] for partition in sorted(found)}


def partition_columns(life: GroupLife, clock: Clock, members: Members) -> Mapping[str, Columns]:
    """Who owned each partition, and when nobody did although the group wanted it."""
    wanted = Wanted(life)
    owned: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    for row, (partition, holdings) in enumerate(list(partitions_of(life).items())[:MOST_ROWS]):
        name = neutral(f"{partition[0]}-{partition[1]}")
        starts = {holding.owned_from for holding in holdings}
        owned += [_owned(holding, row, name, clock, members) for holding in holdings]
        gaps += [
            {
                "left": left,
                "right": right,
                "row": row,
                "partition": name,
                "length": _gap_length(right - left, holding, is_followed=until in starts),
                "before": members.label(holding.member_id),
                "release": neutral(holding.release_event or "not known"),
            }
            for since, until, holding in wanted.gaps(partition[0], holdings, life.end)
            if (right := clock.right(until)) > (left := clock.left(since))
        ]
    return {"owned": columns(owned, OWNED, _ENDS), "gaps": columns(gaps, GAPS, _ENDS)}


def _gap_length(length_ms: int, before: Holding, *, is_followed: bool) -> str:
    """How long nobody owned a partition: a lower bound where an owner followed after a time that is not on record."""
    if is_followed and before.unowned_ms is None:
        return f"at least {duration(length_ms)}: the join phase is not on record"
    return duration(length_ms)


def _owned(holding: Holding, row: int, name: str, clock: Clock, members: Members) -> dict[str, Any]:
    left, right = clock.left(holding.owned_from), clock.right(holding.owned_to)
    return {
        "left": left,
        "right": right,
        "row": row,
        "partition": name,
        "client": members.label(holding.member_id),
        "member": neutral(holding.member_id),
        "instance": neutral(holding.instance_id or "-"),
        "colour": members.colour(holding.member_id),
        "release": neutral(holding.release_event or "still owned"),
        "length": duration(max(right - left, 0)),
    }


def identities_of(life: GroupLife, members: Members) -> Mapping[str, str]:
    """The members that are rows, by identity, each with its name."""
    return {members.identity(one.member_id): members.label(one.member_id) for one in life.members}


def member_columns(life: GroupLife, clock: Clock, members: Members) -> Mapping[str, Columns]:
    """What each member owned, as a share of the most that one of them did."""
    place = {identity: row for row, identity in enumerate(list(identities_of(life, members))[:MOST_ROWS])}
    most = max((member.partitions for member in life.members), default=0) or 1
    rows = [
        {
            "left": clock.left(member.valid_from),
            "right": clock.right(member.valid_to),
            "row": row,
            "height": round(0.08 + 0.78 * member.partitions / most, 3),
            "colour": members.colour(member.member_id),
            "client": neutral(f"{member.client_id or '-'} {member.client_host or ''}"),
            "member": neutral(member.member_id),
            "instance": neutral(member.instance_id or "-"),
            "state": member.member_state or "-",
            "epoch": "-" if member.member_epoch is None else str(member.member_epoch),
            "partitions": str(member.partitions),
            "assigned": neutral(member.assigned or "none"),
            "pending": neutral(member.pending or "none"),
        }
        for member in life.members
        if (row := place.get(members.identity(member.member_id))) is not None
    ]
    revoking = [row for row in rows if row["pending"] != "none"]
    return {"members": columns(rows, MEMBERS, _ENDS), "revoking": columns(revoking, REVOKING, _ENDS)}
