"""The rows that the pass over sorted events gives: intervals of offsets and pending commits, of four kinds."""

from enum import IntEnum

import pyarrow as pa


class Staged(IntEnum):
    """What a staged row is."""

    CLOSED = 0
    OPEN = 1
    REMOVED = 2
    PENDING = 3


_MOMENT = pa.timestamp("us", tz="UTC")
HISTORY = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp", _MOMENT),
        ("valid_from", _MOMENT),
        ("valid_to", _MOMENT),
        ("from_offset", pa.int64()),
        ("to_offset", pa.int64()),
        ("log_partition", pa.int32()),
        ("ended_by", pa.string()),
        ("is_transactional", pa.bool_()),
        ("owner_member_id", pa.string()),
        ("group_state", pa.string()),
        ("expire_timestamp", _MOMENT),
        ("record_offset", pa.int64()),
        ("is_proven", pa.bool_()),
        ("is_exact", pa.bool_()),
        ("is_begin_open", pa.bool_()),
        ("previous_offset", pa.int64()),
    ]
)
"""Columns that every staged row has, named as in ``offset_history``."""

PRODUCER = pa.schema([("producer_id", pa.int64()), ("producer_epoch", pa.int16()), ("pending_since", _MOMENT)])
"""Columns of pending commits."""

EXPIRY = pa.schema(
    [
        ("rule", pa.string()),
        ("base_timestamp", _MOMENT),
        ("rule_since", _MOMENT),
        ("is_protected", pa.bool_()),
        ("has_group_tombstone", pa.bool_()),
        ("last_consumed_by", pa.string()),
        ("last_state", pa.string()),
    ]
)
"""Columns of open and removed offsets: the rule in force at the end or the tombstone (with a null base, no rule lets
the offset expire), since when (null: since the group's first record), whether a transaction on it was open, whether the
group's own tombstone follows in the same operation, the last owner, and the group's state before."""

STAGED = pa.schema([("kind", pa.int8()), *HISTORY, *PRODUCER, *EXPIRY, ("commits_merged", pa.int64())])

OPEN_ROWS, REMOVED_ROWS = "open_offsets", "removed_rows"
"""Staged rows of offsets that are current at the end of the log, and of those that a tombstone removed and whose cause
may still change; in STAGED."""
