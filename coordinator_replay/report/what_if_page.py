"""The page of a group's recorded life and its life under other settings, on one time axis."""

from operator import itemgetter
from typing import Any

from coordinator_replay.query.basis import basis_from
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.columns import Clock, columns
from coordinator_replay.report.members import MOST_IN_LEGEND
from coordinator_replay.report.page import render_page
from coordinator_replay.report.what_if_figures import what_if_figures
from coordinator_replay.report.what_if_marks import (
    REBALANCES,
    causes_of,
    clients_of,
    life_labels,
    owner_columns,
    place_labels,
    rebalance_rows,
)
from coordinator_replay.report.wording import GAP_COLOUR
from coordinator_replay.times import EPOCH, later, milliseconds
from coordinator_replay.whatif.answer import WhatIf
from coordinator_replay.whatif.measures import table_of

MOST_TABLE_ROWS = 2000
"""Rows of the table of rebalances, over all lives."""


def what_if_page(warehouse: Tables, answer: WhatIf) -> str:
    """The page as HTML.

    Args:
        warehouse: the tables that the recorded life is from.
        answer: the lives.
    """
    start, end = later(EPOCH, answer.start_ms), later(EPOCH, answer.end_ms)
    clock = Clock(start, end)
    labels = life_labels(answer)
    clients = list(clients_of(answer).items())
    more = f"and {len(clients) - MOST_IN_LEGEND:,} more clients" if len(clients) > MOST_IN_LEGEND else ""
    rows = rebalance_rows(answer, clock)
    data: dict[str, Any] = {
        "start": milliseconds(start),
        "end": milliseconds(end),
        "sources": {"lives-rebalances": columns(rows, REBALANCES, ("at",)), **owner_columns(answer, clock)},
        "rows": {
            "lives": {"labels": labels, "each": 34, "most": 600},
            "lives-owners": {"labels": place_labels(answer) or ["none"], "each": 16, "most": 1200},
        },
    }
    return render_page(
        "what_if.html.j2",
        what_if_figures,
        data,
        answer=answer,
        start=start,
        end=end,
        cluster=warehouse.cluster,
        basis=str(basis_from(warehouse, start, group=answer.group_id)),
        labels=labels,
        measures=[(label, [_shown(value) for value in values]) for label, values in table_of(answer.measures)],
        causes=list(causes_of(answer).items()),
        clients=[*clients[:MOST_IN_LEGEND], ("nobody", GAP_COLOUR)],
        clients_about=more,
        rebalances=sorted(rows, key=itemgetter("at_ms"))[:MOST_TABLE_ROWS],
        rebalance_count=len(rows),
    )


def _shown(value: object) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
