"""The range around a prediction: what else is possible where neither the log nor the question decides.

When and how members left and when members of one join phase arrived may be unknown (``courses``), settings and the
library of the clients (``open_settings``), and the timing of the clients (``timing``). All of it is drawn, so many
times that a further draw would lie within the least and the most of them in eight of ten cases.
"""

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from coordinator_replay.simulation.what_if.alternative import Alternative
from coordinator_replay.simulation.what_if.courses import drawn_course, rolled_out
from coordinator_replay.simulation.what_if.fidelity import compare
from coordinator_replay.simulation.what_if.live_again import LivedAgain, clients_of, live_again
from coordinator_replay.simulation.what_if.measure import Lived
from coordinator_replay.simulation.what_if.measures import with_ranges
from coordinator_replay.simulation.what_if.open_settings import open_settings_sentences, shortest, with_librdkafka
from coordinator_replay.simulation.what_if.recorded import Recorded
from coordinator_replay.simulation.what_if.script import ClientLife, Life
from coordinator_replay.simulation.what_if.settings import Settings
from coordinator_replay.simulation.what_if.timing import Timing, drawn_timing, timings_sentences

MOST_STEPS = 50_000
"""Steps that an answer may cost for each alternative, its ranges included: some three seconds."""

SHORTEST_FACTOR = 3
"""By so much the steps of a simulation grow where intervals are the shortest."""

DRAWS = 9
"""Variants besides the likeliest: a further one lies outside the least and the most of 10 in 2 of 11 cases."""

Variant = tuple[Life, Settings, Sequence[ClientLife], Timing]
"""What to simulate: a course, settings, clients, and their timing."""


class Ranges:
    """Finds the ranges of a group's predictions."""

    def __init__(
        self,
        life: Life,
        recorded: Recorded,
        again: LivedAgain,
        on_record: Lived,
        share: float,
        most_steps: int,
    ) -> None:
        """Draw courses of the life that leave the same record as the likeliest one.

        Args:
            life: the likeliest course.
            recorded: the group.
            again: that course, simulated with the recorded settings.
            on_record: the recorded life.
            share: of the rebalances that the likeliest course reproduces.
            most_steps: steps that all simulations may take, with those of the likeliest course.
        """
        self._life, self._recorded = life, recorded
        self._left = most_steps - again.steps
        self._left_out = 0
        self._courses: list[Life] = []
        for number in range(DRAWS):
            course = drawn_course(life, Random(number))  # noqa: S311 - the same variants each time
            # A course is worth its steps only if alternatives can be afforded, too.
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

    def around(self, likely: LivedAgain, one: Alternative, tried: Settings) -> LivedAgain:
        """Return a prediction with its range.

        Args:
            likely: the prediction.
            one: what is tried.
            tried: its settings.
        """
        self._left -= likely.steps
        others = []
        left_out_before = self._left_out - self._courses_left_out
        for course, settings, clients, timing in self._variants(one, tried):
            if not self._can_afford(likely.steps * (1 if settings is tried else SHORTEST_FACTOR)):
                continue
            other = live_again(course, self._recorded, settings, clients, one.name, timing)
            self._left -= other.steps
            others.append(other.measures)
        left_out = self._left_out - left_out_before
        return likely._replace(measures=with_ranges(likely.measures, others, left_out, self._life.unseen))

    def _variants(self, one: Alternative, tried: Settings) -> Iterator[Variant]:
        """Drawn courses and timings; settings and libraries that nobody gave take turns."""
        shorter = shortest(tried, self._life)
        for number, course in enumerate(self._courses):
            draw = Random(number)  # noqa: S311 - the same variants each time
            settings = shorter if shorter is not None and number % 2 else tried
            own = clients_of(course, one)
            if number % 4 < 2:
                own = with_librdkafka(tried, own) or own
            yield course, settings, own, drawn_timing(draw, settings, own)

    def notes(self, alternatives: Sequence[Settings]) -> Iterable[str]:
        """Yield what ranges cover, and what they don't, in sentences.

        Args:
            alternatives: the settings of each alternative.
        """
        yield from open_settings_sentences(alternatives, self._life)
        yield from timings_sentences(alternatives, self._life.clients)
        if self._left_out:
            yield (
                f"The time range is long: {self._left_out} variants that the record allows were not simulated, so the "
                "ranges may be too narrow. A shorter time range gives full ranges."
            )
