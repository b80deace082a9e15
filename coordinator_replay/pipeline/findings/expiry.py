"""What retention should have removed, and what it removes next: ``expired_offsets`` of offsets that still hold."""

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from coordinator_replay.analysis.expiring import Retention, expiring_offsets
from coordinator_replay.store.duckdb_connection import connected
from coordinator_replay.times import later


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """How far expiry is looked at.

    Attributes:
        as_of: the time that expiry is evaluated at.
        horizon_ms: how far ahead to look.
    """

    as_of: datetime
    horizon_ms: int


def expected_offsets(opened: pa.Table, retention: Retention, horizon: Horizon) -> pa.Table:
    """Offsets that are past retention, or will be within the horizon: rows of ``expired_offsets``.

    For a moment after the end of the log read, groups are taken to have stayed as they were.

    Args:
        opened: offsets that hold at the moment, in STAGED.
        retention: for how long offsets are kept.
        horizon: the moment, and how far ahead to look.
    """
    with connected() as connection:
        connection.register("opened", opened)
        asked = {
            "retention_ms": retention.ms,
            "is_known": retention.is_known,
            "as_of": horizon.as_of,
            "limit": later(horizon.as_of, horizon.horizon_ms),
        }
        rows = connection.sql(expiring_offsets("opened"), params=asked)
        return rows.order("group_id, topic, partition").to_arrow_table()
