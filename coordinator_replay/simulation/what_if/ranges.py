"""The range of a prediction: its lowest and its highest value.

The log does not show every detail. So the same question is simulated several times, with details chosen at random.
Each simulation is a variant, and the range covers the results of all variants. ``DRAWS`` variants are simulated in
addition to the likeliest variant. They differ in four kinds of details:

* when and how clients departed (``variants``);
* the timing of clients (``timing``);
* settings that the user does not give and that no record shows: Kafka's default, or the shortest value used in
  practice;
* the library of clients of the classic protocol, if it is unknown: Java's, or librdkafka in about half of the variants.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from coordinator_replay.simulation.what_if.compare import LivedAgain, clients_of, compare, live_again
from coordinator_replay.simulation.what_if.libraries import LIBRDKAFKA
from coordinator_replay.simulation.what_if.measures import with_ranges
from coordinator_replay.simulation.what_if.outcome import Lived
from coordinator_replay.simulation.what_if.record import Recorded
from coordinator_replay.simulation.what_if.script import ClientLife, Life
from coordinator_replay.simulation.what_if.settings import BY_NAME, Alternative, Settings
from coordinator_replay.simulation.what_if.timing import Timing, drawn_timing, timings_sentences
from coordinator_replay.simulation.what_if.variants import drawn_course, rolled_out


class _Open(NamedTuple):
    """A setting that the log does not always show, such as the heartbeat interval.

    Attributes:
        name: Kafka's name of the setting.
        value: function that returns the setting's value from ``Settings``.
        shortest_ms: the lowest value used in practice.
        is_classic: whether only the classic protocol has the setting.
        is_of_topics: whether the setting matters only if topics change.
        is_of_members: whether the records of a classic group show the setting.
    """

    name: str
    value: Callable[[Settings], int]
    shortest_ms: int
    is_classic: bool = False
    is_of_topics: bool = False
    is_of_members: bool = False


_OPEN: Sequence[_Open] = (
    # No consumer sends more than ten heartbeats a second.
    _Open("heartbeat.interval.ms", Settings.heartbeat, 100),
    _Open("group.initial.rebalance.delay.ms", Settings.initial_delay, 0, is_classic=True),
    # As if every change of a topic were seen at once.
    _Open("metadata.max.age.ms", Settings.metadata_age, 0, is_classic=True, is_of_topics=True),
    # Brokers allow no shorter session timeout, unless group.min.session.timeout.ms is set.
    _Open("session.timeout.ms", Settings.consumer_session, 6_000, is_classic=True, is_of_members=True),
)


def _open_in(settings: Settings, life: Life) -> list[_Open]:
    do_topics_change = any(at_ms >= life.start_ms for at_ms, _ in life.topics[1:])
    return [
        setting
        for setting in _OPEN
        if getattr(settings, BY_NAME[setting.name].field) is None
        and (settings.protocol == "classic" or not setting.is_classic)
        and (do_topics_change or not setting.is_of_topics)
        and (life.settings.protocol != "classic" or not setting.is_of_members)
    ]


def shortest(settings: Settings, life: Life) -> Settings | None:
    """Return the settings of a variant: settings whose values are unknown get the shortest value used in practice.

    Return None if there is no unknown setting that can change the simulation.

    Args:
        settings: the settings of an alternative.
        life: the script of the group's life.
    """
    changes: dict[str, Any] = {BY_NAME[setting.name].field: setting.shortest_ms for setting in _open_in(settings, life)}
    return replace(settings, **changes) if changes else None


def with_librdkafka(settings: Settings, clients: Sequence[ClientLife]) -> tuple[ClientLife, ...] | None:
    """Return the clients, with librdkafka for each client whose library is unknown.

    Return None if all libraries are known, if the settings give the library, or if the protocol is not classic.
    """
    is_recorded = settings.library is not None or all(client.library is not None for client in clients)
    if settings.protocol != "classic" or is_recorded:
        return None
    return tuple(replace(client, library=client.library or LIBRDKAFKA) for client in clients)


def open_settings_sentences(alternatives: Sequence[Settings], life: Life) -> Iterable[str]:
    """Yield sentences for the user about unknown settings: which values are simulated for them.

    A setting is unknown if neither the user nor a record gives its value.

    Args:
        alternatives: the settings of each alternative.
        life: the script of the group's life.
    """
    sentences = (
        f"{setting.name} of the {settings.protocol} protocol is not on record. Unless given, Kafka's default is "
        f"simulated: {setting.value(settings):,} ms. Every second variant has {setting.shortest_ms:,} ms instead."
        for settings in alternatives
        for setting in _open_in(settings, life)
    )
    yield from dict.fromkeys(sentences)
    changed = [alternative for alternative in alternatives if alternative.protocol != life.settings.protocol]
    for settings in {tried.protocol: tried for tried in changed}.values():
        assignor = settings.strategy if settings.protocol == "classic" else settings.assignor
        yield (
            f"Records of the {life.settings.protocol} protocol don't have the assignor of the {settings.protocol} "
            f"protocol. Unless given, it is {assignor}."
        )
    open_sessions = [tried for tried in changed if tried.protocol == "consumer" and tried.session_ms is None]
    if open_sessions:
        yield (
            f"{OPEN_SESSION} not on record. Unless given, Kafka's default is simulated: 45,000 ms."
            f"{_mixed(life, open_sessions)}"
        )


OPEN_SESSION = "The session timeout of a consumer group is"
"""First words of the assumption that decides most about pauses: how long a client that crashed keeps its partitions."""


def _mixed(life: Life, alternatives: Sequence[Settings]) -> str:
    """Return sentences for the user about session timeouts, if a classic group is simulated as a consumer group.

    The sentences compare the recorded session timeouts with Kafka's default, which is simulated. Return an empty text
    if they don't differ, or if no session timeout is on record.

    Args:
        life: the script of the classic group's life.
        alternatives: the alternatives that use the consumer protocol and give no session timeout.
    """
    recorded = {
        subscription.session_timeout_ms
        for client in life.clients
        for visit in client.visits
        for _, subscription in visit.subscriptions
    } - {None}
    if not recorded or recorded == {45_000}:
        return ""
    sessions = sorted(filter(None, recorded))
    times = " and ".join(f"{session:,}" for session in sessions)
    assumed = {tried.heartbeat() for tried in alternatives if tried.heartbeat_ms is None} - {life.settings.heartbeat()}
    beats = "".join(
        f" Unless given, heartbeats come every {interval:,} ms, also Kafka's default." for interval in assumed
    )
    sources = "these settings" if beats else "this timeout"
    kept = "the recorded timeout" if len(sessions) == 1 else "the longest recorded timeout"
    return (
        f" Members of the recorded classic group have {times} ms.{beats} So differences in pauses may come from "
        f"{sources}, too. --set session.timeout.ms={sessions[-1]} keeps {kept}."
    )


MOST_STEPS = 50_000
"""Largest number of steps of all simulations for an alternative together: about three seconds."""

SHORTEST_FACTOR = 3
"""Factor by which the steps of a simulation grow with the shortest intervals."""

DRAWS = 9
"""Number of variants besides the likeliest: a further variant is outside the range of all 10 in 2 of 11 cases."""

Variant = tuple[Life, Settings, Sequence[ClientLife], Timing]
"""Input of a simulation: a course of the life, settings, clients, and their timing."""


class Ranges:
    """The lowest and highest values of a group's predictions, found by simulations with random details."""

    def __init__(
        self,
        life: Life,
        recorded: Recorded,
        again: LivedAgain,
        on_record: Lived,
        share: float,
        most_steps: int,
    ) -> None:
        """Choose at random the details that the log does not show, once for each variant.

        Args:
            life: the script of the group's life with the likeliest details.
            recorded: the recorded group.
            again: the simulation of ``life`` with the recorded settings.
            on_record: the rows of the recorded life.
            share: share of the recorded rebalances that ``again`` reproduces, from 0 to 1.
            most_steps: largest number of steps of all simulations together, including the steps of ``again``.
        """
        # A variant that reproduces less of the recorded life than ``life`` is replaced by ``life``.
        self._life, self._recorded = life, recorded
        self._left = most_steps - again.steps
        self._left_out = 0
        self._courses: list[Life] = []
        for number in range(DRAWS):
            course = drawn_course(life, Random(number))  # noqa: S311 - the same variants each time
            # A course is simulated only if enough steps are left for the alternatives.
            if course != life and self._can_afford(again.steps * (DRAWS + 1)):
                tried = live_again(course, recorded, life.settings, course.clients, "")
                self._left -= tried.steps
                is_on_record = compare(on_record, tried.lived, None, None).share >= share
                course = course if is_on_record else life
            self._courses.append(rolled_out(course, Random(number)))  # noqa: S311

        self._courses_left_out = self._left_out

    def _can_afford(self, steps: int) -> bool:
        can = steps <= self._left
        self._left_out += not can
        return can

    def around(self, likely: LivedAgain, alternative: Alternative, tried: Settings) -> LivedAgain:
        """Return a prediction with its lowest and highest values, after simulating other variants.

        Args:
            likely: the prediction of the likeliest variant.
            alternative: the alternative that is predicted.
            tried: settings of the alternative.
        """
        self._left -= likely.steps
        others = []
        left_out_before = self._left_out - self._courses_left_out
        for course, settings, clients, timing in self._variants(alternative, tried):
            if not self._can_afford(likely.steps * (1 if settings is tried else SHORTEST_FACTOR)):
                continue
            other = live_again(course, self._recorded, settings, clients, alternative.name, timing)
            self._left -= other.steps
            others.append(other.measures)
        left_out = self._left_out - left_out_before
        return likely._replace(measures=with_ranges(likely.measures, others, left_out, self._life.unseen))

    def _variants(self, alternative: Alternative, tried: Settings) -> Iterator[Variant]:
        """Yield the variants of an alternative: simulations that differ in the details that the log does not show.

        Args:
            alternative: the alternative to predict.
            tried: the settings of the alternative.
        """
        # Every second variant has the shortest values of unknown settings. About half of the variants have librdkafka
        # for clients of an unknown library.
        shorter = shortest(tried, self._life)
        for number, course in enumerate(self._courses):
            draw = Random(number)  # noqa: S311 - the same variants each time
            settings = shorter if shorter is not None and number % 2 else tried
            own = clients_of(course, alternative)
            if number % 4 < 2:
                own = with_librdkafka(tried, own) or own
            yield course, settings, own, drawn_timing(draw, settings, own)

    def notes(self, alternatives: Sequence[Settings]) -> Iterable[str]:
        """Yield sentences for the user about facts that the log does not show, such as the clients' settings.

        If some variants were not simulated, because the time range is long, a sentence tells their number.

        Args:
            alternatives: the settings of each alternative.
        """
        yield from open_settings_sentences(alternatives, self._life)
        yield from timings_sentences(alternatives, self._life.clients)
        if self._left_out:
            yield (
                f"The time range is long: {self._left_out} variants that agree with the records were not simulated, so "
                "the ranges may be too narrow. A shorter time range gives full ranges."
            )
