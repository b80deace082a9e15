"""The answer: the recorded life, how well it is reproduced, and each alternative beside it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coordinator_replay.errors import UsageError
from coordinator_replay.whatif.alternative import Alternative
from coordinator_replay.whatif.courses import courses, with_members, without_restarts
from coordinator_replay.whatif.fidelity import LOWEST, Fidelity, compare
from coordinator_replay.whatif.life import life_of
from coordinator_replay.whatif.measure import Lived, lived, measured, rows_of
from coordinator_replay.whatif.measures import Measures
from coordinator_replay.whatif.measures import with_ranges as ranged
from coordinator_replay.whatif.recorded import Recorded
from coordinator_replay.whatif.script import ClientLife, Life
from coordinator_replay.whatif.settings import Settings, changed
from coordinator_replay.whatif.simulate import TooLong, simulate

DEPARTURES = frozenset({"LEAVE_OR_TIMEOUT", "MEMBER_LEAVE", "SESSION_TIMEOUT"})
"""Causes among which the simulation knows the right one, whatever its records tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A group's life under several settings.

    Attributes:
        recorded: what the record has.
        simulated: the recorded settings, simulated.
        fidelity: how well they reproduce the record.
        alternatives: one for each asked for; empty where the fidelity is not enough.
        assumptions: what the log does not tell, in sentences.
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
        """What each life cost, in the order of ``lives``."""
        return (self.recorded, self.simulated, *self.alternatives)


def what_if(
    recorded: Recorded,
    alternatives: Iterable[Alternative],
    *,
    start_ms: int | None = None,
    end_ms: int | None = None,
    known: Mapping[str, str] | None = None,
    with_ranges: bool = True,
) -> WhatIf:
    """Replay a group's life under other settings.

    Args:
        recorded: the group.
        alternatives: settings to try.
        start_ms: from then on; the group's first record if None.
        end_ms: until then, not included; the end of the log if None, or ten minutes after the group's last record.
        known: settings that the recorded life had and the log does not hold, by Kafka's names.
        with_ranges: also try all that the log leaves open of when and how static members went.

    Raises:
        UsageError: the group is not one that can be simulated, or a setting is unknown.
    """
    wanted = list(alternatives)
    life, rows = life_of(recorded, start_ms, end_ms, known or {})
    span = (life.start_ms, life.end_ms)
    settings = [_settings(life.settings, one) for one in wanted]
    on_record = lived(rows, life.by_member, *span)
    as_recorded = measured("recorded", on_record, *span, is_eager=life.settings.is_eager())
    again, simulated = _lived(life, recorded, life.settings, life.clients, "recorded settings, simulated")
    fidelity = compare(on_record, again, as_recorded.unowned_ms_total, simulated.unowned_ms_total)
    found = []
    if fidelity.is_enough:
        possible = _possible(life, recorded, on_record, fidelity.share) if with_ranges and wanted else []
        for one, tried in zip(wanted, settings, strict=True):
            lived_again, likely = _lived(life, recorded, tried, _clients(life, one), one.name)
            others = [_lived(life, recorded, tried, _clients(course, one), one.name)[1] for course in possible]
            found.append((lived_again, ranged(likely, others)))
    predicted = tuple(one for _, one in found)
    return WhatIf(
        group_id=life.group_id,
        start_ms=span[0],
        end_ms=span[1],
        recorded=as_recorded,
        simulated=simulated,
        fidelity=fidelity,
        alternatives=predicted,
        assumptions=life.assumptions,
        differences=tuple(text for one in predicted for text in _differences(simulated, one))
        if fidelity.is_enough
        else (
            f"The simulation reproduces {fidelity.share:.0%} of the rebalances; "
            f"nothing is predicted below {LOWEST:.0%}.",
        ),
        lives=(on_record, again, *(one for one, _ in found)),
    )


def _possible(life: Life, recorded: Recorded, on_record: Lived, share: float) -> list[Life]:
    """Other courses of a life that leave the same record as the likeliest one."""
    return [
        course
        for course in courses(life)
        if compare(on_record, _lived(course, recorded, life.settings, course.clients, "")[0], None, None).share >= share
    ]


def _settings(recorded: Settings, one: Alternative) -> Settings:
    if one.members is not None and one.members < 1:
        raise UsageError("the number of members must be at least 1")
    return changed(recorded, one.values)


def _clients(life: Life, one: Alternative) -> Sequence[ClientLife]:
    clients = without_restarts(life.clients) if one.without_restarts else life.clients
    return clients if one.members is None else with_members(clients, one.members)


def _lived(
    life: Life, recorded: Recorded, settings: Settings, clients: Sequence[ClientLife], name: str
) -> tuple[Lived, Measures]:
    try:
        result = simulate(life, settings, clients)
    except TooLong:
        raise UsageError(
            f"the life of group {life.group_id!r} is too long to be simulated at once: give a time range"
        ) from None
    names = {topic.topic_id: topic.name for _, image in life.topics for topic in image}
    rows = rows_of(life.group_id, result.records, names, recorded.changes)
    for row in rows.get("rebalances", ()):
        if row["cause"] in DEPARTURES:
            # The simulation knows what its records don't tell.
            row["cause"] = "MEMBER_LEAVE" if result.left.issuperset(row["members_left"]) else "SESSION_TIMEOUT"
    span = (life.start_ms, life.end_ms)
    again = lived(rows, result.by_member, *span, pauses=result.pauses.spans)
    pauses = result.pauses.total()
    return again, measured(name, again, *span, is_eager=settings.is_eager(), pauses=pauses)


def _differences(before: Measures, after: Measures) -> Iterable[str]:
    """What an alternative changes against the simulation of the recorded settings, in sentences."""
    gone = {cause: count - after.causes.get(cause, 0) for cause, count in before.causes.items()}
    vanish = [f"{count} {cause}" for cause, count in gone.items() if count > 0]
    appear = [f"{-count} {cause}" for cause, count in gone.items() if count < 0]
    appear += [f"{count} {cause}" for cause, count in after.causes.items() if cause not in before.causes]
    least_and_most = " ({:,} to {:,})".format(*after.ranges["rebalances"]) if "rebalances" in after.ranges else ""
    parts = [f"{before.rebalances} rebalances become {after.rebalances}{least_and_most}"]
    if vanish:
        parts.append(f"{', '.join(vanish)} vanish")
    if appear:
        parts.append(f"{', '.join(appear)} appear")
    if before.pause_ms_total is not None and after.pause_ms_total is not None:
        parts.append(
            f"partitions stand still for {after.pause_ms_total:,} ms in all instead of {before.pause_ms_total:,} ms"
        )
    yield f"{after.name}: {'; '.join(parts)}."
