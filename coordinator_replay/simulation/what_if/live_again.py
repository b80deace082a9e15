"""A life lived again by simulated clients, and what it cost."""

from collections.abc import Sequence
from typing import NamedTuple

from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.what_if.alternative import Alternative
from coordinator_replay.simulation.what_if.courses import with_members, without_restarts
from coordinator_replay.simulation.what_if.measure import Lived, lived, measured, rows_of
from coordinator_replay.simulation.what_if.measures import Measures
from coordinator_replay.simulation.what_if.recorded import Recorded
from coordinator_replay.simulation.what_if.script import ClientLife, Life
from coordinator_replay.simulation.what_if.settings import Settings
from coordinator_replay.simulation.what_if.simulate import TooLong, simulate
from coordinator_replay.simulation.what_if.timing import LIKELIEST, Timing

DEPARTURES = frozenset({"LEAVE_OR_TIMEOUT", "MEMBER_LEAVE", "SESSION_TIMEOUT"})
"""Causes among which the simulation knows the right one, whatever its records show."""


class LivedAgain(NamedTuple):
    """A simulated life.

    Attributes:
        lived: its rows.
        measures: what it cost.
        steps: steps that its simulation took.
    """

    lived: Lived
    measures: Measures
    steps: int


def live_again(
    life: Life,
    recorded: Recorded,
    settings: Settings,
    clients: Sequence[ClientLife],
    name: str,
    timing: Timing = LIKELIEST,
) -> LivedAgain:
    """Let clients live a life under some settings, and measure it.

    Args:
        life: what happens.
        recorded: the group.
        settings: to be tried.
        clients: who lives it.
        name: what to call it.
        timing: of what no record has.

    Raises:
        UsageError: it takes more steps than a simulation may.
    """
    try:
        result = simulate(life, settings, clients, timing)
    except TooLong:
        raise UsageError(
            f"the life of group {life.group_id!r} has too many events to be simulated at once: give a time range"
        ) from None
    names = {topic.topic_id: topic.name for _, image in life.topics for topic in image}
    rows = rows_of(life.group_id, result.records, names, recorded.changes)
    for row in rows.get("rebalances", ()):
        if row["cause"] in DEPARTURES:
            # The simulation knows what its records don't show.
            row["cause"] = "MEMBER_LEAVE" if result.left.issuperset(row["members_left"]) else "SESSION_TIMEOUT"
    span = (life.start_ms, life.end_ms)
    again = lived(rows, result.by_member, *span, pauses=result.pauses.spans)
    return LivedAgain(again, measured(name, again, *span, is_eager=settings.is_eager()), result.steps)


def clients_of(life: Life, one: Alternative) -> Sequence[ClientLife]:
    """Return the clients of a life as an alternative has them: without restarts, or another number of them."""
    clients = without_restarts(life.clients) if one.without_restarts else life.clients
    return clients if one.members is None else with_members(clients, one.members)
