"""The columns of staged rows about committed offsets.

A row has the time range in which an offset was current, or a commit that waits for its transaction marker. The enum
``Staged`` lists the kinds of rows. ``offsets.interval_pass`` makes the rows.
"""

from enum import IntEnum

import pyarrow as pa

from coordinator_replay.tables.definition import table


class Staged(IntEnum):
    """Kinds of staged rows.

    Attributes:
        CLOSED: an offset that was replaced by another commit. Or records are missing, or the group moved to another log
            partition, so that it is not known how long the offset was current.
        OPEN: an offset that is current at the end of the log.
        REMOVED: an offset that a tombstone removed.
        PENDING: a commit that waited for a transaction marker, or still waits.
    """

    CLOSED = 0
    OPEN = 1
    REMOVED = 2
    PENDING = 3


HISTORY = table("offset_history").arrow_schema(
    [
        *("group_id", "topic", "partition", "topic_id", "committed_offset", "leader_epoch", "metadata"),
        *("commit_timestamp", "value_version"),
        *("valid_from", "valid_to", "from_offset", "to_offset", "log_partition", "ended_by", "is_transactional"),
        *("owner_member_id", "group_state", "expire_timestamp", "record_offset", "is_proven", "is_exact"),
        *("is_begin_open", "previous_offset", "replaced_offset"),
    ]
)
"""Columns that every staged row has, named as in ``offset_history``."""

PRODUCER = table("pending_offsets").arrow_schema(
    ["producer_id", "producer_epoch", "pending_since", "pending_since_offset"]
)
"""Columns of pending commits."""

EXPIRY = table("removed_offsets").arrow_schema(
    [
        *("rule", "base_timestamp", "rule_since", "is_protected", "has_group_tombstone", "last_owner_member_id"),
        "last_state",
    ]
)
"""Columns of open offsets (as of the end of the log) and removed offsets (as of the tombstone):

- the expiry rule in force, its base time (null: the offset does not expire), and the time since which the rule applies
  (null: since the group's first record)
- whether a transaction on the partition was open
- whether the group's own tombstone follows in the same operation
- the last owner of the partition, and the last state of the group
"""

STAGED = pa.schema(
    [
        *(("kind", pa.int8()), *HISTORY, *PRODUCER, *EXPIRY),
        *(("commits_merged", pa.int64()), ("is_topic_over", pa.bool_())),
    ]
)
"""``is_topic_over`` is true for an offset that a commit of another topic with the same name replaced."""

OPEN_ROWS, REMOVED_ROWS = "open_offsets", "removed_rows"
"""Names of staged rows with the columns of STAGED: offsets in force at the end of the log, and removed offsets whose
cause may still change."""
