from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.broker_log.clock import (
    QUARTER_MS,
    WITHIN_MS,
    RecordedLine,
    UtcOffset,
    ZoneClock,
    utc_offsets,
)
from coordinator_replay.errors import UsageError
from coordinator_replay.zones import parse_zone

HOUR_MS = 3_600_000
AT_MS = 1_795_249_946_195


def recorded_line(place, offset_ms, late_ms=0):
    recorded = AT_MS + place * 7_000_000
    return RecordedLine(place, recorded + offset_ms + late_ms, (recorded,))


@given(st.integers(-56, 56), st.lists(st.integers(-WITHIN_MS, WITHIN_MS), min_size=1, max_size=5))
def test_lines_within_two_seconds_of_their_records_say_the_zone(quarters, late):
    offset = quarters * QUARTER_MS
    lines = [recorded_line(place, offset, one) for place, one in enumerate(late)]
    assert utc_offsets(lines) == [UtcOffset(None, None, offset)]


@given(st.integers(WITHIN_MS + 1, QUARTER_MS - WITHIN_MS - 1))
def test_lines_that_fit_no_record_say_none(late):
    assert utc_offsets([recorded_line(0, 0, late), recorded_line(1, 0)]) is None


def test_a_number_that_two_generations_had_is_of_that_which_fits():
    lines = [RecordedLine(0, AT_MS + HOUR_MS, (AT_MS - 400_000, AT_MS, AT_MS + 31)), recorded_line(1, HOUR_MS)]
    assert utc_offsets(lines) == [UtcOffset(None, None, HOUR_MS)]


def test_daylight_saving_has_two_stretches_and_what_lies_between_is_open():
    lines = [recorded_line(3, HOUR_MS), recorded_line(5, HOUR_MS), recorded_line(9, 2 * HOUR_MS)]
    offsets = utc_offsets(lines)
    assert offsets == [UtcOffset(None, 5, HOUR_MS), UtcOffset(9, None, 2 * HOUR_MS)]
    assert [[one.has(place) for one in offsets] for place in (5, 7, 9)] == [[1, 0], [0, 0], [0, 1]]


@pytest.mark.parametrize("hours", [(1, 2, 1), (1, 4), (0, 1, 3)])
def test_times_that_jump_otherwise_fit_no_zone(hours):
    assert utc_offsets([recorded_line(place, one * HOUR_MS) for place, one in enumerate(hours)]) is None


def test_no_line_says_none():
    assert utc_offsets([]) is None
    assert utc_offsets([RecordedLine(0, AT_MS, ())]) is None
    assert utc_offsets([recorded_line(0, 15 * HOUR_MS)]) is None


@pytest.mark.parametrize(("name", "hours"), [("+02:00", 2), ("-0330", -3.5), ("UTC+01:00", 1)])
def test_a_fixed_zone(name, hours):
    assert parse_zone(name) == timezone(timedelta(hours=hours))


@pytest.mark.parametrize("name", ["Europe/Nowhere", "../../etc/passwd", "+25:00", "", "/etc/localtime"])
def test_no_zone(name):
    with pytest.raises(UsageError, match="no time zone"):
        parse_zone(name)


def test_the_hour_that_clocks_show_twice():
    clock = ZoneClock(parse_zone("Europe/Berlin"))
    shown = ["01:59", "02:10", "02:50", "02:05", "02:10", "03:00"]
    local = [datetime.fromisoformat(f"2026-10-25T{one}:00.123+00:00") for one in shown]
    found = [clock.utc_ms(round(one.timestamp() * 1000)) for one in local]
    assert [f"{datetime.fromtimestamp(one / 1000, UTC):%d %H:%M}" for one in found] == [
        "24 23:59",
        "25 00:10",
        "25 00:50",
        "25 01:05",
        "25 01:10",
        "25 02:00",
    ]
    assert {one % 1000 for one in found} == {123}
