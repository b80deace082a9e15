"""The look of the figures of a group's page; ``life_marks``, ``owner_marks`` and ``offset_marks`` have their data."""

from bokeh.models import BasicTickFormatter, TapTool
from bokeh.plotting import figure

from coordinator_replay.report import life_marks, offset_marks, owner_marks
from coordinator_replay.report.figures import (
    HATCHED,
    Axis,
    add_hover,
    bars,
    rows_figure,
    source,
    time_figure,
    unowned_bars,
)
from coordinator_replay.report.wording import ROLLOUT_COLOUR


def life_figures() -> list[figure]:
    """Return the figures of a group's page, from the top, without data."""
    axis = Axis()
    return [
        _states(axis),
        _rebalances(axis),
        _owners_by_partition(axis),
        _owners_by_member(axis),
        _offsets(axis),
    ]


def _states(axis: Axis) -> figure:
    """Return the figure with four rows: the group's state, its commit pauses, its rollouts, and findings about it."""
    drawn = rows_figure("states", axis)
    bands = bars(drawn, "states", life_marks.STATES, color="colour")
    bars(drawn, "unseen", life_marks.UNSEEN, **HATCHED)
    pauses = bars(
        drawn, "pauses", life_marks.PAUSES, height=0.5, fill_color="#c2571a", line_color="#c2571a", fill_alpha=0.5
    )
    rollouts = bars(
        drawn,
        "rollouts",
        life_marks.ROLLOUTS,
        height=0.5,
        fill_alpha=0.5,
        fill_color=ROLLOUT_COLOUR,
        line_color=ROLLOUT_COLOUR,
    )
    lasting = bars(drawn, "findings", life_marks.FINDINGS, height=0.16, color="colour").data_source
    findings = drawn.scatter("left", "row", marker="triangle", size=11, color="colour", source=lasting)
    lines = [("state", "@state"), ("type", "@type"), ("from", "@left"), ("to", "@right"), ("epochs", "@epochs")]
    add_hover(drawn, [bands], [*lines, ("members", "@members"), ("log", "@seen")], ["left", "right"])
    lines = [("commits paused", "@length"), ("of", "@partition"), ("from", "@left"), ("to", "@right")]
    add_hover(drawn, [pauses], [*lines, ("around", "@rebalance")], ["left", "right"])
    lines = [("rollout", "@restarts restarts of @clients"), ("from", "@left"), ("to", "@right")]
    add_hover(drawn, [rollouts], [*lines, ("costs", "@costs")], ["left", "right"])
    lines = [("finding", "@severity: @rule"), ("", "@message"), ("first", "@left"), ("last", "@right")]
    add_hover(drawn, [findings], [*lines, ("times", "@times")], ["left", "right"])
    return drawn


def _rebalances(axis: Axis) -> figure:
    """Return the figure of rebalances, with a row for each cause.

    Each rebalance has a mark and a bar. The length of the bar is the shortest time that the rebalance can have taken.
    """
    drawn = rows_figure("rebalances", axis)
    data = source("rebalances", life_marks.REBALANCES)
    drawn.hbar(left="at", right="end", y="row", height=0.34, color="colour", alpha=0.65, source=data)
    marks = drawn.scatter(
        "at", "row", size=11, fill_color="colour", line_color="colour", line_width=2, fill_alpha="alpha", source=data,
        name="rebalance-marks",
    )  # fmt: skip
    drawn.add_tools(TapTool(renderers=[marks]))
    lines = [
        ("cause", "@cause"),
        ("confidence", "@confidence"),
        ("evidence", "@evidence"),
        ("could also be", "@others"),
    ]
    lines += [("from", "@began"), ("to", "@ended"), ("took", "@took"), ("epoch", "@epoch"), ("members", "@members")]
    lines += [("reassigned", "@moved"), ("without owner", "@unowned"), ("commits paused", "@pause")]
    lines += [("held up by", "@blocked_by"), ("partitions", "@what")]
    add_hover(drawn, [marks], lines, [])
    return drawn


def _owners_by_partition(axis: Axis) -> figure:
    """Return a figure with a row for each partition: bars for its owners, red hatching for times without an owner."""
    drawn = rows_figure("owners-by-partition", axis)
    owned = bars(drawn, "owned", owner_marks.OWNED, color="colour")
    gaps = unowned_bars(drawn, "gaps", owner_marks.GAPS, fill_alpha=0.12, hatch_alpha=0.6)
    lines = [("partition", "@partition"), ("owner", "@client"), ("member", "@member"), ("instance", "@instance")]
    lines += [("from", "@left"), ("to", "@right"), ("for", "@length"), ("released by", "@release")]
    add_hover(drawn, [owned], lines, ["left", "right"])
    lines = [("partition", "@partition"), ("no owner for", "@length"), ("from", "@left"), ("to", "@right")]
    add_hover(drawn, [gaps], [*lines, ("last owner", "@before"), ("released by", "@release")], ["left", "right"])
    return drawn


def _owners_by_member(axis: Axis) -> figure:
    """Return the figure with a row for each member. The more partitions the member has, the higher is its bar.

    While a member has no partition, its bar is a thin line.
    """
    drawn = rows_figure("owners-by-member", axis, visible=False)
    members = bars(drawn, "members", owner_marks.MEMBERS, height="height", color="colour")
    bars(drawn, "revoking", owner_marks.REVOKING, height=0.86, **HATCHED)
    lines = [("client", "@client"), ("member", "@member"), ("instance", "@instance"), ("state", "@state")]
    lines += [("epoch", "@epoch"), ("partitions", "@partitions"), ("owns", "@assigned"), ("must give up", "@pending")]
    add_hover(drawn, [members], [*lines, ("from", "@left"), ("to", "@right")], ["left", "right"])
    return drawn


def _offsets(axis: Axis) -> figure:
    """Return the figure with committed offsets as steps.

    Marks show offsets that went backwards, were replaced by a negative offset, or were removed.
    """
    drawn = time_figure("offsets", axis, height=300)
    lines = drawn.multi_line(
        "times",
        "progress",
        color="colour",
        line_width=1.5,
        source=source("offset-lines", offset_marks.LINES),
        name="offset-lines-marks",
    )
    ends = drawn.scatter(
        "at",
        "progress",
        marker="x",
        size=9,
        line_width=2,
        color="colour",
        source=source("offset-ends", offset_marks.ENDS),
        name="offset-ends-marks",
    )
    drawn.yaxis.formatter = BasicTickFormatter(use_scientific=False)
    drawn.ygrid.visible = True
    add_hover(
        drawn,
        [lines],
        [("partition", "@name"), ("offset", "$snap_y{0,0}"), ("since", "$snap_x{%F %T}"), ("", "@note")],
        [],
    )
    drawn.hover[-1].formatters = {"$snap_x": "datetime"}
    add_hover(drawn, [ends], [("partition", "@name"), ("what", "@what"), ("at", "@at"), ("", "@text")], ["at"])
    return drawn
