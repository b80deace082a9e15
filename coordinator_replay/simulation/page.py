"""The page of ``what-if``: a group's recorded life and its simulations, on one time axis.

For the recorded life and for each simulation, the page shows the rebalances, the owners of each partition, and the
times without an owner. A client has the same colour everywhere, whatever its member ids are.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from bokeh.plotting import figure

from coordinator_replay.listing import counted_as
from coordinator_replay.query.basis import basis_from
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.columns import Clock, Columns, columns
from coordinator_replay.report.drawing import Drawing, Mark, Panel
from coordinator_replay.report.figures import Axis, add_hover, bars, rows_figure, source, unowned_bars
from coordinator_replay.report.members import shown_legend
from coordinator_replay.report.page import render_page
from coordinator_replay.report.wording import (
    COLOURS,
    UNKNOWN_COLOUR,
    cause_colour,
    neutral,
)
from coordinator_replay.simulation.what_if.answer import WhatIf
from coordinator_replay.simulation.what_if.measures import table_of
from coordinator_replay.simulation.what_if.outcome import Lived, moment_of
from coordinator_replay.times import EPOCH, duration, later

MOST_ROWS = 600
"""Largest number of rows in the figure of owners, over all lives."""

REBALANCES = ("at", "row", "life", "cause", "colour", "epoch", "members", "moved", "unowned", "joined", "left")
OWNED = ("left", "right", "row", "life", "partition", "client", "colour", "release")
IDLE = ("left", "right", "row", "life", "partition", "length", "seen")
_ENDS = ("left", "right")

Place = tuple[int, str, int]
"""A row of owners: number of the life, topic, partition."""


def life_labels(answer: WhatIf) -> list[str]:
    """Return short names: ``recorded``, ``simulated``, and ``what if N`` for alternative number N."""
    return ["recorded", "simulated", *(f"what if {number}" for number in range(1, len(answer.lives) - 1))]


def clients_of(answer: WhatIf) -> Mapping[str, str]:
    """Return the colour of each client, by the client's name."""
    names = dict.fromkeys(name for life in answer.lives for name in life.by_member.values())
    return {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}


def causes_of(answer: WhatIf) -> Mapping[str, str]:
    """Return the colour of each cause of rebalances in the answer, by cause."""
    causes = dict.fromkeys(str(row["cause"]) for life in answer.lives for row in life.rebalances)
    return {cause: cause_colour(cause) for cause in causes}


def rebalance_rows(answer: WhatIf, clock: Clock) -> list[dict[str, Any]]:
    """Return a row of values for each rebalance, to draw the rebalance in the figure and to list it in the table."""
    colours = causes_of(answer)
    return [
        {
            "at": clock.left(moment_of(rebalance)),
            "at_ms": moment_of(rebalance),
            "shown_at": clock.text(later(EPOCH, moment_of(rebalance))),
            "row": number,
            "life": label,
            "cause": neutral(str(rebalance["cause"])),
            "colour": colours[str(rebalance["cause"])],
            "epoch": counted_as(rebalance["epoch"]),
            "members": _members_text(rebalance),
            "moved": counted_as(rebalance["partitions_reassigned"]),
            "partitions_reassigned": rebalance["partitions_reassigned"],
            "unowned": "not on record"
            if rebalance["unowned_ms_max"] is None
            else duration(rebalance["unowned_ms_max"]),
            "joined": _clients_text(rebalance["members_joined"], life.by_member),
            "left": _clients_text(rebalance["members_left"], life.by_member),
        }
        for number, (label, life) in enumerate(zip(life_labels(answer), answer.lives, strict=True))
        for rebalance in life.rebalances
    ]


def _members_text(rebalance: Mapping[str, Any]) -> str:
    """Return the numbers of members before and after a rebalance, as ``2 → 3``."""
    text = f"{counted_as(rebalance['members_before'])} → {counted_as(rebalance['members_after'])}"
    return text if rebalance["is_exact"] else f"{text} on record"


def _clients_text(member_ids: Iterable[str] | None, by_member: Mapping[str, str]) -> str:
    """Return the sorted names of clients as one text; ``none`` if there are no clients.

    Args:
        member_ids: the member ids of the clients.
        by_member: name of a client by member id. A member id without a client stands for itself.
    """
    return neutral(", ".join(sorted(by_member.get(id_, id_) for id_ in member_ids or ()))) or "none"


def places_of(answer: WhatIf) -> list[Place]:
    """Return the rows of the figure that shows the owners of partitions.

    The figure has a row for each partition in the recorded life and in each simulation. To have at most ``MOST_ROWS``
    rows, it leaves out the last partitions, in the order of topic and number.
    """
    partitions = sorted({(row["topic"] or "", row["partition"]) for life in answer.lives for row in _ownerships(life)})
    most = max(MOST_ROWS // len(answer.lives), 1)
    return [(number, *partition) for number in range(len(answer.lives)) for partition in partitions[:most]]


def place_labels(answer: WhatIf) -> list[str]:
    """Return the labels of the rows in the figure that shows the owners of partitions."""
    labels = life_labels(answer)
    return [neutral(f"{labels[number]}  {topic}-{partition}") for number, topic, partition in places_of(answer)]


def owner_columns(answer: WhatIf, clock: Clock) -> Mapping[str, Columns]:
    """Return the data of the figure that shows the owners of partitions.

    Returns:
        Two sets of columns by name. ``lives-owned`` has the time ranges in which a client owned a partition.
        ``lives-idle`` has the time ranges in which no client, or no running client, owned a partition.
    """
    rows = {place: row for row, place in enumerate(places_of(answer))}
    colours, labels = clients_of(answer), life_labels(answer)
    owned: list[dict[str, Any]] = []
    idle: list[dict[str, Any]] = []
    for number, life in enumerate(answer.lives):
        by_partition: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
        for ownership in _ownerships(life):
            by_partition.setdefault((ownership["topic"] or "", ownership["partition"]), []).append(ownership)
        for (topic, partition), ownerships in by_partition.items():
            row = rows.get((number, topic, partition))
            if row is None:
                continue
            about = {"row": row, "life": labels[number], "partition": neutral(f"{topic}-{partition}")}
            owned += [{**about, **_owned(ownership, life, clock, colours)} for ownership in ownerships]
            idle += [{**about, **pause} for pause in _idle(ownerships, clock)]
        idle += list(_paused(life, number, labels[number], rows, clock))
    visible = [bar for bar in owned if bar["right"] > bar["left"]]
    return {"lives-owned": columns(visible, OWNED, _ENDS), "lives-idle": columns(idle, IDLE, _ENDS)}


def _ownerships(life: Lived) -> Sequence[Mapping[str, Any]]:
    return life.rows.get("partition_ownership", ())


def _owned(ownership: Mapping[str, Any], life: Lived, clock: Clock, colours: Mapping[str, str]) -> dict[str, Any]:
    name = life.by_member.get(ownership["member_id"], ownership["member_id"])
    return {
        "left": clock.left(ownership["owned_from"]),
        "right": clock.right(ownership["owned_to"]),
        "client": neutral(name),
        "colour": colours.get(name, UNKNOWN_COLOUR),
        "release": neutral(str(ownership["released_by"] or "still owned")),
    }


def _idle(ownerships: Sequence[Mapping[str, Any]], clock: Clock) -> Iterable[dict[str, Any]]:
    """Yield the time ranges in which a partition had no owner.

    Args:
        ownerships: the ownerships of one partition.
        clock: converts times to positions in the figure.
    """
    ordered = sorted(ownerships, key=lambda ownership: ownership["owned_from"])
    until: int | None = None
    for owned in ordered:
        if until is not None and owned["owned_from"] > until:
            yield _span(until, owned["owned_from"], "no owner on record", clock)
        until = max(until or 0, owned["owned_to"]) if owned["owned_to"] is not None else None


def _paused(life: Lived, number: int, label: str, rows: Mapping[Place, int], clock: Clock) -> Iterable[dict[str, Any]]:
    """Yield the time ranges in which no running consumer owned a partition in a simulation.

    Args:
        life: the simulated group.
        number: number of the simulation.
        label: name of the simulation.
        rows: the row of each partition in the figure. Other partitions are left out.
        clock: converts times to positions in the figure.
    """
    for (topic, partition), since_ms, until_ms in life.pauses or ():
        row = rows.get((number, topic, partition))
        if row is not None and until_ms > since_ms:
            about = {"row": row, "life": label, "partition": neutral(f"{topic}-{partition}")}
            yield {**about, **_span(since_ms, until_ms, "no consumer at work (simulated)", clock)}


def _span(since_ms: int, until_ms: int, seen: str, clock: Clock) -> dict[str, Any]:
    left, right = clock.left(since_ms), clock.right(until_ms)
    return {"left": left, "right": right, "length": duration(until_ms - since_ms), "seen": seen}


def what_if_figures() -> list[figure]:
    """Return the figures in their order on the page. They have no data yet."""
    axis = Axis()
    return [_rebalances(axis), _owners(axis)]


def _rebalances(axis: Axis) -> figure:
    """Return a figure of rebalances. It has a row for the recorded life, and for each simulation."""
    drawn = rows_figure("lives", axis)
    shown = drawn.scatter(
        "at", "row", size=11, color="colour", fill_alpha=0.7, source=source("lives-rebalances", REBALANCES)
    )
    lines = [("life", "@life"), ("cause", "@cause"), ("at", "@at"), ("epoch", "@epoch"), ("members", "@members")]
    lines += [("joined", "@joined"), ("removed", "@left"), ("reassigned", "@moved"), ("without owner", "@unowned")]
    add_hover(drawn, [shown], lines, ["at"])
    return drawn


def _owners(axis: Axis) -> figure:
    """Return a figure of the owners of partitions. It has a row for each partition in each simulation.

    Times in which no client consumed the partition are hatched in red.
    """
    drawn = rows_figure("lives-owners", axis)
    owned = bars(drawn, "lives-owned", OWNED, color="colour")
    idle = unowned_bars(drawn, "lives-idle", IDLE, fill_alpha=0.35, hatch_alpha=0.8)
    lines = [("life", "@life"), ("partition", "@partition"), ("owner", "@client"), ("from", "@left"), ("to", "@right")]
    add_hover(drawn, [owned], [*lines, ("released by", "@release")], ["left", "right"])
    lines = [("life", "@life"), ("partition", "@partition"), ("", "@seen"), ("for", "@length")]
    add_hover(drawn, [idle], [*lines, ("from", "@left"), ("to", "@right")], ["left", "right"])
    return drawn


MOST_TABLE_ROWS = 2000
"""Largest number of rows in the table of rebalances, over all lives."""


def what_if_drawing(warehouse: Tables, answer: WhatIf, marks: Sequence[Mark] = ()) -> Drawing:
    """Return the page's title, text and figures.

    Args:
        warehouse: the tables that the recorded life is from.
        answer: the recorded life of a group and its simulated lives.
        marks: times to mark in the figures.
    """
    start = later(EPOCH, answer.start_ms)
    clock = Clock(start, later(EPOCH, answer.end_ms), warehouse.zone)
    clients, more = shown_legend(list(clients_of(answer).items()), "clients", nobody="nobody")
    rows = rebalance_rows(answer, clock)
    basis = str(basis_from(warehouse, start, group=answer.group_id))
    return Drawing(
        title=f"{answer.group_id}: what if",
        lines=[
            clock.sentence(f"{basis[0].upper()}{basis[1:]}."),
            clock.sentence(str(answer.fidelity)),
            *(f"what if {number}: {tried.name}" for number, tried in enumerate(answer.alternatives, 1)),
        ],
        make=what_if_figures,
        panels=[
            Panel("lives", "Rebalances of each life", list(causes_of(answer).items())),
            Panel("lives-owners", "Owners", clients, more),
        ],
        data={
            "sources": {"lives-rebalances": columns(rows, REBALANCES, ("at",)), **owner_columns(answer, clock)},
            "rows": {
                "lives": {"labels": life_labels(answer), "each": 34, "most": 600},
                "lives-owners": {"labels": place_labels(answer) or ["none"], "each": 16, "most": 1200},
            },
        },
        clock=clock,
        marks=marks,
    )


def what_if_page(warehouse: Tables, answer: WhatIf, marks: Sequence[Mark] = ()) -> str:
    """Return the page as HTML.

    Args:
        warehouse: the tables that the recorded life is from.
        answer: the recorded life of a group and its simulated lives.
        marks: times to mark in the figures.
    """
    drawing = what_if_drawing(warehouse, answer, marks)
    start, end = later(EPOCH, answer.start_ms), later(EPOCH, answer.end_ms)
    rows = rebalance_rows(answer, drawing.clock)
    return render_page(
        "what_if.html.j2",
        drawing,
        answer=answer,
        start=start,
        end=end,
        cluster=warehouse.cluster,
        basis=str(basis_from(warehouse, start, group=answer.group_id)),
        labels=life_labels(answer),
        measures=[(label, [_shown(value) for value in values]) for label, values in table_of(answer.measures)],
        rebalances=sorted(rows, key=itemgetter("at_ms"))[:MOST_TABLE_ROWS],
        rebalance_count=len(rows),
    )


def _shown(value: object) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
