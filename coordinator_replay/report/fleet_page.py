"""The page of a cluster: its groups at a glance."""

from collections import Counter
from datetime import datetime, timedelta

from coordinator_replay.query.fleet import MOST_ROWS, Fleet, fleet_of
from coordinator_replay.query.warehouse import Warehouse
from coordinator_replay.report.figures import time_range
from coordinator_replay.report.fleet_figures import causes_bars, kinds_bars
from coordinator_replay.report.page import render_page
from coordinator_replay.times import later

Tile = tuple[str, str, str]


def _tiles(fleet: Fleet) -> list[Tile]:
    severities = Counter(finding.severity for finding in fleet.findings)
    losing = Counter[str]()
    for one in fleet.expiring:
        losing[one.status] += one.partitions
    states = Counter[str]()
    for _, state, count in fleet.kinds:
        states[state] += count
    quarantined = sum(one.count for one in fleet.undecoded)
    return [
        (
            f"{sum(states.values()):,}",
            "groups",
            ", ".join(f"{count:,} {state}" for state, count in states.most_common(3)),
        ),
        (f"{sum(one.rebalances for one in fleet.fared):,}", "rebalances", f"of {len(fleet.fared):,} groups"),
        (
            f"{severities.total():,}",
            "findings",
            f"{severities['error']:,} errors, {severities['warning']:,} warnings",
        ),
        (
            f"{losing['DUE'] + losing['EXPIRING']:,}",
            "offsets due or expiring",
            f"{losing['EXPIRED']:,} expired already",
        ),
        (f"{quarantined:,}", "records not decoded", f"{len(fleet.gaps):,} gaps in the log, over all audits"),
    ]


def fleet_page(warehouse: Warehouse, start: datetime | None = None, end: datetime | None = None) -> tuple[str, Fleet]:
    """The page of the cluster as HTML, and what it was made from.

    Args:
        warehouse: the tables.
        start: from then on; the first record read if None.
        end: up to then; the end of the log read if None.

    Raises:
        UsageError: the tables don't know the cluster, or nothing of that stretch of time.
    """
    fleet = fleet_of(warehouse, start, end)
    # A bar begins with its day or hour, which may lie before the first record.
    whole_ms = round(timedelta(**{f"{fleet.unit}s": 1}).total_seconds() * 1000)
    begun = [one.since for one in fleet.causes]
    times = time_range(min([fleet.start, *begun]), max([fleet.end, *(later(since, whole_ms) for since in begun)]))
    html = render_page(
        "fleet.html.j2",
        [kinds_bars(fleet), causes_bars(fleet, times)],
        fleet=fleet,
        cluster=warehouse.cluster,
        tiles=_tiles(fleet),
        lists=[
            ("Longest without owners", "downtime", fleet.worst("unowned_ms_total"), "unowned_ms_total"),
            ("Most rebalances", "flapping", fleet.worst("rebalances"), "rebalances"),
        ],
        most=MOST_ROWS,
    )
    return html, fleet
