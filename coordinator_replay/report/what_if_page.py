"""The page of a group's recorded life and its life under other settings, on one time axis."""

from dataclasses import dataclass
from typing import Any

from coordinator_replay.query.tables import Tables
from coordinator_replay.report.columns import Clock
from coordinator_replay.report.members import MOST_IN_LEGEND
from coordinator_replay.report.page import INSIDE, Assets, render_page
from coordinator_replay.report.what_if_figures import what_if_figures
from coordinator_replay.report.what_if_marks import (
    causes_of,
    clients_of,
    clients_text,
    life_labels,
    owner_columns,
    place_labels,
    rebalance_columns,
    shown_ms,
)
from coordinator_replay.report.wording import GAP_COLOUR, counted_as, duration
from coordinator_replay.times import EPOCH, later, milliseconds
from coordinator_replay.whatif.answer import WhatIf
from coordinator_replay.whatif.measure import moment_of
from coordinator_replay.whatif.measures import table_of

MOST_TABLE_ROWS = 2000
"""Rows of the table of rebalances, over all lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeRebalanceRow:
    """A rebalance of one of the lives, as the table shows it."""

    life: str
    at_ms: int
    at: str
    cause: str
    members: str
    joined: str
    left: str
    moved: int | None
    unowned: str


def what_if_page(warehouse: Tables, answer: WhatIf, assets: Assets = INSIDE) -> str:
    """The page as HTML.

    Args:
        warehouse: the tables that the recorded life is from.
        answer: the lives.
        assets: where the page finds its scripts.
    """
    start, end = later(EPOCH, answer.start_ms), later(EPOCH, answer.end_ms)
    clock = Clock(start, end)
    labels = life_labels(answer)
    clients = list(clients_of(answer).items())
    more = f"and {len(clients) - MOST_IN_LEGEND:,} more clients" if len(clients) > MOST_IN_LEGEND else ""
    rows = _rows(answer)
    data: dict[str, Any] = {
        "start": milliseconds(start),
        "end": milliseconds(end),
        "sources": {"lives-rebalances": rebalance_columns(answer, clock), **owner_columns(answer, clock)},
        "rows": {
            "lives": {"labels": labels, "each": 34, "most": 600},
            "lives-owners": {"labels": place_labels(answer) or ["none"], "each": 16, "most": 1200},
        },
    }
    return render_page(
        "what_if.html.j2",
        what_if_figures,
        data,
        assets,
        answer=answer,
        start=start,
        end=end,
        cluster=warehouse.cluster,
        labels=labels,
        measures=[(label, [_shown(value) for value in values]) for label, values in table_of(answer.measures)],
        causes=list(causes_of(answer).items()),
        clients=[*clients[:MOST_IN_LEGEND], ("nobody", GAP_COLOUR)],
        clients_about=more,
        rebalances=rows[:MOST_TABLE_ROWS],
        rebalance_count=len(rows),
    )


def _shown(value: object) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _rows(answer: WhatIf) -> list[LifeRebalanceRow]:
    rows = [
        LifeRebalanceRow(
            life=label,
            at_ms=moment_of(one),
            at=shown_ms(moment_of(one)),
            cause=str(one["cause"]),
            members=f"{counted_as(one['members_before'])} → {counted_as(one['members_after'])}",
            joined=clients_text(one["members_joined"], life.by_member),
            left=clients_text(one["members_left"], life.by_member),
            moved=one["partitions_moved"],
            unowned="not on record" if one["unowned_ms_max"] is None else duration(one["unowned_ms_max"]),
        )
        for label, life in zip(life_labels(answer), answer.lives, strict=True)
        for one in life.rebalances
    ]
    return sorted(rows, key=lambda row: row.at_ms)
