"""Numbers that records hold as times: shown where every reader can, null otherwise, never an error."""

from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator_replay.arrow_times import TIMESTAMP, shown, timestamps_of
from coordinator_replay.query.fetch import fetch
from coordinator_replay.times import LATEST_MS, moment_of_ms, moment_of_us, shown_ms

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(INT64)
@example(0)
@example(-1)
@example(LATEST_MS)
@example(LATEST_MS + 1)
@example(-62135596800001)
@example(2**63 - 1)
@example(-(2**63))
def test_a_number_is_one_moment_in_every_form_or_none_in_all(at_ms):
    moment = moment_of_ms(at_ms)
    assert (moment is None) == (shown_ms(at_ms) is None)
    (from_arrow, null) = timestamps_of(pa.array([at_ms, None], pa.int64())).to_pylist()
    assert (from_arrow, null) == (moment, None)
    if moment is not None:
        assert moment_of_us(at_ms * 1000) == moment
        assert round(moment.timestamp() * 1000) == at_ms


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps_of_others_are_shown_where_they_can_be(unit, zone):
    numbers = [0, 1, 1_700_000_000, -5000, 2**63 - 1, -(2**63) + 1, None]
    found = shown(pa.array(numbers, pa.timestamp(unit, tz=zone)))
    assert found.type == TIMESTAMP
    assert found.to_pylist()[3] is None
    assert found.to_pylist()[5:] == [None, None]
    assert found.to_pylist()[0] == datetime(1970, 1, 1, tzinfo=UTC)
    if unit != "ns":
        # 2**63 - 1 nanoseconds are in the year 2262.
        assert found.to_pylist()[4] is None


def test_an_answer_shows_moments_that_python_has_no_calendar_for_as_text():
    moments = ["'2026-11-20 02:00:00+00'", "'12026-11-20 02:00:00+00'", "'infinity'", "'0044-03-15 (BC) 00:00:00+00'"]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        query = " UNION ALL ".join(
            f"SELECT {place} AS n, {one}::TIMESTAMPTZ AS at" for place, one in enumerate(moments)
        )
        names, rows = fetch(connection, f"{query} UNION ALL SELECT 4, NULL ORDER BY n", {})
    assert names == ["n", "at"]
    assert [at for _, at in rows] == [
        datetime(2026, 11, 20, 2, tzinfo=UTC),
        "12026-11-20 02:00:00+00",
        "infinity",
        "0044-03-15 (BC) 00:00:00+00",
        None,
    ]
