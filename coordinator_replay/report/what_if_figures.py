"""How the figures of a page of alternatives look; what they show is in ``what_if_marks``."""

from bokeh.plotting import figure

from coordinator_replay.report import what_if_marks as marks
from coordinator_replay.report.figures import Axis, add_hover, rows_figure, source, unowned_bars


def what_if_figures() -> list[figure]:
    """The figures of the page, from the top, without data."""
    axis = Axis()
    return [_rebalances(axis), _owners(axis)]


def _rebalances(axis: Axis) -> figure:
    """A row for each life: a mark for each of its rebalances."""
    drawn = rows_figure("lives", axis)
    shown = drawn.scatter(
        "at", "row", size=11, color="colour", fill_alpha=0.7, source=source("lives-rebalances", marks.REBALANCES)
    )
    lines = [("life", "@life"), ("cause", "@cause"), ("at", "@at"), ("epoch", "@epoch"), ("members", "@members")]
    lines += [("joined", "@joined"), ("removed", "@left"), ("reassigned", "@moved"), ("without owner", "@unowned")]
    add_hover(drawn, [shown], lines, ["at"])
    return drawn


def _owners(axis: Axis) -> figure:
    """A row for each partition of each life: who owned it, and hatched in red when nobody did or worked on it."""
    drawn = rows_figure("lives-owners", axis)
    bars = drawn.hbar(
        left="left", right="right", y="row", height=0.8, color="colour", source=source("lives-owned", marks.OWNED)
    )
    idle = unowned_bars(drawn, source("lives-idle", marks.IDLE), fill_alpha=0.35, hatch_alpha=0.8)
    lines = [("life", "@life"), ("partition", "@partition"), ("owner", "@client"), ("from", "@left"), ("to", "@right")]
    add_hover(drawn, [bars], [*lines, ("released by", "@release")], ["left", "right"])
    lines = [("life", "@life"), ("partition", "@partition"), ("", "@seen"), ("for", "@length")]
    add_hover(drawn, [idle], [*lines, ("from", "@left"), ("to", "@right")], ["left", "right"])
    return drawn
