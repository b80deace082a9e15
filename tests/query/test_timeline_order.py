"""Events without a record of their own stand before the first event that comes after them."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.answer_columns import row_with
from coordinator_replay.query.timeline import TimelineEvent, _is_behind, _with_others
from tests.query.small_warehouse import at


def event(name: str, offset: int | None, seconds: int | None) -> TimelineEvent:
    time = None if seconds is None else at("02:00") + timedelta(seconds=seconds)
    return row_with(TimelineEvent, group_id="g", event=name, log_offset=offset, log_timestamp=time)


def searched(events: list[TimelineEvent], others: list[TimelineEvent]) -> list[TimelineEvent]:
    """The same, one event after the other."""
    found = list(events)
    for other in sorted(others, key=lambda one: (one.log_timestamp, one.event), reverse=True):
        found.insert(next((at for at, one in enumerate(found) if _is_behind(one, other)), len(found)), other)
    return found


SECONDS = st.integers(0, 9)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.none() | SECONDS), max_size=12),
    st.lists(st.tuples(st.none() | st.integers(0, 30), SECONDS), max_size=8),
)
def test_places_are_those_that_a_search_finds(steps: list[tuple[int, int | None]], extra: list[tuple[int | None, int]]):
    events, offset = [], 0
    for step, seconds in steps:
        offset += step
        events.append(event("own", offset, seconds))
    others = [event(f"other-{number}", place, seconds) for number, (place, seconds) in enumerate(extra)]
    assert _with_others(events, others) == searched(events, others)
