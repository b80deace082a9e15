"""The page of one group: its life in figures, and its rebalances and expirations in tables beneath."""

from collections import Counter
from datetime import datetime

from coordinator_replay.query.life import GroupLife, life_of
from coordinator_replay.query.warehouse import Warehouse
from coordinator_replay.report.figures import time_range
from coordinator_replay.report.life_figures import rebalance_marks, state_band
from coordinator_replay.report.offset_figures import offset_lines
from coordinator_replay.report.owner_figures import member_colours, owners_by_member, owners_by_partition
from coordinator_replay.report.page import render_page

MOST_TABLE_ROWS = 2000
"""Rows of a table on the page; a browser lays out more only slowly."""

Tile = tuple[str, str, str]


def _tiles(life: GroupLife) -> list[Tile]:
    causes = Counter(rebalance.cause or "UNKNOWN" for rebalance in life.rebalances)
    top = ", ".join(f"{cause} {number:,}" for cause, number in causes.most_common(3))
    unowned = [rebalance.unowned_ms_max or 0 for rebalance in life.rebalances]
    members = {member.member_id for member in life.members}
    partitions = {(holding.topic, holding.partition) for holding in life.holdings}
    statuses = Counter(one.status for one in life.expirations)
    last = life.states[-1] if life.states else None
    return [
        (last.state if last else "no record", "state at the end", last.group_type if last else "only holds offsets"),
        (f"{len(life.rebalances):,}", "rebalances", top),
        (f"{max(unowned, default=0):,} ms", "longest without owner", "of one partition, in a rebalance"),
        (f"{len(members):,}", "members seen", f"{len(partitions):,} partitions owned"),
        (f"{life.commit_count:,}", "commits", ""),
        (f"{statuses['EXPIRED']:,}", "offsets expired", f"{statuses['DUE']:,} due, {statuses['EXPIRING']:,} expiring"),
    ]


def group_page(
    warehouse: Warehouse, group: str, start: datetime | None = None, end: datetime | None = None
) -> tuple[str, GroupLife]:
    """The page of a group as HTML, and what it was made from.

    Args:
        warehouse: the tables.
        group: the group.
        start: from then on; its first record if None.
        end: up to then; the end of the log read if None.

    Raises:
        UsageError: the tables don't know the group, or nothing of that stretch of time.
    """
    life = life_of(warehouse, group, start, end)
    times = time_range(life.start, life.end)
    colours = member_colours(life)
    drawn = [
        state_band(life, times),
        rebalance_marks(life, times),
        owners_by_partition(life, times, colours),
        owners_by_member(life, times, colours),
        offset_lines(life, times),
    ]
    html = render_page(
        "group.html.j2",
        drawn,
        life=life,
        cluster=warehouse.cluster,
        coverage=str(warehouse.coverage),
        tiles=_tiles(life),
        is_exact=all(band.is_exact for band in life.states),
        rebalances=life.rebalances[:MOST_TABLE_ROWS],
        expirations=life.expirations[:MOST_TABLE_ROWS],
    )
    return html, life
