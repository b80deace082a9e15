"""The timing of clients in a simulation.

Records do not show four things. Each simulation chooses them, some at random:

* When a member sends its next heartbeat: at any time within one heartbeat interval.
* Which of two clients is the first, if they are started or closed together.
* How long a client of librdkafka waits before it joins. Its main loop wakes at least once a second
  (``rd_kafka_thread_main``).
* How far apart the arrivals are of clients that are started together, and the departures of clients that are stopped
  together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import NamedTuple

from coordinator_replay.simulation.what_if.libraries import JAVA, JOIN_INTERVAL_MS, LIBRDKAFKA, NAMES
from coordinator_replay.simulation.what_if.script import ClientLife, Visit
from coordinator_replay.simulation.what_if.settings import COOPERATIVE, NO_INSTANCE, PER_CLIENT, Settings

SHIFT_MS = 1_000
"""Longest time by which a client may come later, or depart earlier, than the log shows, under other settings."""

GOLDEN = 0.618_033_988_749_895
"""The golden ratio: its multiples, modulo one, are evenly spread, however many there are."""


class Timing(NamedTuple):
    """The timing of the clients of a simulation.

    Attributes:
        drift: seed of the random numbers by which heartbeats, arrivals and departures of clients are shifted. With 0,
            nothing is shifted.
        wake_ms: number of milliseconds that librdkafka's clients wait before they join again, in addition to the usual
            wait. A negative number shortens the wait.
        pace: duration of a revocation, as a multiple of the usual duration.
        is_together: whether clients that arrive less than ``SHIFT_MS`` apart arrive at the same time.
        is_restarted: whether applications restart consumers of librdkafka that reported a fatal error.
    """

    drift: int = 0
    wake_ms: int = 0
    pace: float = 1.0
    is_together: bool = False
    is_restarted: bool = False

    def offset_ms(self, number: int, interval_ms: int) -> int:
        """Return by how many milliseconds all heartbeats of a member are shifted, from 0 up to one interval.

        The shifts of two members differ. If ``drift`` is 0, no heartbeat is shifted.

        Args:
            number: serial number of the member; the first member to arrive has the lowest.
            interval_ms: interval of the member's heartbeats.
        """
        return round(interval_ms * ((number + self.drift * (number + 1)) * GOLDEN % 1)) if self.drift else 0

    def revocation_ms(self, recorded_ms: int | None, library: str) -> int:
        """Return how long a consumer takes to give up partitions under KIP-848.

        Args:
            recorded_ms: the time that the records of the group show; None if they show no such time.
            library: the consumer's library.
        """
        return round(self.pace * (REVOKE_MS[library] if recorded_ms is None else recorded_ms))

    def shift_ms(self, number: int) -> int:
        """Return by how much a client comes later, or departs earlier.

        Args:
            number: serial number of the arrival or departure. Different numbers give different times.
        """
        return round(SHIFT_MS * ((number + 1) * (self.drift + 1) * GOLDEN % 1)) if self.drift else 0


LIKELIEST = Timing()

REVOKE_MS = {JAVA: 250, LIBRDKAFKA: 20}
"""Mean time in ms that consumers of KIP-848 took to give up partitions (``scripts/lab``). They do so when they poll."""

TOGETHER = 0.3
"""Probability that ``Timing.is_together`` is drawn as true. Otherwise each client has its own shift."""

RESTARTED = 0.5
"""Probability that applications are drawn as restarting librdkafka's consumers after a fatal error. Java's client
throws the error, so Java's consumers are always restarted."""

WAKE_MS = 1_000
"""Longest sleep of librdkafka's main loop."""


def drawn_timing(draw: Random, settings: Settings, clients: Sequence[ClientLife]) -> Timing:
    """Return a timing with random values.

    ``wake_ms`` is 0 unless there are clients of librdkafka that use cooperative-sticky on the classic protocol.

    Args:
        draw: source of random numbers.
        settings: the settings to try.
        clients: the clients to simulate.
    """
    wake_ms = draw.choice((0, WAKE_MS, -JOIN_INTERVAL_MS)) if _is_waiting(settings, clients) else 0
    return Timing(
        drift=draw.randint(1, 1_000),
        wake_ms=wake_ms,
        pace=2 ** draw.uniform(-1, 1),
        is_together=draw.random() < TOGETHER,
        is_restarted=draw.random() < RESTARTED,
    )


def timings_sentences(alternatives: Sequence[Settings], clients: Sequence[ClientLife]) -> Iterable[str]:
    """Yield sentences on details of the clients' timing that the log does not show.

    Args:
        alternatives: the settings of each alternative.
        clients: the clients to simulate.
    """
    yield (
        "The log does not show at which moments clients sent heartbeats. Variants choose these moments at random. "
        f"In some variants, clients join up to {SHIFT_MS:,} ms later and leave up to {SHIFT_MS:,} ms earlier. In the "
        f"others, clients that joined within {SHIFT_MS:,} ms of each other join together."
    )
    yield from dict.fromkeys(
        _revocations(alternative) for alternative in alternatives if alternative.protocol == "consumer"
    )
    if any(_is_fatal(settings, clients) for settings in alternatives):
        yield (
            "A static consumer of librdkafka that died and is back before its KIP-848 session is over gets a fatal "
            "error and does nothing more. In half of the variants, its application starts it again until it joins."
        )
    if any(_is_waiting(settings, clients) for settings in alternatives):
        yield f"librdkafka may join again up to {WAKE_MS:,} ms later, or without any wait. Variants simulate both."


def _revocations(settings: Settings) -> str:
    if settings.revoke_ms is not None:
        took = f"in {settings.revoke_ms:,} ms, the mean on record"
    else:
        took = " and ".join(f"in {ms:,} ms ({NAMES[library]})" for library, ms in REVOKE_MS.items())
    return f"Consumers are simulated to revoke partitions {took}. Variants take half to twice this time."


def _is_fatal(settings: Settings, clients: Sequence[ClientLife]) -> bool:
    """Return whether a consumer of librdkafka may get UNRELEASED_INSTANCE_ID, a fatal error for it."""
    is_static = settings.instance == PER_CLIENT or any(client.instance_id is not None for client in clients)
    libraries = {settings.library or client.library for client in clients}
    is_consumer = settings.protocol == "consumer" and settings.instance != NO_INSTANCE
    return is_consumer and is_static and LIBRDKAFKA in libraries


def _is_waiting(settings: Settings, clients: Sequence[ClientLife]) -> bool:
    """Return whether a simulation may have clients of librdkafka that wait before they join again."""
    libraries = {settings.library or client.library for client in clients}
    return settings.protocol == "classic" and settings.strategy == COOPERATIVE and LIBRDKAFKA in libraries


def moved(clients: Sequence[ClientLife], timing: Timing) -> list[ClientLife]:
    """Return the clients with the arrivals and departures that they have in a simulation.

    Args:
        clients: the recorded clients.
        timing: the timing of the simulation. With ``is_together``, arrivals that are close together become one.
            Otherwise clients come later, and leave earlier, than on record.
    """
    if timing.is_together:
        arrivals = _gathered([visit.arrived_ms for client in clients for visit in client.visits])
        return [
            replace(client, visits=tuple(replace(v, arrived_ms=arrivals[v.arrived_ms]) for v in client.visits))
            for client in clients
        ]
    numbers = count()
    return [replace(client, visits=tuple(_shifted(client, timing, numbers))) for client in clients]


def _gathered(moments: Sequence[int]) -> Mapping[int, int]:
    """Return a new time for each time. Times that are close together get the same new time.

    Times are close together if they are within ``SHIFT_MS`` of the first of them. Their new time is the last of them.
    """
    last: dict[int, int] = {}
    first_ms = None
    together: list[int] = []
    for at_ms in sorted(set(moments)):
        if first_ms is None or at_ms > first_ms + SHIFT_MS:
            first_ms, together = at_ms, []
        together.append(at_ms)
        last |= dict.fromkeys(together, at_ms)
    return last


def _shifted(client: ClientLife, timing: Timing, numbers: Iterator[int]) -> Iterator[Visit]:
    """Yield the visits of a client (its times in the group), with a later first arrival and earlier departures.

    Between two visits, the client is away for as long as before.

    Args:
        client: the client.
        timing: the timing of the simulation, which determines the changes.
        numbers: source of serial numbers for the changes.
    """
    later_ms = timing.shift_ms(next(numbers))
    for visit in client.visits:
        if visit.departed_ms is None:
            yield replace(visit, arrived_ms=visit.arrived_ms + later_ms)
            return
        spare_ms = max((visit.departed_ms - visit.arrived_ms) // 2, 0)
        earlier_ms = min(timing.shift_ms(next(numbers)), spare_ms)
        yield replace(
            visit, arrived_ms=visit.arrived_ms + min(later_ms, spare_ms), departed_ms=visit.departed_ms - earlier_ms
        )
        later_ms = -earlier_ms
