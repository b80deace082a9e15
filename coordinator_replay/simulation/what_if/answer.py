"""The answer of what-if: costs of the recorded life, of its simulation, and of each alternative.

If the simulation reproduces too little of the recorded life, nothing is predicted for the alternatives.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.what_if.compare import LOWEST, Fidelity, LivedAgain, clients_of, compare, live_again
from coordinator_replay.simulation.what_if.measures import Measures, open_rankings, range_text
from coordinator_replay.simulation.what_if.outcome import Lived, lived, measured
from coordinator_replay.simulation.what_if.ranges import MOST_STEPS, Ranges
from coordinator_replay.simulation.what_if.record import Recorded, RecordedOperation, recorded_settings
from coordinator_replay.simulation.what_if.recorded_clients import ClientLives
from coordinator_replay.simulation.what_if.script import Life, topic_changes, topic_images, topics_read
from coordinator_replay.simulation.what_if.settings import Alternative, changed
from coordinator_replay.simulation.what_if.variants import in_range, rolled_out, unseen
from coordinator_replay.times import time_text

LEAD_MS = 120_000
"""Lead time: clients that are present at the beginning of the life arrive this much earlier. So the group is at rest
when the life begins."""

QUIET_MS, LONGEST_QUIET_MS = 30_000, 600_000
"""How long a life continues after the group's last record. The first number holds if the end of the log is unknown. If
it is known, the life continues up to the end of the log, but for no longer than the second number."""

NO_SIMULATION = frozenset({"share", "streams"})


def life_of(
    recorded: Recorded, start_ms: int | None, end_ms: int | None, known: Mapping[str, str]
) -> tuple[Life, dict[str, list[dict[str, Any]]]]:
    """Return the script of a group's life, and the rows of the recorded group by table.

    Raises:
        UsageError: the group has no members or no known topics in the time range, the group can't be simulated, or a
            setting in ``known`` is unknown.
    """
    operations = recorded.operations
    if not operations:
        raise recorded.nothing("has no members on record to replay")
    types = {str(operation.events[-1].group_type) for operation in operations}
    if types & NO_SIMULATION:
        kind = sorted(types & NO_SIMULATION)[0]
        raise UsageError(
            f"group {recorded.group_id!r} is a {kind} group; only classic and consumer groups can be simulated"
        )
    rows = recorded.rows
    settings, notes = recorded_settings(_with_first_protocol(operations, start_ms), rows, known)
    reasons = {
        str(member_id): (str(row["cause"]), str(row["confidence"]))
        for row in rows.get("rebalances", ())
        for member_id in row["members_left"]
    }
    lives = ClientLives(settings, reasons, recorded.last_commits)
    for operation in operations:
        lives.take(operation)
    last_ms = operations[-1].at_ms
    log_end_ms = min(recorded.log_end_ms or last_ms + QUIET_MS, last_ms + LONGEST_QUIET_MS) + 1
    clients = lives.finish(log_end_ms)
    first = operations[0]
    is_whole = any(str(event.kind) == "GROUP_CREATED" for event in first.events)
    begins = min((visit.arrived_ms for client in clients for visit in client.visits), default=first.at_ms)
    earliest = min(begins, first.at_ms) if is_whole else first.at_ms + 1
    start = max(start_ms, earliest) if start_ms is not None else earliest
    end = log_end_ms if end_ms is None else min(log_end_ms, end_ms)
    if end <= start:
        raise recorded.nothing("has no records in that time range")
    notes = [*recorded.lacks, *notes]
    if not is_whole:
        notes.append(
            "The start of the group is not on record: the members of its first record are taken as its initial members."
        )
    notes += _gaps(operations, start, end)
    chosen = in_range(clients, start, end, LEAD_MS)
    if not chosen:
        raise recorded.nothing("had no members to replay in that time range")
    topics = topics_read(chosen, recorded)
    names, changes = topic_changes(topics, operations, recorded, notes)
    if not changes and not recorded.counts.keys() & topics:
        raise UsageError(f"nothing is known of the partitions that group {recorded.group_id!r} reads")
    if topics & changes.keys() - recorded.changes.keys():
        # The log shows when members reacted to a change, not the change itself. So there is no further delay.
        settings = replace(settings, metadata_ms=0)
    images = topic_images(names, recorded.counts, changes, topics, start - LEAD_MS, end)
    notes += lives.assumptions()
    notes += _protocol_changes(operations, start, end)
    if any(
        subscription.rack_id for client in chosen for visit in client.visits for _, subscription in visit.subscriptions
    ):
        notes.append(
            "Members have a client.rack. Where replicas lie is not in the tables: assignors are simulated without "
            "racks."
        )
    share = unseen(lives.phases, start, end)
    notes += _unseen_sentence(share)
    return Life(recorded.group_id, start, end, settings, chosen, images, tuple(notes), share), rows


def _unseen_sentence(share: float) -> Iterable[str]:
    if share:
        yield (
            f"In {share:.0%} of the time join phases waited for static members. Members that came and went meanwhile "
            "left no record, so the highest values of the ranges are higher."
        )


def _with_first_protocol(operations: Sequence[RecordedOperation], start_ms: int | None) -> list[RecordedOperation]:
    """Return the operations in which the group uses the same protocol as at ``start_ms``.

    Args:
        operations: the operations on the group, at least one.
        start_ms: a time; None, or a time before the first operation, means the time of the first operation.
    """
    before = [operation for operation in operations if start_ms is not None and operation.at_ms <= start_ms]
    first = before[-1] if before else operations[0]
    return [operation for operation in operations if operation.is_classic == first.is_classic]


def _protocol_changes(operations: Sequence[RecordedOperation], start_ms: int, end_ms: int) -> Iterable[str]:
    """Yield a sentence on the changes of protocol within a time range; none if the protocol did not change."""
    changes = [
        f"{'classic' if next_operation.is_classic else 'consumer'} from {time_text(next_operation.at_ms)} on"
        for before, next_operation in pairwise(operations)
        if start_ms < next_operation.at_ms < end_ms and before.is_classic != next_operation.is_classic
    ]
    if changes:
        yield (
            f"The group changed its protocol in that time: {', '.join(changes)}. All of it is simulated with the first "
            "one; a time range between two changes gives a better answer."
        )


def _gaps(operations: Sequence[RecordedOperation], start_ms: int, end_ms: int) -> Iterable[str]:
    """Yield a sentence on the missing records within a time range; none if no records are missing."""
    gaps = sum(
        any(not event.is_exact for event in operation.events)
        for operation in operations
        if start_ms <= operation.at_ms < end_ms
    )
    if gaps:
        where = f"{gaps} operation{'' if gaps == 1 else 's'} of that time"
        yield f"Records are missing before {where}: steps in between were not seen."


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The answer of what-if: a group's recorded life, and its simulations under several settings.

    Attributes:
        recorded: the costs of the recorded life.
        simulated: the costs of the simulation with the recorded settings.
        fidelity: how well ``simulated`` reproduces the recorded life.
        alternatives: the costs of each alternative; empty if ``fidelity`` is too low for predictions.
        assumptions: assumptions about facts that the log does not show, in sentences.
        differences: sentences on how each alternative differs from the simulation with the recorded settings. If
            ``fidelity`` is too low for predictions, one sentence that says so.
        lives: the rows of the recorded life, of its simulation, and of each predicted alternative, in this order.
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
        """Return the costs of the recorded life, of its simulation, and of each alternative, in this order."""
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
    """Simulate a group's life under the recorded settings and under other settings.

    Args:
        recorded: the recorded group.
        alternatives: settings to try.
        start_ms: the first millisecond of the time range; None for the group's first record.
        end_ms: the first millisecond after the time range. None for the end of the log, or ten minutes after the
            group's last record if that is earlier.
        known: the group's settings that the log does not show, by Kafka's names.
        most_steps: largest number of simulation steps for the variants of one alternative, on average; None for
            ``MOST_STEPS``. With 0, variants are not simulated, and predictions have no lowest and highest values.

    Raises:
        UsageError: the group can't be simulated, or a setting is unknown.
    """
    wanted = list(alternatives)
    life, rows = life_of(recorded, start_ms, end_ms, known or {})
    span = (life.start_ms, life.end_ms)
    settings = [changed(life.settings, alternative.values) for alternative in wanted]
    on_record = lived(rows, life.by_member, *span)
    as_recorded = measured("recorded", on_record, *span, is_eager=life.settings.is_eager())
    if recorded.lacks:
        as_recorded = replace(as_recorded, is_at_least=True, stable_share=None)
    again = live_again(life, recorded, life.settings, life.clients, "recorded settings, simulated")
    simulated = again.measures
    fidelity = compare(on_record, again.lived, as_recorded.unowned_ms_total, simulated.unowned_ms_total)
    repeated: list[LivedAgain] = []
    notes: list[str] = []
    if fidelity.is_enough:
        most_steps = (MOST_STEPS if most_steps is None else most_steps) * len(wanted)
        ranges = Ranges(life, recorded, again, on_record, fidelity.share, most_steps) if most_steps else None
        for alternative, tried in zip(wanted, settings, strict=True):
            likely = live_again(life, recorded, tried, clients_of(rolled_out(life), alternative), alternative.name)
            repeated.append(likely if ranges is None else ranges.around(likely, alternative, tried))
        notes += ranges.notes(settings) if ranges is not None else []
    predicted = tuple(life.measures for life in repeated)
    return WhatIf(
        group_id=life.group_id,
        start_ms=span[0],
        end_ms=span[1],
        recorded=as_recorded,
        simulated=simulated,
        fidelity=fidelity,
        alternatives=predicted,
        assumptions=(*life.assumptions, *notes),
        differences=(
            *(text for measures in predicted for text in _differences(simulated, measures)),
            *_open_order(predicted),
        )
        if fidelity.is_enough
        else (_no_prediction(fidelity),),
        lives=(on_record, again.lived, *(life.lived for life in repeated)),
    )


def _no_prediction(fidelity: Fidelity) -> str:
    """Return a sentence that says why nothing is predicted."""
    if fidelity.is_empty:
        return "Nothing is predicted: that time has no rebalance on record that a simulation could reproduce."
    return f"The simulation reproduces {fidelity.share:.0%} of the rebalances; nothing is predicted below {LOWEST:.0%}."


def _differences(before: Measures, after: Measures) -> Iterable[str]:
    """Yield sentences on how an alternative differs from the simulation of the recorded settings."""
    if not after.is_predictable:
        least, most = after.ranges["rebalances"]
        yield f"{after.name}: can't be predicted from this record: from {least:,} to {most:,} rebalances are possible."
        return
    bounds = after.ranges.get("rebalances")
    parts = []
    if before.members_interrupted != after.members_interrupted:
        times = f"{after.members_interrupted:,}{range_text(after.ranges.get('members_interrupted'))}"
        parts.append(f"members are interrupted {times} times instead of {before.members_interrupted:,}")
    if before.stop_the_world != after.stop_the_world:
        stops = f"{after.stop_the_world:,}{range_text(after.ranges.get('stop_the_world'))}"
        parts.append(f"{stops} rebalances stop all members instead of {before.stop_the_world:,}")
    parts.append(
        f"{_verdict(before.rebalances, after.rebalances, bounds)}: {after.rebalances:,}{range_text(bounds)} instead of "
        f"{before.rebalances:,}"
    )
    moved = f"{after.partitions_reassigned:,}{range_text(after.ranges.get('partitions_reassigned'))}"
    parts.append(f"{moved} partitions are reassigned instead of {before.partitions_reassigned:,}")
    if before.pause_ms_total is not None and after.pause_ms_total is not None:
        pauses = f"{after.pause_ms_total:,}{range_text(after.ranges.get('pause_ms_total'))}"
        parts.append(f"partitions pause for {pauses} ms in total instead of {before.pause_ms_total:,} ms")
    parts += _changes_by_cause(before, after)
    yield f"{after.name}: {'; '.join(parts)}."


def _verdict(before: int, after: int, bounds: tuple[int, int] | None) -> str:
    """Return in words whether an alternative has more rebalances or fewer, or only perhaps.

    >>> _verdict(13, 7, (4, 10)), _verdict(13, 14, (13, 16)), _verdict(13, 13, None)
    ('fewer rebalances', 'perhaps more rebalances', 'as many rebalances')
    """
    if before == after:
        return "as many rebalances"
    least, most = bounds or (after, after)
    return f"{'perhaps ' if least <= before <= most else ''}{'fewer' if after < before else 'more'} rebalances"


def _changes_by_cause(before: Measures, after: Measures) -> Iterable[str]:
    """Yield a text on causes with fewer rebalances in the alternative, and a text on causes with more.

    A cause is left out if it is open whether the alternative changes the number of its rebalances.

    Args:
        before: measures of the simulation with the recorded settings.
        after: measures of the alternative.
    """
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
    """Yield sentences on alternatives that can't be ranked by their number of rebalances."""
    for names in open_rankings(alternatives):
        yield f"It is not known which of these has fewer rebalances, because their ranges overlap: {'; '.join(names)}."
