"""Times of records as columns of Arrow timestamps. A time that can't be shown becomes null, see ``times.shown_ms``."""

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.times import LATEST_MS

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""The type of every time in the tables."""


def timestamps_of(milliseconds: pa.Array) -> pa.TimestampArray:
    """Return milliseconds as timestamps.

    A time that can't be shown becomes null, and nulls stay null.
    """
    bounds = pc.min_max(milliseconds).as_py()
    if (bounds["min"] or 0) < 0 or (bounds["max"] or 0) > LATEST_MS:
        is_shown = pc.and_(pc.greater_equal(milliseconds, 0), pc.less_equal(milliseconds, LATEST_MS))
        milliseconds = pc.if_else(is_shown, milliseconds, None)
    return pc.multiply(milliseconds, 1000).view(TIMESTAMP)


def shown(column: pa.Array) -> pa.TimestampArray:
    """Convert timestamps of any unit and zone, as other programs write them, to ``TIMESTAMP``.

    A time that can't be shown becomes null.
    """
    try:
        exact = column.cast(TIMESTAMP, safe=False) if column.type.unit == "ns" else column.cast(TIMESTAMP)
    except pa.ArrowInvalid:
        # Seconds or milliseconds so far off that microseconds overflow.
        per_second = {"s": 1, "ms": 1000}[column.type.unit]
        plain = column.cast(pa.int64())
        is_near = pc.and_(pc.greater_equal(plain, 0), pc.less_equal(plain, LATEST_MS // 1000 * per_second))
        exact = pc.if_else(is_near, plain, None).cast(column.type).cast(TIMESTAMP)
    plain = exact.cast(pa.int64())
    is_shown = pc.and_(pc.greater_equal(plain, 0), pc.less_equal(plain, LATEST_MS * 1000 + 999))
    return pc.if_else(is_shown, plain, None).cast(TIMESTAMP)
