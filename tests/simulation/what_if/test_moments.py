"""The moments at which clients come and go under other settings."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.simulation.what_if.script import ClientLife, Visit, Window
from coordinator_replay.simulation.what_if.timing import LIKELIEST, SHIFT_MS, Timing, moved

moments = st.lists(st.integers(0, 20_000), min_size=1, max_size=8)


def clients(arrivals: list[int]) -> list[ClientLife]:
    return [
        ClientLife(f"c#{number}", "c", "127.0.0.1", None, (Visit(at_ms, "", ()),))
        for number, at_ms in enumerate(arrivals)
    ]


def arrived(lives: list[ClientLife]) -> list[int]:
    return [client.visits[0].arrived_ms for client in lives]


def test_in_the_likeliest_life_clients_come_when_they_did() -> None:
    assert arrived(moved(clients([3, 1, 2]), LIKELIEST)) == [3, 1, 2]


def test_clients_that_come_within_a_shift_may_come_together() -> None:
    together = Timing(drift=1, is_together=True)
    assert arrived(moved(clients([0, 400, SHIFT_MS, SHIFT_MS + 1]), together)) == [SHIFT_MS] * 3 + [SHIFT_MS + 1]


@given(moments, st.integers(1, 100), st.booleans())
def test_nobody_comes_earlier_or_later_than_by_a_shift(arrivals: list[int], drift: int, is_together: bool) -> None:
    after = arrived(moved(clients(arrivals), Timing(drift=drift, is_together=is_together)))
    assert all(0 <= late - at_ms <= SHIFT_MS for at_ms, late in zip(arrivals, after, strict=True))


@given(st.integers(0, 100_000), st.floats(0, 1), st.floats(0, 1))
def test_moments_lie_within_their_window_and_most_restarts_take_seconds(
    length_ms: int, share: float, more: float
) -> None:
    for is_restart in (False, True):
        window = Window(50, 50 + length_ms, is_restart=is_restart)
        low, high = sorted((share, more))
        assert window.earliest_ms <= window.at(low) <= window.at(high) <= window.latest_ms
    long = Window(0, 45_000, is_restart=True)
    assert 45_000 - long.at(0.5) < 4_000
