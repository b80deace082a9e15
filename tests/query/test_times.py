import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.errors import UsageError
from coordinator_replay.query.times import (
    ABSOLUTE_RULE,
    RULE,
    LogTime,
    parse_absolute_time,
    parse_duration,
    parse_end_time,
    parse_time,
)

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
        ("6h", END - timedelta(hours=6)),
        ("-6h ago", END - timedelta(hours=6)),
        ("6 hours ago", END - timedelta(hours=6)),
        ("an hour ago", END - timedelta(hours=1)),
        ("1 day and 2 hours ago", END - timedelta(hours=26)),
        ("90 min ago", END - timedelta(minutes=90)),
        ("20.11.2026 08:34", datetime(2026, 11, 20, 8, 34, tzinfo=UTC)),
        ("20.11.2026", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11-20T09:34:20 CET", datetime(2026, 11, 20, 8, 34, 20, tzinfo=UTC)),
        ("2026-07-20 10:34 CEST", datetime(2026, 7, 20, 8, 34, tzinfo=UTC)),
        ("2026-07-20 10:34 Europe/Berlin", datetime(2026, 7, 20, 8, 34, tzinfo=UTC)),
        ("20.11.2026 09:34 Europe/Berlin", datetime(2026, 11, 20, 8, 34, tzinfo=UTC)),
        ("2026-11-20 09:34 +01:00", datetime(2026, 11, 20, 8, 34, tzinfo=UTC)),
        ("09:34 CET", datetime(2026, 11, 20, 8, 34, tzinfo=UTC)),
        ("yesterday 23:34 EST", datetime(2026, 11, 20, 4, 34, tzinfo=UTC)),
    ],
)
def test_what_people_type_is_a_time_in_utc(text: str, time: datetime):
    assert resolved(text) == time
    assert resolved(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "tomorrow",
        "",
        "-",
        "-6",
        "2026-13-01",
        "-99999999999w",
        "25:00",
        "08:60",
        "0",
        "2026",
        "32.11.2026",
        "2026-11-20 09:34 CST",
        "six hours ago",
        "2026-11-20 09:34 Europe/Nowhere",
    ],
)
def test_what_is_no_time_is_refused_with_the_forms_there_are(text: str):
    with pytest.raises(UsageError, match=rf"invalid time '{text}': write 2026-11-20T02:13:00Z"):
        parse_time(text)


def test_every_form_that_a_message_advises_is_taken():
    with pytest.raises(UsageError) as refused:
        parse_time("soon")
    for text in ("2026-11-20T02:13:00Z", "-6h", "08:34", "yesterday"):
        assert text in str(refused.value)
        resolved(text)
    for text in ("2026-11-20T02:13:00Z", "20.11.2026 02:13", "2026-11-20 02:13 Europe/Berlin", "2026-11-20", "-6h",
                 "-1d12h", "6 hours ago", "now", "08:34", "08:34:05", "today", "yesterday",
                 "yesterday 08:34"):  # fmt: skip
        assert text in RULE
        resolved(text)
    with pytest.raises(UsageError, match="write 1795249940000, in milliseconds"):
        parse_time("1795249940")
    with pytest.raises(UsageError, match='such as "6 hours ago", must stand in quotes'):
        parse_time("6")
    assert resolved("1795249940000") == datetime(2026, 11, 21, 8, 32, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("11/21/2026 08:32", ["2026-11-21 08:32"]),
        ("21/11/2026 08:32", ["2026-11-21 08:32"]),
        ("11/21/2026", ["2026-11-21"]),
        ("03/04/2026", ["2026-03-04", "2026-04-03"]),
        ("08.32", ["08:32"]),
    ],
)
def test_a_form_that_could_mean_two_times_is_refused_with_those_that_work(text: str, forms: list[str]):
    with pytest.raises(UsageError, match=f"invalid time '{text}'") as refused:
        parse_time(text)
    for form in forms:
        assert form in str(refused.value)
        resolved(form)
    is_date = "/" in text and " " not in text
    assert ("a time of day with it in quotes" in str(refused.value)) == is_date


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-20T02:13", datetime(2026, 11, 20, 1, 13, tzinfo=UTC)),
        ("2026-07-20", datetime(2026, 7, 19, 22, tzinfo=UTC)),
        ("2026-11-20T02:13:00Z", datetime(2026, 11, 20, 2, 13, tzinfo=UTC)),
        ("2026-11-20T02:13 EST", datetime(2026, 11, 20, 7, 13, tzinfo=UTC)),
        ("13:00", datetime(2026, 11, 20, 12, tzinfo=UTC)),
        ("today", datetime(2026, 11, 19, 23, tzinfo=UTC)),
        ("-6h", END - timedelta(hours=6)),
    ],
)
def test_a_time_without_a_zone_is_in_that_of_the_question(text: str, time: datetime):
    parsed = parse_time(text, zone=ZoneInfo("Europe/Berlin"))
    assert (parsed.resolve(END) if isinstance(parsed, LogTime) else parsed) == time


def test_the_last_day_is_that_of_the_zone():
    night = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
    parsed = parse_time("00:10", zone=ZoneInfo("Europe/Berlin"))
    assert isinstance(parsed, LogTime)
    assert parsed.resolve(night) == datetime(2026, 11, 20, 23, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "duration"),
    [("2 days", timedelta(days=2)), ("36 hours", timedelta(hours=36)), ("1 week 2 days", timedelta(days=9))],
)
def test_durations_in_words(text: str, duration: timedelta):
    assert parse_duration(text) == duration


def test_microseconds_are_not_taken_for_milliseconds():
    with pytest.raises(UsageError, match="beyond the year 9999"):
        parse_time("1795249940956000")


def test_where_no_log_is_read_only_full_times_are_taken():
    assert parse_absolute_time("2026-11-20T02:13") == datetime(2026, 11, 20, 2, 13, tzinfo=UTC)
    for text in ("-6h", "08:34", "now"):
        with pytest.raises(
            UsageError, match="it is relative to the end of a log, which can't be used here; write 2026-11-20T02:13:00Z"
        ):
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
        assert parse_end_time(text) is not None


def test_durations_add_up_their_parts():
    assert parse_duration("1d2h3m4s5ms") == timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)
    for text in ("3", "d", "-3d", "1y", "99999999999999w"):
        with pytest.raises(UsageError, match="duration"):
            parse_duration(text)


@pytest.mark.parametrize(
    ("text", "zone", "end"),
    [
        ("2026-11-20", UTC, datetime(2026, 11, 21, tzinfo=UTC)),
        (" 20.11.2026 ", UTC, datetime(2026, 11, 21, tzinfo=UTC)),
        ("2026-11-20 CET", UTC, datetime(2026, 11, 20, 23, tzinfo=UTC)),
        ("2026-11-20 Europe/Berlin", UTC, datetime(2026, 11, 20, 23, tzinfo=UTC)),
        # The day on which the clock is turned back has 25 hours, and the other one 23.
        ("2026-10-25", ZoneInfo("Europe/Berlin"), datetime(2026, 10, 25, 23, tzinfo=UTC)),
        ("2026-03-29", ZoneInfo("Europe/Berlin"), datetime(2026, 3, 29, 22, tzinfo=UTC)),
        ("today", UTC, datetime(2026, 11, 21, tzinfo=UTC)),
        ("Yesterday", UTC, datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-W47-5", UTC, datetime(2026, 11, 21, tzinfo=UTC)),
    ],
)
def test_a_day_at_the_end_of_a_range_belongs_to_it(text: str, zone: tzinfo, end: datetime):
    parsed = parse_end_time(text, zone=zone)
    assert (parsed.resolve(datetime(2026, 11, 20, 3, tzinfo=UTC)) if isinstance(parsed, LogTime) else parsed) == end


@pytest.mark.parametrize(
    "text",
    [
        *("2026-11-20T00:00", "2026-11-20 02:13 CET", "20.11.2026 02:13", "1795249940956"),
        *("-6h", "6 hours ago", "now", "08:34", "yesterday 08:34", "today 00:00"),
    ],
)
def test_a_time_of_day_at_the_end_of_a_range_is_that_time(text: str):
    assert parse_end_time(text) == parse_time(text)


def test_the_last_day_of_the_calendar_has_no_end():
    with pytest.raises(UsageError, match="beyond the year 9999"):
        parse_end_time("9999-12-31")


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("parse", [parse_time, parse_end_time, parse_absolute_time])
@pytest.mark.parametrize(
    ("text", "what", "times"),
    [
        ("2026-10-25 02:05", "exists twice", ["2026-10-25 00:05:00 UTC", "2026-10-25 01:05:00 UTC"]),
        ("25.10.2026 02:05", "exists twice", ["2026-10-25 00:05:00 UTC", "2026-10-25 01:05:00 UTC"]),
        ("2026-10-25T02:05 Europe/Berlin", "exists twice", ["2026-10-25 00:05:00 UTC", "2026-10-25 01:05:00 UTC"]),
        ("2026-03-29 02:30", "does not exist", ["2026-03-29 00:30:00 UTC", "2026-03-29 01:30:00 UTC"]),
    ],
)
def test_a_time_that_clocks_show_twice_or_never_is_refused_with_both_times(parse, text: str, what: str, times):
    with pytest.raises(UsageError, match=what) as refused:
        parse(text, zone=BERLIN)
    advised = dict(re.findall(r"(\S+) \((.*?)\)", str(refused.value)))
    assert sorted(advised.values()) == times
    for written, in_utc in advised.items():
        assert parse_time(written, zone=BERLIN) == parse_time(in_utc)


@pytest.mark.parametrize("text", ["02:05", "today 02:05"])
def test_a_time_of_day_that_clocks_show_twice_or_never_is_refused(text: str):
    parsed = parse_time(text, zone=BERLIN)
    assert isinstance(parsed, LogTime)
    for what, day in (("exists twice", (10, 25)), ("does not exist", (3, 29))):
        with pytest.raises(UsageError, match=what):
            parsed.resolve(datetime(2026, *day, 12, tzinfo=UTC))
    assert parsed.resolve(datetime(2026, 7, 1, 12, tzinfo=UTC)) == datetime(2026, 7, 1, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "zone", "time"),
    [
        ("2026-10-25T02:05+01:00", BERLIN, datetime(2026, 10, 25, 1, 5, tzinfo=UTC)),
        ("2026-10-25 02:05 CEST", BERLIN, datetime(2026, 10, 25, 0, 5, tzinfo=UTC)),
        ("2026-10-25 03:00", BERLIN, datetime(2026, 10, 25, 2, tzinfo=UTC)),
        ("2026-03-29 03:00", BERLIN, datetime(2026, 3, 29, 1, tzinfo=UTC)),
        # A day has a start, even if clocks show its midnight twice or never.
        ("2026-11-01", ZoneInfo("America/Havana"), datetime(2026, 11, 1, 4, tzinfo=UTC)),
        ("01.11.2026", ZoneInfo("America/Havana"), datetime(2026, 11, 1, 4, tzinfo=UTC)),
        ("2026-03-08", ZoneInfo("America/Havana"), datetime(2026, 3, 8, 5, tzinfo=UTC)),
    ],
)
def test_a_time_near_a_change_of_the_clocks(text: str, zone: tzinfo, time: datetime):
    assert parse_time(text, zone=zone) == time


def test_a_day_of_the_log_has_a_start_even_if_clocks_show_its_midnight_twice():
    havana, end = ZoneInfo("America/Havana"), datetime(2026, 11, 1, 20, tzinfo=UTC)
    today, midnight = parse_time("today", zone=havana), parse_time("today 00:00", zone=havana)
    assert isinstance(today, LogTime)
    assert isinstance(midnight, LogTime)
    assert today.resolve(end) == datetime(2026, 11, 1, 4, tzinfo=UTC)
    with pytest.raises(UsageError, match="exists twice in America/Havana"):
        midnight.resolve(end)
