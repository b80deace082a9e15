"""The state of a group over time, and its rebalances by cause."""

from collections import Counter

from bokeh.models import Range1d
from bokeh.palettes import Category10
from bokeh.plotting import figure

from coordinator_replay.query.life import GroupLife
from coordinator_replay.report.figures import (
    COMPACT,
    HATCHED,
    STATE_COLOURS,
    UNKNOWN_COLOUR,
    Stretch,
    add_hover,
    columns,
    counted_as,
    duration,
    height_of,
    label_rows,
    neutral,
    time_figure,
)

CONFIDENCE_ALPHA = {"certain": 0.95, "likely": 0.5, "possible": 0.12}
"""How full a rebalance's mark is: the surer the cause, the fuller."""


def state_band(life: GroupLife, times: Range1d) -> figure:
    """One row: the group's state over time; hatched where the log has gaps before what it shows."""
    stretch = Stretch(life.start, life.end)
    drawn = time_figure("states", times, height=140, title="State of the group", toolbar_location=None)
    rows = [
        {
            "left": stretch.left(band.since),
            "right": stretch.right(band.until),
            "state": neutral(band.state),
            "type": band.group_type,
            "colour": STATE_COLOURS.get(band.state, UNKNOWN_COLOUR),
            "epochs": f"{band.first_epoch} to {band.last_epoch}",
            "members": f"{band.fewest_members} to {band.most_members}",
            "seen": "every step was seen" if band.is_exact else "records are missing: steps were not seen",
        }
        for band in life.states
    ]
    names = ("left", "right", "state", "type", "colour", "epochs", "members", "seen")
    marks = drawn.quad(
        left="left",
        right="right",
        top=0.4,
        bottom=-0.4,
        fill_color="colour",
        line_color="colour",
        legend_field="state",
        source=columns(rows, names),
    )
    unseen = [row for row, band in zip(rows, life.states, strict=True) if not band.is_exact]
    drawn.quad(left="left", right="right", top=0.4, bottom=-0.4, source=columns(unseen, ("left", "right")), **HATCHED)
    label_rows(drawn, ["state"])
    lines = [("state", "@state"), ("type", "@type"), ("from", "@left"), ("to", "@right")]
    lines += [("epochs", "@epochs"), ("members", "@members"), ("log", "@seen")]
    add_hover(drawn, [marks], lines, ["left", "right"])
    legend = drawn.legend[0]
    drawn.add_layout(legend, "above")
    legend.update(**COMPACT)
    return drawn


def rebalance_marks(life: GroupLife, times: Range1d) -> figure:
    """Rebalances, a row for each cause: a mark where each began, a bar for as long as it took."""
    counted = Counter(rebalance.cause or "UNKNOWN" for rebalance in life.rebalances)
    causes = [cause for cause, _ in counted.most_common()]
    place = {cause: row for row, cause in enumerate(causes)}
    stretch = Stretch(life.start, life.end)
    rows = []
    for one in life.rebalances:
        cause = one.cause or "UNKNOWN"
        rows.append(
            {
                "start": stretch.left(one.started_at or one.completed_at),
                "end": stretch.right(one.completed_at),
                "row": place[cause],
                "cause": neutral(cause),
                "colour": Category10[10][place[cause] % 10],
                "alpha": CONFIDENCE_ALPHA.get(one.confidence or "", 0.12),
                "confidence": one.confidence or "not judged",
                "reason": one.join_reason or "unknown",
                "epoch": "-" if one.epoch is None else str(one.epoch),
                "duration": "not over" if one.completed_at is None else duration(one.duration_ms),
                "members": f"{counted_as(one.members_before)} → {counted_as(one.members_after)}",
                "moved": f"{counted_as(one.partitions_moved)} of {counted_as(one.partitions_total)}",
                "unowned": duration(one.unowned_ms_max),
                "evidence": "\n".join(map(neutral, one.evidence or ())) or "none on record",
                "others": neutral(", ".join(one.alternatives or ()) or "none"),
            }
        )
    names = ("start", "end", "row", "cause", "colour", "alpha", "confidence", "reason", "epoch", "duration")
    data = columns(rows, (*names, "members", "moved", "unowned", "evidence", "others"))
    drawn = time_figure(
        "rebalances",
        times,
        height=height_of(len(causes), 26, 420),
        title="Rebalances by cause (full: certain, pale: likely, hollow: possible)",
        toolbar_location=None,
    )
    drawn.hbar(left="start", right="end", y="row", height=0.3, color="colour", alpha=0.55, source=data)
    marks = drawn.scatter(
        "start", "row", size=11, fill_color="colour", line_color="colour", line_width=2, fill_alpha="alpha", source=data
    )
    label_rows(drawn, causes or ["none"])
    lines = [("cause", "@cause"), ("confidence", "@confidence"), ("evidence", "@evidence"), ("also fits", "@others")]
    lines += [("JoinReason", "@reason"), ("began", "@start"), ("took", "@duration"), ("epoch", "@epoch")]
    lines += [("members", "@members"), ("partitions moved", "@moved"), ("longest without owner", "@unowned")]
    add_hover(drawn, [marks], lines, ["start"])
    return drawn
