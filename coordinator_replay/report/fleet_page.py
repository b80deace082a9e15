"""The page of a cluster: its groups at a glance, each a row with a lane on one axis of time."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from coordinator_replay.query.basis import basis_from
from coordinator_replay.query.findings import Finding
from coordinator_replay.query.fleet import MOST_ROWS, fleet_of
from coordinator_replay.query.life import GroupLife
from coordinator_replay.query.lives import Detail, lives_of, spans_of
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.columns import Clock
from coordinator_replay.report.fleet_figures import cause_data, causes_of, fleet_figures
from coordinator_replay.report.lanes import Lane, lane_data, lane_of
from coordinator_replay.report.page import render_page
from coordinator_replay.report.wording import STATE_COLOURS, UNKNOWN_COLOUR
from coordinator_replay.times import milliseconds

Tile = tuple[str, str, str]


class FleetPage:
    """Puts the page together while lives of groups pass by, of which it keeps a row each.

    Args:
        warehouse: the tables.
        start: from then on; the first record read if None.
        end: before then; after the last record of the log read if None.

    Raises:
        UsageError: the tables don't know the cluster, or nothing of that range.

    Attributes:
        lanes: the rows.
        notes: sentences about the pages.
    """

    def __init__(self, warehouse: Tables, start: datetime | None = None, end: datetime | None = None) -> None:
        self._warehouse = warehouse
        self._start = start
        self.fleet = fleet_of(warehouse, start, end)
        self._clock = Clock(self.fleet.start, self.fleet.end)
        self.lanes: list[Lane] = []
        self.notes: list[str] = []
        self._findings: Mapping[str, Sequence[Finding]] = _by_group(self.fleet.findings)

    def add(self, life: GroupLife, page: str | None = None) -> None:
        """Take up a group: its states and rebalances.

        Args:
            life: the group's.
            page: the way to the group's own page, where there is one.
        """
        self.lanes.append(lane_of(life, self._clock, self._findings.get(life.group, ()), page))

    @property
    def rebalances(self) -> int:
        """How many there were, of all groups."""
        return sum(lane.rebalances for lane in self.lanes)

    def html(self, assets: str | None = None) -> str:
        """The page."""
        fleet = self.fleet
        # What deserves a look comes first, then what rebalanced most.
        lanes = sorted(self.lanes, key=lambda lane: (-lane.rank, -lane.rebalances, lane.group))
        data = {
            "start": milliseconds(fleet.start),
            "end": milliseconds(fleet.end),
            "lanes": lane_data(lanes),
            **cause_data(fleet, self._clock),
        }
        states = dict.fromkeys(state for lane in lanes for _, state, _ in lane.paths)
        return render_page(
            "fleet.html.j2",
            fleet_figures,
            data,
            assets,
            fleet=fleet,
            lanes=lanes,
            pages={lane.group: lane.page for lane in lanes},
            last=min(fleet.end, fleet.coverage.last),
            cluster=self._warehouse.cluster,
            basis=str(basis_from(self._warehouse, self._start)),
            history=self._warehouse.completeness.history_line(),
            tiles=self._tiles(),
            causes=list(causes_of(fleet).items()),
            states=[(state, STATE_COLOURS.get(state, UNKNOWN_COLOUR)) for state in states],
            most=MOST_ROWS,
        )

    def _tiles(self) -> list[Tile]:
        fleet = self.fleet
        types: dict[str, Counter[str]] = defaultdict(Counter)
        for kind, state, count in fleet.kinds:
            types[kind][state] += count
        losing = Counter[str]()
        for one in fleet.expiring:
            losing[one.status] += one.partitions
        quarantined = sum(one.count for one in fleet.undecoded)
        with_rebalances = sum(lane.rebalances > 0 for lane in self.lanes)
        return [
            *(
                (
                    f"{states.total():,}",
                    f"{kind} groups",
                    ", ".join(f"{count:,} {state}" for state, count in states.items()),
                )
                for kind, states in types.items()
            ),
            (f"{self.rebalances:,}", "rebalances on record", f"of {with_rebalances:,} groups"),
            (
                f"{losing['DUE'] + losing['EXPIRING']:,}",
                "offsets due or expiring",
                f"{losing['EXPIRED']:,} expired, on record",
            ),
            (f"{quarantined:,}", "records not decoded", f"{len(fleet.gaps):,} gaps in the log, over all audits"),
        ]


def _by_group(findings: Iterable[Finding]) -> Mapping[str, Sequence[Finding]]:
    by_group: dict[str, list[Finding]] = defaultdict(list)
    for one in findings:
        if one.group_id is not None:
            by_group[one.group_id].append(one)
    return by_group


def fleet_page(warehouse: Tables, start: datetime | None = None, end: datetime | None = None) -> tuple[str, FleetPage]:
    """The page of the cluster as HTML, complete in itself, and what it was made from.

    Args:
        warehouse: the tables.
        start: from then on; the first record read if None.
        end: before then; after the last record of the log read if None.

    Raises:
        UsageError: the tables don't know the cluster, or nothing of that range.
    """
    page = FleetPage(warehouse, start, end)
    for life in lives_of(warehouse, spans_of(warehouse, None, start, end), start, end, detail=Detail.STATES):
        page.add(life)
    return page.html(), page
