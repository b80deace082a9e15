"""The page of one group: figures over time, and tables of its rebalances, findings and expired offsets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from coordinator_replay.analysis.reasons.vocabulary import by_frequency
from coordinator_replay.query.basis import basis_of_group
from coordinator_replay.query.broker_logs.events import LoggedDeparture, departures
from coordinator_replay.query.groups import UNKNOWN
from coordinator_replay.query.rebalances import Rebalance
from coordinator_replay.query.tables import Tables
from coordinator_replay.report import bounds
from coordinator_replay.report.columns import Clock
from coordinator_replay.report.drawing import Drawing, Mark, Panel
from coordinator_replay.report.life import GroupLife
from coordinator_replay.report.life_figures import life_figures
from coordinator_replay.report.life_marks import (
    causes_of,
    finding_columns,
    pause_columns,
    rebalance_columns,
    rollout_columns,
    state_columns,
    state_rows,
)
from coordinator_replay.report.lives import life_of
from coordinator_replay.report.members import MemberIdentities, shown_legend
from coordinator_replay.report.offset_marks import moving_lines, offset_columns, topic_colours, unmoved_partitions
from coordinator_replay.report.owner_marks import (
    MOST_ROWS,
    identities_of,
    member_columns,
    partition_columns,
    partitions_of,
)
from coordinator_replay.report.page import render_page
from coordinator_replay.report.wording import STATE_COLOURS, UNKNOWN_COLOUR, neutral
from coordinator_replay.times import later

MOST_TABLE_ROWS = 2000
"""Largest number of rows of a table on the page. A browser lays out more rows only slowly."""

MOST_TOPICS = 12
"""Largest number of topics in the legend of offsets."""

REBALANCES_ABOUT = "full: certain, pale: likely, hollow: possible; a bar for the time that it took for certain"

Tile = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Ways:
    """Links from a group's page to other pages: all groups, and the groups before and after it by name.

    Attributes:
        index: the page of all groups.
        before: name and page of the group before; None for the first group.
        after: name and page of the group after; None for the last group.
    """

    index: str
    before: tuple[str, str] | None = None
    after: tuple[str, str] | None = None


def _tiles(life: GroupLife) -> list[Tile]:
    causes = by_frequency(rebalance.cause for rebalance in life.rebalances)
    top = ", ".join(f"{cause} {number:,}" for cause, number in islice(causes.items(), 3))
    members = {member.member_id for member in life.members}
    partitions = {(holding.topic, holding.partition) for holding in life.holdings}
    statuses = Counter(expiration.status for expiration in life.expirations)
    severities = Counter(finding.severity for finding in life.findings)
    return [
        (life.outcome.state, "state at the end", _kind(life)),
        (f"{len(life.rebalances):,}", "rebalances on record", top),
        bounds.worst(life.rebalances),
        (f"{len(members):,}", "members seen", f"{len(partitions):,} partitions owned"),
        (f"{life.commit_count:,}", "commits on record", ""),
        (
            f"{len(life.findings):,}",
            "findings",
            ", ".join(
                f"{severities[severity]:,} {severity}"
                for severity in ("error", "warning", "info")
                if severities[severity]
            ),
        ),
        (
            f"{statuses['EXPIRED']:,}",
            "offsets expired, on record",
            f"{statuses['DUE']:,} due, {statuses['EXPIRING']:,} expiring",
        ),
    ]


def _kind(life: GroupLife) -> str:
    """Return a text with the type of a group. If the group was deleted, the text says so.

    If only committed offsets of the group are on record, the text says so, and has no type.
    """
    outcome = life.outcome
    if outcome.deletion is not None:
        return f"{outcome.group_type}, {outcome.deletion}"
    if life.first.own_offset is not None:
        return outcome.group_type
    return "only its offsets are on record" if outcome.state == UNKNOWN else "only holds offsets"


def _left(rebalance: Rebalance, *, members: MemberIdentities, departed: Mapping[Any, str]) -> list[str]:
    """Return the labels of the members that left the group in a rebalance.

    Args:
        rebalance: the rebalance.
        members: labels of the group's members.
        departed: texts to put behind the labels: how members left, by member id and time of the removal.
    """
    at = rebalance.completed_at if rebalance.group_type == "classic" else rebalance.started_at
    left = rebalance.members_left or ()
    words = {member_id: said for member_id in left if (said := departed.get((member_id, at))) is not None}
    return members.labels(left, words)


def _words_of(departed: Sequence[LoggedDeparture]) -> dict[Any, str]:
    """Return a text for each member that left: how it left. The key is the member id and the time of the removal."""
    words: dict[Any, str] = {}
    for departure in departed:
        key = (departure.member_id, departure.removed_at)
        words[key] = f"{words[key]}: {departure.words}" if key in words else departure.words
    return words


def life_data(life: GroupLife, clock: Clock, members: MemberIdentities) -> Mapping[str, Any]:
    """Return the data that the page's script reads.

    Args:
        life: the recorded life of the group.
        clock: time range and time zone of the page.
        members: labels and colours of the group's members.

    Returns:
        Under ``hidden``, figures that the page does not show. Under ``sources``, the columns of each data source. Under
        ``rows``, the names and heights of each figure's rows.
    """
    partitions = [neutral(f"{topic}-{number}") for topic, number in partitions_of(life)]
    return {
        "hidden": [] if moving_lines(life) else ["offsets"],
        "sources": {
            **state_columns(life, clock),
            "pauses": pause_columns(life, clock),
            "rollouts": rollout_columns(life, clock),
            "findings": finding_columns(life, clock),
            "rebalances": rebalance_columns(life, clock, members),
            **partition_columns(life, clock, members),
            **member_columns(life, clock, members),
            **offset_columns(life),
        },
        "rows": {
            "states": _rows(state_rows(life), 24, 200),
            "rebalances": _rows([neutral(cause) for cause in causes_of(life)], 26, 420),
            "owners-by-partition": _rows(partitions, 16, 820),
            "owners-by-member": _rows(list(identities_of(life, members).values()), 22, 820),
        },
    }


def _rows(labels: Sequence[str], each: int, most: int) -> Mapping[str, Any]:
    """Return the names and heights of a figure's rows, in the form that the page's script reads.

    Args:
        labels: the names of the rows. Only the first ``MOST_ROWS`` are shown.
        each: height of a row in pixels.
        most: largest height of the figure in pixels.
    """
    return {"labels": list(labels[:MOST_ROWS]) or ["none"], "each": each, "most": most}


def life_drawing(
    warehouse: Tables, life: GroupLife, start: datetime | None = None, marks: Sequence[Mark] = ()
) -> Drawing:
    """Return the figures that show the recorded life of a group, with their captions and data.

    Args:
        warehouse: the tables that ``life`` was read from.
        life: the recorded life of the group.
        start: start of the time range that the user asked for; None if the user gave no start.
        marks: times to mark in all figures.
    """
    return _drawing_of(warehouse, life, start, marks, MemberIdentities(life))


def _drawing_of(
    warehouse: Tables, life: GroupLife, start: datetime | None, marks: Sequence[Mark], members: MemberIdentities
) -> Drawing:
    clock = Clock(life.start, life.end, warehouse.zone)
    basis = str(basis_of_group(warehouse, start, life.group, life.log_partition))
    return Drawing(
        title=f"{life.group}, cluster {warehouse.cluster}",
        lines=[
            f"{clock.text(life.start)} to {clock.text(last_moment(warehouse, life))} ({clock.zone}). "
            + clock.sentence(f"{basis[0].upper()}{basis[1:]}."),
            *map(clock.sentence, life.notes),
        ],
        make=life_figures,
        panels=_panels(life, members),
        data=life_data(life, clock, members),
        clock=clock,
        marks=marks,
    )


def last_moment(warehouse: Tables, life: GroupLife) -> datetime:
    """Return the last moment of the time range that a group's page shows."""
    # A time range up to the end of the log ends 1 ms after the last record, because its end is excluded.
    return later(life.end, -1) if life.end > warehouse.coverage.last else life.end


def _panels(life: GroupLife, members: MemberIdentities) -> Sequence[Panel]:
    """Return the captions of the figures on a group's page, with their legends."""
    owners, more = shown_legend(members.legend, "members", nobody="no owner")
    states = dict.fromkeys((band.state, band.is_logged) for band in life.states)
    topics = list(topic_colours(life).items())[:MOST_TOPICS]
    return [
        Panel("states", "State", [
            (f"{state}, by the broker's log" if is_logged else state, STATE_COLOURS.get(state, UNKNOWN_COLOUR))
            for state, is_logged in states
        ]),
        Panel("rebalances", "Rebalances by cause", about=REBALANCES_ABOUT),
        Panel("owners-by-partition", "Owners", owners, more),
        Panel("owners-by-member", "Owners", owners, more),
        Panel("offsets", "Committed offsets", topics, "a cross: rewound or taken away" if topics else ""),
    ]  # fmt: skip


def group_page(
    warehouse: Tables,
    group: str,
    start: datetime | None = None,
    end: datetime | None = None,
    marks: Sequence[Mark] = (),
) -> tuple[str, GroupLife]:
    """Return the page of a group as HTML, and the recorded life of the group that the page shows.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        start: start of the time range, included; None to begin at the group's first record.
        end: end of the time range, excluded; None to end after the last record that was read.
        marks: times to mark.

    Raises:
        UsageError: the tables have no record of the group, or of the time range.
    """
    life = life_of(warehouse, group, start, end)
    return life_page(warehouse, life, start, marks=marks), life


def life_page(
    warehouse: Tables,
    life: GroupLife,
    start: datetime | None = None,
    assets: str | None = None,
    ways: Ways | None = None,
    marks: Sequence[Mark] = (),
) -> str:
    """Return the page of a group as HTML.

    Args:
        warehouse: the tables that ``life`` was read from.
        life: the recorded life of the group.
        start: start of the time range that the user asked for; None if the user gave no start.
        assets: link to the folder of shared files; None if the page has everything in itself.
        ways: links to other pages; None if there are none.
        marks: times to mark.
    """
    members = MemberIdentities(life)
    drawing = _drawing_of(warehouse, life, start, marks, members)
    return render_page(
        "group.html.j2",
        drawing,
        assets,
        life=life,
        ways=ways,
        last=last_moment(warehouse, life),
        cluster=warehouse.cluster,
        basis=str(basis_of_group(warehouse, start, life.group, life.log_partition)),
        coverage=str(warehouse.coverage),
        tiles=_tiles(life),
        is_exact=all(band.is_exact for band in life.states)
        and not any(rebalance.lacks_records for rebalance in life.rebalances),
        is_classic=all(band.group_type == "classic" for band in life.states),
        unmoved=unmoved_partitions(life),
        rebalances=life.rebalances[:MOST_TABLE_ROWS],
        bounds=bounds,
        clock=drawing.clock,
        members=members,
        left=partial(_left, members=members, departed=_words_of(departures(warehouse, life.group))),
        expirations=life.expirations[:MOST_TABLE_ROWS],
        most=MOST_TABLE_ROWS,
    )
