"""What retention should have removed, and what it removes next: ``expired_offsets`` of offsets that still hold."""

from dataclasses import dataclass
from datetime import datetime

import duckdb
import pyarrow as pa

from coordinator_replay.pipeline.offsets.causes import Retention, expire_at

_EXPECTED = f"""
WITH timed AS (
    SELECT *, {expire_at("$retention")} AS expire_at
    FROM opened WHERE NOT is_protected AND base_timestamp IS NOT NULL
)
SELECT group_id, topic, partition, log_partition, committed_offset, metadata, commit_timestamp, base_timestamp,
    expire_at, rule, CASE WHEN expire_at <= $as_of THEN 'DUE' ELSE 'EXPIRING' END AS status,
    CASE WHEN $is_known THEN 'certain' ELSE 'likely' END AS confidence, last_consumed_by,
    last_state AS group_state, CAST([] AS VARCHAR[]) AS alternatives, CAST($retention AS BIGINT) AS retention_ms
FROM timed
WHERE expire_at <= make_timestamptz(epoch_us($as_of::TIMESTAMPTZ) + CAST($horizon AS BIGINT) * 1000)
ORDER BY group_id, topic, partition
"""  # noqa: S608 - names of our own


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """How far expiry is looked at.

    Attributes:
        as_of: the moment to judge at.
        horizon_ms: how far ahead to look.
    """

    as_of: datetime
    horizon_ms: int


def expected_offsets(opened: pa.Table, retention: Retention, horizon: Horizon) -> pa.Table:
    """Offsets that are past retention, or will be within the horizon: rows of ``expired_offsets``.

    An offset whose group's members subscribe to its topic, or on which a transaction is open, is in no danger and not
    among them. For a moment after the end of the log read, groups are taken to have stayed as they were.

    Args:
        opened: offsets that hold at the moment, in STAGED.
        retention: to judge by.
        horizon: the moment, and how far ahead to look.
    """
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("opened", opened)
        asked = {
            "retention": retention.ms,
            "is_known": retention.is_known,
            "as_of": horizon.as_of,
            "horizon": horizon.horizon_ms,
        }
        return connection.sql(_EXPECTED, params=asked).to_arrow_table()
