"""The answer: the recorded life, how well it is reproduced, and each alternative."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coordinator_replay.simulation.what_if.alternative import Alternative
from coordinator_replay.simulation.what_if.courses import rolled_out
from coordinator_replay.simulation.what_if.fidelity import LOWEST, Fidelity, compare
from coordinator_replay.simulation.what_if.life import life_of
from coordinator_replay.simulation.what_if.live_again import LivedAgain, clients_of, live_again
from coordinator_replay.simulation.what_if.measure import Lived, lived, measured
from coordinator_replay.simulation.what_if.measures import Measures, open_rankings, range_text
from coordinator_replay.simulation.what_if.ranges import MOST_STEPS, Ranges
from coordinator_replay.simulation.what_if.recorded import Recorded
from coordinator_replay.simulation.what_if.settings import changed


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A group's life under several settings.

    Attributes:
        recorded: what the record has.
        simulated: the recorded settings, simulated.
        fidelity: how well they reproduce the record.
        alternatives: one for each asked for; empty where the fidelity is not enough.
        assumptions: what the log does not show, in sentences.
        differences: what each alternative changes, in sentences.
        lives: the rows of the recorded life, of its simulation, and of each alternative, in this order.
    """

    group_id: str
    start_ms: int
    end_ms: int
    recorded: Measures
    simulated: Measures
    fidelity: Fidelity
    alternatives: tuple[Measures, ...]
    assumptions: tuple[str, ...]
    differences: tuple[str, ...]
    lives: tuple[Lived, ...]

    @property
    def measures(self) -> tuple[Measures, ...]:
        """Return what each life cost, in the order of ``lives``."""
        return (self.recorded, self.simulated, *self.alternatives)


def what_if(
    recorded: Recorded,
    alternatives: Iterable[Alternative],
    *,
    start_ms: int | None = None,
    end_ms: int | None = None,
    known: Mapping[str, str] | None = None,
    most_steps: int | None = None,
) -> WhatIf:
    """Replay a group's life under other settings.

    Args:
        recorded: the group.
        alternatives: settings to try.
        start_ms: from then on; the group's first record if None.
        end_ms: until then, not included; the end of the log if None, or ten minutes after the group's last record.
        known: settings that the recorded life had and the log does not hold, by Kafka's names.
        most_steps: steps that simulations may cost for each alternative, so that what the log leaves open is tried too:
            when and how static members went, settings and libraries that are not on record; 0 for no ranges.

    Raises:
        UsageError: the group is not one that can be simulated, or a setting is unknown.
    """
    wanted = list(alternatives)
    life, rows = life_of(recorded, start_ms, end_ms, known or {})
    span = (life.start_ms, life.end_ms)
    settings = [changed(life.settings, one.values) for one in wanted]
    on_record = lived(rows, life.by_member, *span)
    as_recorded = measured("recorded", on_record, *span, is_eager=life.settings.is_eager())
    again = live_again(life, recorded, life.settings, life.clients, "recorded settings, simulated")
    simulated = again.measures
    fidelity = compare(on_record, again.lived, as_recorded.unowned_ms_total, simulated.unowned_ms_total)
    repeated: list[LivedAgain] = []
    notes: list[str] = []
    if fidelity.is_enough:
        most_steps = (MOST_STEPS if most_steps is None else most_steps) * len(wanted)
        ranges = Ranges(life, recorded, again, on_record, fidelity.share, most_steps) if most_steps else None
        for one, tried in zip(wanted, settings, strict=True):
            likely = live_again(life, recorded, tried, clients_of(rolled_out(life), one), one.name)
            repeated.append(likely if ranges is None else ranges.around(likely, one, tried))
        notes += ranges.notes(settings) if ranges is not None else []
    predicted = tuple(one.measures for one in repeated)
    return WhatIf(
        group_id=life.group_id,
        start_ms=span[0],
        end_ms=span[1],
        recorded=as_recorded,
        simulated=simulated,
        fidelity=fidelity,
        alternatives=predicted,
        assumptions=(*life.assumptions, *notes),
        differences=(*(text for one in predicted for text in _differences(simulated, one)), *_open_order(predicted))
        if fidelity.is_enough
        else (
            f"The simulation reproduces {fidelity.share:.0%} of the rebalances; "
            f"nothing is predicted below {LOWEST:.0%}.",
        ),
        lives=(on_record, again.lived, *(one.lived for one in repeated)),
    )


def _differences(before: Measures, after: Measures) -> Iterable[str]:
    """Yield what an alternative changes against the simulation of the recorded settings, in sentences."""
    if not after.is_predictable:
        least, most = after.ranges["rebalances"]
        yield f"{after.name}: can't be predicted from this record: from {least:,} to {most:,} rebalances are possible."
        return
    parts = [f"{before.rebalances} rebalances become {after.rebalances:,}{range_text(after.ranges.get('rebalances'))}"]
    parts += _changes_by_cause(before, after)
    if before.pause_ms_total is not None and after.pause_ms_total is not None:
        pauses = f"{after.pause_ms_total:,}{range_text(after.ranges.get('pause_ms_total'))}"
        parts.append(f"partitions pause for {pauses} ms in total instead of {before.pause_ms_total:,} ms")
    yield f"{after.name}: {'; '.join(parts)}."


def _changes_by_cause(before: Measures, after: Measures) -> Iterable[str]:
    """Yield the causes of which there are fewer or more whatever is not on record, and how many."""
    vanish, appear = [], []
    for cause in dict.fromkeys((*before.causes, *after.causes)):
        count, value = before.causes.get(cause, 0), after.causes.get(cause, 0)
        bounds = after.ranges.get(cause)
        least, most = bounds or (value, value)
        if most < count:
            vanish.append(f"{count - value:,}{range_text(bounds and (count - most, count - least))} {cause}")
        elif least > count:
            appear.append(f"{value - count:,}{range_text(bounds and (least - count, most - count))} {cause}")
    yield from (f"{', '.join(causes)} {how}" for causes, how in ((vanish, "vanish"), (appear, "appear")) if causes)


def _open_order(alternatives: Sequence[Measures]) -> Iterable[str]:
    """Yield what to say of alternatives whose order by rebalances stays open."""
    for names in open_rankings(alternatives):
        yield f"It is not known which of these has fewer rebalances, for their ranges overlap: {'; '.join(names)}."
