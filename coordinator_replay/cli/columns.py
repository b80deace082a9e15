"""The columns of each answer: their names in JSON and CSV, and the headings of a table in the words of Kafka's tools.

A column without a heading stands in JSON, CSV and ``--wide`` only. On a narrow terminal columns give way by their rank,
1 staying to the last; ``least`` is how far a text may be cut, and ids are shortened so that they stay different
(``layout.py``).
"""

from collections.abc import Sequence

from coordinator_replay.cli.layout import LAST, Column

GROUP_ID = Column("group_id", "GROUP", 1, 12, is_id=True)
_SAME_GROUP = Column("group_id", "GROUP", LAST, 12, is_id=True)
"""The group where a command is about one: it was typed a moment ago."""

_TOPIC = Column("topic", "TOPIC", 1, 12, is_id=True)
_PARTITION = Column("partition", "PARTITION", 1)
_INSTANCE = Column("instance_id", "GROUP-INSTANCE-ID", 4, 8, is_id=True)
_CLIENT = Column("client_id", "CLIENT-ID", 3, 8, is_id=True)
_HOST = Column("client_host", "HOST", 4, 8, is_id=True)

EXACT = Column("is_exact", "EXACT", 1)
"""Shown where the log does not prove a row of the answer."""

GROUP = (
    GROUP_ID,
    Column("group_type", "TYPE", 1),
    Column("protocol_type", "PROTOCOL", 4, 8),
    Column("state", "STATE", 1),
    Column("epoch", "EPOCH", 3),
    Column("assignment_epoch"),
    Column("member_count", "#MEMBERS", 2),
    Column("since"),
    Column("is_exact"),
    Column("log_partition"),
)
DELETED_GROUP = (
    GROUP_ID,
    Column("group_type", "TYPE", 2),
    Column("deleted_at", "DELETED-AT", 1),
    Column("reason", "REASON", 1),
    Column("confidence", "CONFIDENCE", 2),
    Column("offsets_removed", "#OFFSETS-REMOVED", 4),
    Column("last_active", "LAST-MEMBER-AT", 3),
    Column("last_commit", "LAST-COMMIT", 3),
    Column("is_exact"),
)
DESCRIBED = (
    GROUP_ID,
    Column("group_type", "TYPE", 2),
    Column("protocol_type"),
    Column("assignor", "ASSIGNMENT-STRATEGY", 3, 8),
    Column("state", "STATE", 1),
    Column("epoch", "GROUP-EPOCH", 2),
    Column("assignment_epoch", "TARGET-ASSIGNMENT-EPOCH", 6),
    Column("member_count", "#MEMBERS", 2),
    Column("since", "SINCE", 3),
    Column("is_exact"),
    Column("log_partition"),
)
MEMBER = (
    _SAME_GROUP,
    Column("member_id", "CONSUMER-ID", 1, 10, is_id=True),
    _INSTANCE,
    _HOST,
    _CLIENT,
    Column("is_client_inherited"),
    Column("rack_id"),
    Column("partition_count", "#PARTITIONS", 5),
    Column("member_epoch", "CURRENT-EPOCH", 4),
    Column("member_state", "MEMBER-STATE", 3),
    Column("current_assignment", "CURRENT-ASSIGNMENT", 1, 14),
    Column("pending_revocation", "PENDING-REVOCATION", 2, 12),
    Column("target_epoch", "TARGET-EPOCH", 6),
    Column("target_assignment", "TARGET-ASSIGNMENT", 5, 12),
    Column("subscribed_topics"),
    Column("subscribed_topic_regex"),
    Column("assignor"),
    Column("since"),
    Column("is_begin_open"),
)
OFFSET = (
    _SAME_GROUP,
    _TOPIC,
    _PARTITION,
    Column("committed_offset", "CURRENT-OFFSET", 1),
    Column("leader_epoch", "LEADER-EPOCH", 6),
    Column("metadata", "METADATA", 5, 8),
    Column("commit_timestamp", "COMMITTED-AT", 2),
    Column("valid_from"),
    Column("is_transactional"),
    Column("owner_member_id", "CONSUMER-ID", 3, 10, is_id=True),
    Column("group_state"),
    Column("log_partition"),
    Column("from_offset"),
    Column("is_proven"),
    Column("is_exact"),
    Column("is_begin_open"),
)
UNSTABLE = (
    Column("is_unstable", "UNSTABLE", 1),
    Column("producer_id", "PRODUCER-ID", 1),
    Column("producer_epoch", "PRODUCER-EPOCH", 2),
    Column("pending_since", "PENDING-SINCE", 1),
)
OFFSET_CHANGE = (
    Column("group_id"),
    Column("valid_from", "FROM", 1),
    Column("topic", "TOPIC", 6, 12, is_id=True),
    Column("partition", "PARTITION", 1),
    Column("committed_offset", "OFFSET", 1),
    Column("delta", "DELTA", 1),
    Column("valid_to", "TO", 3),
    Column("ended_by", "ENDED-BY", 2),
    Column("ended_confidence", "CONFIDENCE", 6),
    Column("owner_member_id", "CONSUMER-ID", 3, 10, is_id=True),
    Column("group_state", "GROUP-STATE", 4),
    Column("is_transactional", "TRANSACTIONAL", 6),
    Column("commit_timestamp"),
    Column("metadata", "METADATA", 5, 8),
    Column("commits_merged"),
    Column("log_partition"),
    Column("from_offset", "LOG-OFFSET", 7),
    Column("is_exact"),
    Column("is_begin_open"),
)
LAG = (Column("end_offset", "LOG-END-OFFSET", 2), Column("lag", "LAG", 1))
EVENT = (
    Column("group_id"),
    Column("log_timestamp", "TIME", 1),
    Column("seq"),
    Column("event", "EVENT", 1),
    Column("group_type"),
    Column("from_state", "FROM-STATE", 8),
    Column("to_state", "TO-STATE", 3),
    Column("epoch", "EPOCH", 2),
    Column("assignment_epoch"),
    Column("member_count", "#MEMBERS", 4),
    Column("member_id", "CONSUMER-ID", 1, 10, is_id=True),
    Column("instance_id"),
    Column("rebalance_id"),
    Column("cause", "CAUSE", 7),
    Column("confidence", "CONFIDENCE", 7),
    Column("is_exact", "EXACT", 8),
    Column("log_partition"),
    Column("log_offset", "LOG-OFFSET", 8),
    Column("summary", "DETAIL", 1, 28, good=56),
    Column("detail"),
)
INTERVAL = (
    Column("group_id"),
    Column("valid_from", "FROM", 1),
    Column("valid_to", "TO", 1),
    Column("member_id", "CONSUMER-ID", 1, 10, is_id=True),
    _INSTANCE,
    _CLIENT,
    _HOST,
    Column("is_client_inherited"),
    Column("member_epoch", "EPOCH", 2),
    Column("member_state", "MEMBER-STATE", 3),
    Column("assigned", "ASSIGNMENT", 2, 12),
    Column("pending_revocation", "PENDING-REVOCATION", 3, 12),
    Column("target"),
    Column("log_partition"),
    Column("from_offset", "LOG-OFFSET", 6),
    Column("is_exact"),
    Column("is_begin_open"),
)
REBALANCE = (
    Column("started_at", "STARTED", 3),
    Column("completed_at", "COMPLETED", 1),
    Column("duration_ms"),
    Column("duration_ms_min", "AT-LEAST-MS", 4),
    Column("duration_ms_max", "AT-MOST-MS", 4),
    Column("commit_pause_ms", "COMMIT-PAUSE-MS", 2),
    GROUP_ID,
    Column("group_type"),
    Column("epoch", "EPOCH", 2),
    Column("attempts"),
    Column("cause", "CAUSE", 1),
    Column("confidence", "CONFIDENCE", 1),
    Column("join_reason"),
    Column("members_before", "MEMBERS-BEFORE", 4),
    Column("members_after", "#MEMBERS", 3),
    Column("partitions_moved", "REASSIGNED", 3),
    Column("partitions_added", "NEWLY-ASSIGNED", 5),
    Column("partitions_total"),
    Column("unowned_ms_max", "UNOWNED-MS-MAX", 6),
    Column("unowned_ms_total"),
    Column("held_up_by", "HELD-UP-BY", 6, 10, is_id=True),
    Column("held_up_ms", "HELD-UP-MS", 6),
    Column("metadata_delay_ms", "METADATA-DELAY-MS", 6),
    Column("trigger_members"),
    Column("members_joined"),
    Column("members_left"),
    Column("alternatives", "ALTERNATIVES", 4, 12),
    Column("is_exact"),
    Column("rebalance_id"),
    Column("evidence"),
    Column("completed_offset"),
    Column("matched_by"),
)
MATCHED_REBALANCE = tuple(
    shown
    for column in REBALANCE[:-1]
    for shown in ((column, Column("matched_by", "MATCHED-BY", 1)) if column.name == "cause" else (column,))
)
"""The table of rebalances of a cause: beside each cause stands whether it is the one asked for."""

OWNERSHIP = (
    _SAME_GROUP,
    Column("topic", "TOPIC", 3, 12, is_id=True),
    Column("topic_id"),
    Column("partition", "PARTITION", 3),
    Column("member_id", "CONSUMER-ID", 1, 10, is_id=True),
    _INSTANCE,
    Column("client_id", "CLIENT-ID", 2, 8, is_id=True),
    Column("client_host", "HOST", 2, 8, is_id=True),
    Column("is_client_inherited"),
    Column("owned_from", "FROM", 1),
    Column("owned_to", "TO", 1),
    Column("release_event", "RELEASED-BY", 4),
    Column("unowned_ms", "UNOWNED-MS", 5),
    Column("is_exact"),
    Column("is_begin_open"),
    Column("to_offset"),
)
EXPIRED = (
    GROUP_ID,
    _TOPIC,
    _PARTITION,
    Column("committed_offset", "OFFSET", 2),
    Column("status", "STATUS", 1),
    Column("expire_at", "EXPIRE-AT", 1),
    Column("rule", "RULE", 3),
    Column("confidence", "CONFIDENCE", 4),
    Column("commit_timestamp", "COMMITTED-AT", 5),
    Column("base_timestamp"),
    Column("tombstone_at", "TOMBSTONE-AT", 5),
    Column("tombstone_offset"),
    Column("last_consumed_by", "LAST-CONSUMED-BY", 4, 10, is_id=True),
    Column("group_state"),
    Column("alternatives"),
    Column("retention_ms"),
    Column("metadata"),
    Column("is_exact"),
)
FINDING = (
    Column("severity", "SEVERITY", 1),
    Column("rule", "RULE", 3),
    Column("group_id", "GROUP", 1, 12, is_id=True),
    Column("topic", "TOPIC", 5, 8, is_id=True),
    Column("partition", "PARTITION", 5),
    Column("member_id"),
    Column("first_seen", "FIRST-SEEN", 6),
    Column("last_seen", "LAST-SEEN", 2),
    Column("occurrences", "TIMES", 6),
    Column("message", "MESSAGE", 1, 48, good=80),
    Column("detail"),
    Column("log_partition"),
    Column("log_offset"),
    Column("finding_id"),
)
SAVED_QUERY = (
    Column("name", "NAME", 1),
    Column("parameters", "PARAMETERS", 2, 12),
    Column("about", "ANSWERS", 1, 30, good=46),
    Column("sql"),
)


def of_statement(names: Sequence[str]) -> list[Column]:
    """The columns of an SQL answer under their own names: all of one rank, so that those written first stay."""
    return [Column(name, name, least=12, is_id=name.endswith("_id")) for name in names]
