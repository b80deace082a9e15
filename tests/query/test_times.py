from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.errors import UsageError
from coordinator_replay.query.times import ABSOLUTE_RULE, LogTime, parse_absolute_time, parse_duration, parse_time

END = datetime(2026, 11, 20, 12, 0, 30, tzinfo=UTC)


def resolved(text: str) -> datetime:
    parsed = parse_time(text)
    return parsed.resolve(END) if isinstance(parsed, LogTime) else parsed


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-20T02:13:00Z", datetime(2026, 11, 20, 2, 13, tzinfo=UTC)),
        ("2026-11-20 02:13", datetime(2026, 11, 20, 2, 13, tzinfo=UTC)),
        ("2026-11-20T02:13:00+02:00", datetime(2026, 11, 20, 0, 13, tzinfo=UTC)),
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("1795249940956", datetime(2026, 11, 21, 8, 32, 20, 956000, tzinfo=UTC)),
        (" now ", END),
        ("-6h", END - timedelta(hours=6)),
        ("-1d12h30m", END - timedelta(days=1, hours=12, minutes=30)),
        ("-2w", END - timedelta(weeks=2)),
        ("-1500ms", END - timedelta(milliseconds=1500)),
        ("08:34", datetime(2026, 11, 20, 8, 34, tzinfo=UTC)),
        ("8:34", datetime(2026, 11, 20, 8, 34, tzinfo=UTC)),
        ("08:34:05", datetime(2026, 11, 20, 8, 34, 5, tzinfo=UTC)),
        ("08:34:05.123", datetime(2026, 11, 20, 8, 34, 5, 123000, tzinfo=UTC)),
        ("today", datetime(2026, 11, 20, tzinfo=UTC)),
        ("Yesterday", datetime(2026, 11, 19, tzinfo=UTC)),
        ("yesterday 08:34", datetime(2026, 11, 19, 8, 34, tzinfo=UTC)),
    ],
)
def test_what_people_type_is_a_time_in_utc(text: str, time: datetime):
    assert resolved(text) == time
    assert resolved(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text", ["tomorrow", "", "-", "-6", "6h", "2026-13-01", "-99999999999w", "25:00", "08:60", "-6h ago", "0", "2026"]
)
def test_what_is_no_time_is_refused_with_the_forms_there_are(text: str):
    with pytest.raises(UsageError, match=rf"invalid time '{text}': write 2026-11-20T02:13:00Z"):
        parse_time(text)


def test_every_form_that_a_message_advises_is_taken():
    with pytest.raises(UsageError) as refused:
        parse_time("soon")
    for text in ("2026-11-20T02:13:00Z", "2026-11-20", "-6h", "-1d12h", "now", "08:34", "08:34:05", "today",
                 "yesterday", "yesterday 08:34"):  # fmt: skip
        assert text in str(refused.value)
        resolved(text)
    with pytest.raises(UsageError, match="write 1795249940000, in milliseconds"):
        parse_time("1795249940")
    assert resolved("1795249940000") == datetime(2026, 11, 21, 8, 32, 20, tzinfo=UTC)


def test_microseconds_are_not_taken_for_milliseconds():
    with pytest.raises(UsageError, match="beyond the year 9999"):
        parse_time("1795249940956000")


def test_where_no_log_is_read_only_full_times_are_taken():
    assert parse_absolute_time("2026-11-20T02:13") == datetime(2026, 11, 20, 2, 13, tzinfo=UTC)
    for text in ("-6h", "08:34", "now"):
        with pytest.raises(UsageError, match="only the end of a log makes it one; write 2026-11-20T02:13:00Z"):
            parse_absolute_time(text)


@pytest.mark.parametrize("text", ["soon", "-6h", "now", "0", ""])
def test_where_no_log_is_read_no_message_advises_what_is_counted_from_its_end(text: str):
    with pytest.raises(UsageError) as refused:
        parse_absolute_time(text)
    advice = str(refused.value).partition(" write ")[2]
    assert advice == ABSOLUTE_RULE
    for form in ("2026-11-20T02:13:00Z", "2026-11-20"):
        assert form in advice
        parse_absolute_time(form)


def test_epoch_milliseconds_have_as_many_digits_as_the_messages_say():
    for text in ("0", "2026", "20261120", "12345678"):
        with pytest.raises(UsageError, match=r"epoch milliseconds \(12 digits or more\)"):
            parse_time(text)
    assert parse_time("1" + "0" * 11) == datetime(1973, 3, 3, 9, 46, 40, tzinfo=UTC)
    for seconds in ("123456789", "1795249940"):
        with pytest.raises(UsageError) as refused:
            parse_time(seconds)
        advised = str(refused.value).partition("write ")[2].partition(",")[0]
        assert parse_time(advised) == datetime.fromtimestamp(int(seconds), UTC)


def test_a_time_too_far_back_is_refused():
    parsed = parse_time("-100000w")
    assert isinstance(parsed, LogTime)
    with pytest.raises(UsageError, match="lies too far back"):
        parsed.resolve(datetime(100, 1, 1, tzinfo=UTC))


@given(st.integers(min_value=10**11, max_value=2 * 10**14))
def test_iso_and_epoch_milliseconds_of_a_time_agree(milliseconds: int):
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert parse_time(time.isoformat()) == parse_time(str(milliseconds)) == time


@given(st.one_of(st.text(max_size=30), st.text("0123456789:- .Tydaetrs", max_size=20)))
def test_no_text_crashes_the_parser(text: str):
    with suppress(UsageError):
        assert resolved(text).tzinfo is not None


def test_durations_add_up_their_parts():
    assert parse_duration("1d2h3m4s5ms") == timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)
    for text in ("3", "d", "-3d", "3 d", "1y", "99999999999999w"):
        with pytest.raises(UsageError, match="duration"):
            parse_duration(text)
