"""Who owned what: a row for each partition, or a row for each member."""

from collections.abc import Mapping
from typing import Any

from bokeh.models import Range1d
from bokeh.plotting import figure

from coordinator_replay.query.life import GroupLife, Holding
from coordinator_replay.report.figures import (
    GAP_COLOUR,
    HATCHED,
    MEMBER_COLOURS,
    UNKNOWN_COLOUR,
    Stretch,
    add_hover,
    columns,
    duration,
    height_of,
    label_rows,
    neutral,
    time_figure,
)
from coordinator_replay.report.gaps import Wanted

MOST_ROWS = 1000
"""Rows of one figure; beyond that no screen tells them apart."""


def member_colours(life: GroupLife) -> dict[str, str]:
    """A colour for each member; a static member keeps its own under every member id."""
    identities = {member.member_id: member.instance_id or member.member_id for member in life.members}
    for holding in life.holdings:
        identities.setdefault(holding.member_id, holding.instance_id or holding.member_id)
    known = {
        name: MEMBER_COLOURS[place % len(MEMBER_COLOURS)]
        for place, name in enumerate(dict.fromkeys(identities.values()))
    }
    return {member_id: known[identity] for member_id, identity in identities.items()}


def owners_by_partition(life: GroupLife, times: Range1d, colours: Mapping[str, str]) -> figure:
    """A row for each partition: who owned it, and hatched in red when nobody did."""
    by_partition: dict[tuple[str, int], list[Holding]] = {}
    for holding in life.holdings:
        by_partition.setdefault((holding.topic, holding.partition), []).append(holding)
    partitions = sorted(by_partition)[:MOST_ROWS]
    stretch = Stretch(life.start, life.end)
    clients = {member.member_id: member.client_id for member in life.members}
    wanted = Wanted(life)
    owned, gaps = [], []
    for row, partition in enumerate(partitions):
        name = neutral(f"{partition[0]}-{partition[1]}")
        owned += [_owned(holding, row, name, stretch, colours, clients) for holding in by_partition[partition]]
        gaps += [
            {
                "left": left,
                "right": right,
                "row": row,
                "partition": name,
                "length": duration(round(right - left)),
                "before": neutral(holding.member_id),
                "release": neutral(holding.release_event or "not known"),
            }
            for since, until, holding in wanted.gaps(partition[0], by_partition[partition], life.end)
            if (right := stretch.right(until)) > (left := stretch.left(since))
        ]
    drawn = time_figure(
        "owners-by-partition",
        times,
        height=height_of(len(partitions), 16, 820),
        is_tall=True,
        title=_cut_title("Owners, a row for each partition", len(partitions), len(by_partition)),
    )
    names = ("left", "right", "row", "partition", "member", "instance", "client", "colour", "release", "length")
    bars = drawn.hbar(left="left", right="right", y="row", height=0.8, color="colour", source=columns(owned, names))
    gap_names = ("left", "right", "row", "partition", "length", "before", "release")
    holes = drawn.hbar(
        left="left",
        right="right",
        y="row",
        height=0.8,
        line_color=GAP_COLOUR,
        fill_color=GAP_COLOUR,
        fill_alpha=0.12,
        hatch_pattern="/",
        hatch_color=GAP_COLOUR,
        hatch_alpha=0.6,
        hatch_scale=6,
        source=columns(gaps, gap_names),
    )
    label_rows(drawn, [f"{topic}-{number}" for topic, number in partitions] or ["none"])
    lines = [("partition", "@partition"), ("owner", "@member"), ("instance", "@instance"), ("client", "@client")]
    lines += [("from", "@left"), ("to", "@right"), ("for", "@length"), ("released by", "@release")]
    add_hover(drawn, [bars], lines, ["left", "right"])
    lines = [("partition", "@partition"), ("nobody owned it for", "@length"), ("from", "@left"), ("to", "@right")]
    lines += [("last owner", "@before"), ("released by", "@release")]
    add_hover(drawn, [holes], lines, ["left", "right"])
    return drawn


def _cut_title(title: str, shown: int, rows: int) -> str:
    return title if shown == rows else f"{title} (the first {shown:,} of {rows:,})"


def _owned(
    holding: Holding,
    row: int,
    name: str,
    stretch: Stretch,
    colours: Mapping[str, str],
    clients: Mapping[str, str | None],
) -> dict[str, Any]:
    left, right = stretch.left(holding.owned_from), stretch.right(holding.owned_to)
    return {
        "left": left,
        "right": right,
        "row": row,
        "partition": name,
        "member": neutral(holding.member_id),
        "instance": neutral(holding.instance_id or "-"),
        "client": neutral(clients.get(holding.member_id) or "-"),
        "colour": colours.get(holding.member_id, UNKNOWN_COLOUR),
        "release": neutral(holding.release_event or "still owned"),
        "length": duration(round(max(right - left, 0))),
    }


def owners_by_member(life: GroupLife, times: Range1d, colours: Mapping[str, str]) -> figure:
    """A row for each member: a bar as high as its share of partitions; members with none are a thin line."""
    first: dict[str, str] = {}
    for member in life.members:
        first.setdefault(member.member_id, member.instance_id or member.member_id)
    shown = list(first)[:MOST_ROWS]
    place = {member_id: row for row, member_id in enumerate(shown)}
    most = max((member.partitions for member in life.members), default=0) or 1
    stretch = Stretch(life.start, life.end)
    rows = [
        {
            "left": stretch.left(member.valid_from),
            "right": stretch.right(member.valid_to),
            "row": place[member.member_id],
            "height": 0.08 + 0.78 * member.partitions / most,
            "colour": colours.get(member.member_id, UNKNOWN_COLOUR),
            "member": neutral(member.member_id),
            "instance": neutral(member.instance_id or "-"),
            "client": neutral(f"{member.client_id or '-'} {member.client_host or ''}"),
            "state": member.member_state or "-",
            "epoch": "-" if member.member_epoch is None else str(member.member_epoch),
            "partitions": str(member.partitions),
            "assigned": neutral(member.assigned or "none"),
            "pending": neutral(member.pending or "none"),
        }
        for member in life.members
        if member.member_id in place
    ]
    drawn = time_figure(
        "owners-by-member",
        times,
        height=height_of(len(shown), 22, 820),
        is_tall=True,
        visible=False,
        title=_cut_title("Members, each bar as high as its share of partitions", len(shown), len(first)),
    )
    names = ("left", "right", "row", "height", "colour", "member", "instance", "client", "state", "epoch")
    bars = drawn.hbar(
        left="left",
        right="right",
        y="row",
        height="height",
        color="colour",
        source=columns(rows, (*names, "partitions", "assigned", "pending")),
    )
    revoking = columns([row for row in rows if row["pending"] != "none"], ("left", "right", "row"))
    drawn.hbar(left="left", right="right", y="row", height=0.86, source=revoking, **HATCHED)
    label_rows(drawn, [first[member_id] for member_id in shown] or ["none"])
    lines = [("member", "@member"), ("instance", "@instance"), ("client", "@client"), ("state", "@state")]
    lines += [("epoch", "@epoch"), ("partitions", "@partitions"), ("owns", "@assigned"), ("must give up", "@pending")]
    add_hover(drawn, [bars], [*lines, ("from", "@left"), ("to", "@right")], ["left", "right"])
    return drawn
