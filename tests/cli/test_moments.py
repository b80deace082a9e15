from contextlib import suppress
from datetime import UTC, datetime, timedelta

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.cli.moments import DURATION, MOMENT, parse_duration, parse_moment
from coordinator_replay.errors import UsageError

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-20T02:13:00Z", datetime(2026, 11, 20, 2, 13, tzinfo=UTC)),
        ("2026-11-20 02:13", datetime(2026, 11, 20, 2, 13, tzinfo=UTC)),
        ("2026-11-20T02:13:00+02:00", datetime(2026, 11, 20, 0, 13, tzinfo=UTC)),
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("1795249940956", datetime(2026, 11, 21, 8, 32, 20, 956000, tzinfo=UTC)),
        (" now ", NOW),
        ("-6h", NOW - timedelta(hours=6)),
        ("-1d12h30m", NOW - timedelta(days=1, hours=12, minutes=30)),
        ("-2w", NOW - timedelta(weeks=2)),
        ("-1500ms", NOW - timedelta(milliseconds=1500)),
    ],
)
def test_what_people_type_is_a_moment_in_utc(text, moment):
    parsed = parse_moment(text, NOW)
    assert parsed == moment
    assert parsed.tzinfo is UTC


@pytest.mark.parametrize("text", ["yesterday", "", "-", "-6", "6h", "2026-13-01", "-99999999999w", "02:13", "-6h ago"])
def test_what_is_no_moment_is_refused_with_the_forms_there_are(text):
    with pytest.raises(UsageError, match=r"is no moment: write 2026-11-20T02:13:00Z"):
        parse_moment(text, NOW)


def test_seconds_and_dates_without_dashes_are_not_taken_for_milliseconds():
    with pytest.raises(UsageError, match="write 1795249940000 if these are seconds"):
        parse_moment("1795249940")
    with pytest.raises(UsageError, match="date with dashes"):
        parse_moment("20261120")


def test_microseconds_are_not_taken_for_milliseconds():
    with pytest.raises(UsageError, match="beyond the year 9999"):
        parse_moment("1795249940956000")


@given(st.integers(min_value=10**11, max_value=2 * 10**14))
def test_iso_and_epoch_milliseconds_of_a_moment_agree(milliseconds):
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert parse_moment(moment.isoformat()) == parse_moment(str(milliseconds)) == moment


@given(st.text(max_size=30))
def test_no_text_crashes_the_parser(text):
    with suppress(UsageError):
        assert parse_moment(text).tzinfo is not None


def test_durations_add_up_their_parts():
    assert parse_duration("1d2h3m4s5ms") == timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)
    for text in ("3", "d", "-3d", "3 d", "1y", "99999999999999w"):
        with pytest.raises(UsageError, match="duration"):
            parse_duration(text)


def test_options_of_these_types_say_which_option_is_wrong():
    @click.command()
    @click.option("--at", type=MOMENT)
    @click.option("--within", type=DURATION)
    def ask(at, within):
        click.echo(f"{at.isoformat()} {within}")

    runner = CliRunner()
    assert (
        runner.invoke(ask, ["--at", "2026-11-20", "--within", "3d"]).output
        == "2026-11-20T00:00:00+00:00 3 days, 0:00:00\n"
    )
    assert "Invalid value for '--at': 'soon' is no moment" in runner.invoke(ask, ["--at", "soon"]).output
    assert "Invalid value for '--within': '3' is no duration" in runner.invoke(ask, ["--within", "3"]).output
    assert runner.invoke(ask, ["--at", "-6h", "--within", "1h"]).exit_code == 0
