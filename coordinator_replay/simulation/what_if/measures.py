"""The rows of what-if answers: the costs of a simulation, and the changes that other settings would bring to a group.

Examples of costs are the number of rebalances and the time in which partitions had no owner.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from coordinator_replay.answer_columns import column, columns_of

FEW = 3
"""Smaller numbers of rebalances count as this number when two numbers are compared by their ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Costs of the recorded life, or of one simulation.

    Attributes:
        group_id: id of the group; empty before the row becomes part of an answer.
        name: ``recorded``, ``recorded settings, simulated``, or the alternative's settings.
        rebalances: number of rebalances.
        causes: number of rebalances by cause, the most frequent cause first.
        partitions_reassigned: number of partitions that got another owner, summed over rebalances.
        unowned_ms_max: longest time in ms in which a partition had no owner, by the group's records. Null if the
            records can't show such times, as in eager rebalances.
        unowned_ms_total: all times in ms in which a partition had no owner, summed over partitions. Null if
            ``unowned_ms_max`` is null.
        members_interrupted: number of times that a member had to revoke partitions in a rebalance and stayed in the
            group. In an eager rebalance, every member revokes all its partitions.
        stop_the_world: number of eager rebalances in which all members had to stop.
        pause_ms_max: longest time in ms in which no running consumer owned a partition. Null for the recorded life:
            only a simulation shows whether a consumer runs.
        pause_ms_total: all times in ms in which no running consumer owned a partition, summed over partitions. Null if
            ``pause_ms_max`` is null.
        commit_pause_ms_max: longest commit pause in ms around a rebalance. Null if no audit has measured it, and in a
            simulation, whose consumers do not commit.
        stable_share: share of the time in which the group was Stable, from 0 to 1. Null for classic groups, because
            their records do not show when a join phase began, and if ``is_at_least`` is true.
        ranges: the lowest and the highest predicted value of a measure. The key is the name of a field of this class,
            or of a cause of rebalances. A measure with only one possible value is left out.
        is_predictable: whether the variants agree enough on the number of rebalances. The largest number must be less
            than twice the smallest, where a smallest number below ``FEW`` counts as ``FEW``.
        variants_left_out: number of variants that were not simulated because the time range is long. If this number is
            not 0, ``ranges`` may be too narrow.
        is_at_least: whether the other numbers are lower bounds, because the log may lack records of that time, or
            because the group moved to another log partition in that time. Only the recorded life can have such numbers.
    """

    group_id: str = ""
    name: str
    causes: dict[str, int]
    rebalances: int = column("rebalances")
    partitions_reassigned: int = column("partitions reassigned")
    unowned_ms_max: int | None = column("longest without owner, ms")
    unowned_ms_total: int | None = column("without owner in total, ms")
    members_interrupted: int = column("members interrupted")
    stop_the_world: int = column("rebalances that stopped all members")
    pause_ms_max: int | None = column("longest pause of a partition, ms")
    pause_ms_total: int | None = column("pauses in total, ms")
    commit_pause_ms_max: int | None = column("longest pause of commits, ms")
    stable_share: float | None = column("share of the time Stable")
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    is_predictable: bool = True
    variants_left_out: int = 0
    is_at_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Gain of an alternative for one group.

    The alternative is compared with the simulation of the group's recorded settings.

    Attributes:
        share: share of rebalances, from 0 to 1, that the simulation of the recorded settings reproduces.
        recorded_rebalances: number of rebalances on record.
        is_at_least: whether ``recorded_rebalances`` is a lower bound, because the log may lack records of that time, or
            because the group moved to another log partition in that time.
        rebalances: number of rebalances of the alternative.
        rebalances_spared: how many fewer rebalances the alternative has; negative if it has more.
        interruptions: number of times that a member has to revoke partitions and stays in the group.
        interruptions_spared: how many fewer interruptions the alternative has; negative if it has more.
        pause_ms_spared: by how many milliseconds the alternative shortens the times in which no running consumer owns a
            partition, summed over partitions.
        ranges: the lowest and the highest predicted value of fields of this class. The key is the name of the field.
            Null if these values were not computed.
        obstacle: what keeps a classic group from ``group.protocol=consumer``, as far as the log shows; otherwise null.
    """

    group_id: str = column("GROUP", 1, is_id=True)
    recorded_rebalances: int = column("RECORDED", 2)
    is_at_least: bool = column(rank=2, bound="AT-LEAST")
    rebalances: int = column("PREDICTED", 2)
    rebalances_spared: int = column("SPARED", 1)
    interruptions: int = column("INTERRUPTIONS", 4)
    interruptions_spared: int = column("INTERRUPTIONS-SPARED", 1)
    pause_ms_spared: int = column("PAUSE-MS-SPARED", 3)
    ranges: dict[str, tuple[int, int]] | None = column("RANGES", 4, default=None)
    share: float = column("REPRODUCED", 5)
    obstacle: str | None = column("OBSTACLE", 1, 14, is_sentence=True, default=None)


MEASURES = [(column.name, column.heading) for column in columns_of(Measures) if column.heading]
"""Fields of ``Measures``, each with its heading in a table."""


AT_LEAST = {
    "rebalances": (0.0, 0.14),
    "partitions_reassigned": (0.2, 0.25),
    "members_interrupted": (0.25, 0.25),
    "stop_the_world": (0.0, 0.14),
}
"""For counts: a range reaches down and up by at least these shares of the value, rounded. It reaches farther up,
because simulations miss rebalances more often than they add some."""

UNSEEN = 0.15
"""For counts: a range reaches farther up by this share of the value if the whole life is unseen (``Life.unseen``), and
by less if only a part of the life is unseen."""

SPREAD = 0.15
"""For counts: a range reaches beyond the lowest and the highest value of the variants by this share of the distance
between the two, rounded. Without this margin, too many further variants would be outside the range."""

BEYOND = {
    "unowned_ms_max": 0.3,
    "unowned_ms_total": 0.3,
    "pause_ms_max": 0.3,
    "pause_ms_total": 0.3,
}
"""For times: a range reaches beyond the simulated values by these shares of the likeliest value.

Simulated consumers and coordinators differ from real ones. So these shares, and the shares for counts, were measured
with the judged lives: about nine of ten values that a broker recorded are in range (docs/what-if-judged.md). No record
has pauses, so their shares are assumed to equal those of times without owner.
"""

RANGED = (*AT_LEAST, *BEYOND)
"""Measures that get a range."""

CREATED = "GROUP_CREATED"
"""The cause that each life has exactly once."""

MOST_TIMES = 2
"""Limit of a prediction: the largest number of rebalances of a variant, divided by the smallest, must be below this."""


def with_ranges(likely: Measures, others: Sequence[Measures], left_out: int, unseen: float) -> Measures:
    """Return the measures of the likeliest variant, with the lowest and the highest value that each may have.

    The lowest and the highest value cover all variants, and a margin on both sides. Without ``others``, the result has
    no such values.

    Args:
        likely: measures of the likeliest variant.
        others: measures of the other variants that were simulated.
        left_out: number of variants that were not simulated.
        unseen: share of the simulated time, from 0 to 1, in which members may have joined and left without a record.
    """
    if not others:
        return replace(likely, variants_left_out=left_out)
    lives = (likely, *others)
    ranges = {
        name: _bounds(name, [getattr(life, name) for life in lives], unseen)
        for name in RANGED
        if getattr(likely, name) is not None
    }
    for cause in dict.fromkeys(cause for life in lives for cause in life.causes if cause != CREATED):
        ranges[cause] = _bounds_of_cause([life.causes.get(cause, 0) for life in lives], unseen)
    ranges = {name: bounds for name, bounds in ranges.items() if bounds[0] < bounds[1]}
    counts = [life.rebalances for life in lives]
    is_predictable = max(counts) < MOST_TIMES * max(min(counts), FEW)
    return replace(likely, ranges=ranges, is_predictable=is_predictable, variants_left_out=left_out)


def _bounds_of_cause(counts: Sequence[int], unseen: float) -> tuple[int, int]:
    """Return the lowest and the highest number of rebalances that a prediction names for one cause.

    The lowest number is at least one below the number of the likeliest variant, but not negative. The highest number is
    at least one above the number of the likeliest variant.

    Args:
        counts: the number of rebalances with this cause in each variant, the likeliest variant first.
        unseen: share of the simulated time, from 0 to 1, in which members may have joined and left without a record.
    """
    least, most = _bounds("rebalances", counts, unseen)
    return max(min(least, counts[0] - 1), 0), max(most, counts[0] + 1)


def _bounds(name: str, numbers: Sequence[int], unseen: float) -> tuple[int, int]:
    """Return the lowest and the highest value that a prediction names for a measure.

    Args:
        name: the measure, such as ``rebalances``.
        numbers: values of the measure in all variants; the likeliest variant comes first.
        unseen: share of the simulated time, from 0 to 1, in which members may have joined and left without a record.
    """
    value, least, most = numbers[0], min(numbers), max(numbers)
    if name in AT_LEAST:
        least_down, least_up = AT_LEAST[name]
        down, up = int(least_down * value + 0.5), int((least_up + UNSEEN * unseen) * value + 0.5)
        beyond = int(SPREAD * (most - least) + 0.5)
        return max(min(least - beyond, value - down), 0), max(most + beyond, value + up)
    margin = max(round(BEYOND[name] * value), 1) if most else 0
    return max(least - margin, 0), most + margin


def open_rankings(lives: Sequence[Measures]) -> list[list[str]]:
    """Return lists of alternatives that can't be ranked by their number of rebalances.

    Each list has the names of alternatives whose predicted ranges overlap.
    """
    placed = sorted(
        ((life.ranges.get("rebalances", (life.rebalances,) * 2), life) for life in lives), key=lambda it: it[0]
    )
    clusters: list[list[Measures]] = []
    most = -1
    for (least, highest), measures in placed:
        if clusters and least <= most:
            clusters[-1].append(measures)
        else:
            clusters.append([measures])
        most = max(most, highest)
    return [
        [measures.name for measures in together]
        for together in clusters
        if len(together) > 1 and any("rebalances" in measures.ranges for measures in together)
    ]


def table_of(lives: Sequence[Measures]) -> list[tuple[str, list[object]]]:
    """Return a table with a column for the recorded life, and a column for each simulation.

    Each row has the heading of a measure, and its values. After the row of rebalances comes a row for each cause.

    A prediction with a lowest and a highest value is a text: ``7 (5 to 9)``. A lower bound is a text, too: ``at least
    7``.
    """
    causes = sorted({cause for life in lives for cause in (*life.causes, *(life.ranges.keys() - set(RANGED)))})
    rows = [(label, [_cell(life, name, getattr(life, name)) for life in lives]) for name, label in MEASURES]
    by_cause = [(cause, [_cell(life, cause, life.causes.get(cause, 0)) for life in lives]) for cause in causes]
    return [rows[0], *by_cause, *rows[1:]]


def _cell(measures: Measures, name: str, value: object) -> object:
    if measures.is_at_least and value is not None:
        return f"at least {value:,}"
    bounds = measures.ranges.get(name)
    if name == "rebalances" and bounds is not None and not measures.is_predictable:
        return f"{bounds[0]:,} to {bounds[1]:,}"
    if measures.variants_left_out and value is not None and name in RANGED:
        return f"{with_range(value, bounds)}, not all variants"
    return with_range(value, bounds)


def with_range(value: object, bounds: tuple[int, int] | None) -> object:
    """Return a predicted value with its lowest and its highest value as one text, such as ``7 (5 to 9)``.

    If ``bounds`` is None, return the value itself.
    """
    return value if bounds is None else f"{value:,}{range_text(bounds)}"


def range_text(bounds: tuple[int, int] | None) -> str:
    """Return the lowest and the highest value as text, to be written after a predicted value.

    Args:
        bounds: the two values; None for an empty text.
    """
    return "" if bounds is None else f" ({bounds[0]:,} to {bounds[1]:,})"
