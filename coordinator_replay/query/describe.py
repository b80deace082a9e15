"""A group and its members at a point in time, as the broker's describe shows them.

A member's current assignment has all partitions that the member owns, including partitions that it must give up
(``ConsumerGroupMember.asConsumerGroupDescribeMember``). The assignor of a consumer group is the assignor that most
members ask for. If no member asks for an assignor, the group uses ``DEFAULT_ASSIGNOR``.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from coordinator_replay.answer_columns import (
    CLASSIC_MEMBERS,
    COORDINATORS,
    LAST,
    SHARE,
    STREAMS,
    column,
    select_list,
    stored_columns,
)
from coordinator_replay.engine.model import GroupState, GroupType
from coordinator_replay.listing import counted, listed
from coordinator_replay.query.group_records import Tasks, newest_records, not_ready_note
from coordinator_replay.query.groups import UNKNOWN, Group, group_at
from coordinator_replay.query.partitions import TopicPartitions, target_partitions, topic_partitions
from coordinator_replay.query.tables import END, MEMBERS_AS_OF, Tables
from coordinator_replay.times import moment_text

Topics = tuple[TopicPartitions, ...]

DEFAULT_ASSIGNOR = "uniform"
"""First assignor in the default of ``group.consumer.assignors``. The broker's own setting is not in the log."""


def _together(assignments: tuple[Any, Any]) -> tuple[TopicPartitions, ...]:
    return topic_partitions(*assignments)


def _names(topics: list[str] | None) -> tuple[str, ...] | None:
    return None if topics is None else tuple(topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member at a point in time.

    Attributes:
        partition_count: number of partitions that the member owns.
        target_epoch: epoch of the group's target assignment.
        current_assignment: partitions that the member owns, including partitions that it must give up.
        pending_revocation: partitions that the member owns and must give up.
        target_assignment: partitions that the member is meant to get; None if no target is on record.
        session_timeout_ms: the value that the member sent; None on protocols without this timeout.
        rebalance_timeout_ms: the value in the member's record; None if the record's version or protocol has no such
            field.
        since: the time from which the member has had these values.
        is_client_inherited: whether client id and host may belong to an earlier process of this static member.
        is_begin_open: whether the member may have had these values before ``since``, because records are missing.
        is_upgraded: whether the member uses the consumer protocol; None outside of consumer groups.
        process_id: process id of a streams member. This field and all fields below it are None in other groups, and if
            the member's record is missing.
        member_topology_epoch: the topology epoch that the member sent.
        active_tasks: active tasks that the member runs. Tasks that it must give up are left out, as in the broker's
            describe.
        standby_tasks: standby tasks that the member runs, without tasks that it must give up.
        warmup_tasks: warm-up tasks that the member runs, without tasks that it must give up.
        active_tasks_pending_revocation: active tasks that the member must give up and still has.
        standby_tasks_pending_revocation: standby tasks that the member must give up and still has.
        warmup_tasks_pending_revocation: warm-up tasks that the member must give up and still has.
        target_active_tasks: active tasks that the member is meant to get.
        target_standby_tasks: standby tasks that the member is meant to get.
        target_warmup_tasks: warm-up tasks that the member is meant to get.
    """

    group_id: str = column("GROUP", LAST, is_id=True)
    member_id: str = column("CONSUMER-ID", 4, 10, is_id=True)
    instance_id: str | None = column("GROUP-INSTANCE-ID", 1, 8, is_id=True)
    client_host: str | None = column("HOST", 2, 8, is_id=True)
    client_id: str | None = column("CLIENT-ID", 1, 8, is_id=True)
    is_client_inherited: bool = column(sql="coalesce(is_client_inherited, false)")
    rack_id: str | None
    partition_count: int = column("#PARTITIONS", 5, is_computed=True)
    member_epoch: int | None = column("CURRENT-EPOCH", 4)
    member_state: str | None = column("MEMBER-STATE", 1)
    current_assignment: tuple[TopicPartitions, ...] = column(
        "CURRENT-ASSIGNMENT", 1, 14, sql="[assigned, pending_revocation]", read=_together
    )
    pending_revocation: tuple[TopicPartitions, ...] = column("PENDING-REVOCATION", 2, 12, read=topic_partitions)
    target_epoch: int | None = column("TARGET-EPOCH", 6, sql="$target_epoch")
    target_assignment: tuple[TopicPartitions, ...] | None = column(
        "TARGET-ASSIGNMENT", 5, 12, sql="target", read=target_partitions
    )
    subscribed_topics: tuple[str, ...] | None = column(read=_names)
    subscribed_topic_regex: str | None
    assignor: str | None
    session_timeout_ms: int | None = column("SESSION-TIMEOUT-MS", 8)
    rebalance_timeout_ms: int | None = column("REBALANCE-TIMEOUT-MS", 8)
    since: datetime | None = column(sql="valid_from")
    is_begin_open: bool = column(sql="coalesce(is_begin_open, true)")
    is_upgraded: bool | None = column("UPGRADED", 1, only_with=CLASSIC_MEMBERS, default=None)
    process_id: str | None = column("PROCESS", 3, 8, is_id=True, only_with=STREAMS, default=None)
    member_topology_epoch: int | None = column(only_with=STREAMS, default=None)
    active_tasks: Tasks | None = column("ACTIVE", 1, 8, only_with=STREAMS, default=None)
    standby_tasks: Tasks | None = column("STANDBY", 1, 8, only_with=STREAMS, default=None)
    warmup_tasks: Tasks | None = column("WARMUP", 1, 8, only_with=STREAMS, default=None)
    active_tasks_pending_revocation: Tasks | None = column(only_with=STREAMS, default=None)
    standby_tasks_pending_revocation: Tasks | None = column(only_with=STREAMS, default=None)
    warmup_tasks_pending_revocation: Tasks | None = column(only_with=STREAMS, default=None)
    target_active_tasks: Tasks | None = column("TARGET-ACTIVE", 2, 8, only_with=STREAMS, default=None)
    target_standby_tasks: Tasks | None = column("TARGET-STANDBY", 2, 8, only_with=STREAMS, default=None)
    target_warmup_tasks: Tasks | None = column("TARGET-WARMUP", 2, 8, only_with=STREAMS, default=None)

    def __post_init__(self) -> None:
        """Count the partitions that the member owns."""
        object.__setattr__(self, "partition_count", sum(len(topic.partitions) for topic in self.current_assignment))


_MEMBERS = f"""
    SELECT {select_list(DescribedMember)}
    FROM member_timeline
    WHERE cluster = $cluster AND group_id = $group AND {MEMBERS_AS_OF}
    QUALIFY row_number() OVER (PARTITION BY member_id ORDER BY from_offset DESC) = 1
    ORDER BY member_id
"""  # noqa: S608 - put together from constants


_MOST_NAMED = 3
"""Largest number of members that a note names."""

_STABLE = "STABLE"
"""The state of a member that has its target assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group at a point in time, with the coordinator, the assignor, and facts about streams and share groups.

    ``Group`` describes the fields that are not described here.

    Attributes:
        coordinator: id of the coordinator at this point in time; None if it is not on record.
        assignor: the assignor, or the protocol of a classic group without an assignor; None if the group has none.
        topology_epoch: topology epoch of a streams group.
        validated_topology_epoch: the topology epoch that the coordinator has validated against the topics; None if it
            has validated none. Kafka 4.1 does not record this epoch.
        initialized_topics: partitions of a share group whose state the share coordinator has initialized.
        initializing_topics: partitions of a share group whose state the share coordinator has not yet initialized.
        deleting_topics: topics of a share group whose state is being deleted.
    """

    group_id: str = column("GROUP", 1, is_id=True)
    coordinator: int | None = column("COORDINATOR", 3, only_with=COORDINATORS, default=None)
    group_type: str = column("TYPE", 2)
    protocol_type: str | None
    assignor: str | None = column("ASSIGNMENT-STRATEGY", 3, 8)
    state: str = column("STATE", 1)
    epoch: int | None = column("GROUP-EPOCH", 2)
    assignment_epoch: int | None = column("TARGET-ASSIGNMENT-EPOCH", 6)
    member_count: int | None = column("#MEMBERS", 2)
    since: datetime | None = column("SINCE", 3)
    is_exact: bool
    log_partition: int | None
    topology_epoch: int | None = column("TOPOLOGY-EPOCH", 2, only_with=STREAMS, default=None)
    validated_topology_epoch: int | None = column(only_with=STREAMS, default=None)
    initialized_topics: Topics | None = column("INITIALIZED", 2, 12, only_with=SHARE, default=None)
    initializing_topics: Topics | None = column("INITIALIZING", 2, 12, only_with=SHARE, default=None)
    deleting_topics: Topics | None = column("DELETING", 5, 12, only_with=SHARE, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A group and its members at a point in time.

    Attributes:
        group: the group itself.
        members: the group's members.
        waiting: a note on what a group in state NotReady, Assigning or Reconciling waits for; None for other groups.
    """

    group: DescribedGroup
    members: tuple[DescribedMember, ...]
    waiting: str | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return which optional columns to show for this group, such as the columns for streams groups.

        The result has values of ``AnswerColumn.only_with``.
        """
        kinds = {
            STREAMS: self.group.group_type == GroupType.STREAMS,
            SHARE: self.group.group_type == GroupType.SHARE,
            CLASSIC_MEMBERS: any(member.is_upgraded is False for member in self.members),
            COORDINATORS: self.group.coordinator is not None,
        }
        return tuple(kind for kind, is_so in kinds.items() if is_so)


def inherited_note(members: Iterable[tuple[str, bool]]) -> str | None:
    """Return a note on members whose client id and host may belong to an earlier process.

    Return None if there is no such member.

    Args:
        members: pairs of a member id and whether its client id and host may belong to an earlier process.
    """
    names = sorted({member_id for member_id, is_inherited in members if is_inherited})
    if not names:
        return None
    return (
        f"Client id and host of {listed(names, _MOST_NAMED)} may be those of an earlier process: for a "
        "static member the records of a classic group keep those of the first one, even after another has replaced it."
    )


def missing_records_note(group: DescribedGroup) -> str | None:
    """Return a note if the log does not prove everything that is shown about a group. Otherwise return None."""
    if group.is_exact:
        return None
    if group.state == UNKNOWN:
        return (
            "The state of the group at that time is not on record: it may not have existed, or have had members that "
            "the log no longer shows."
        )
    return "Records of that time are missing from the log: members may be missing here."


def members_at(warehouse: Tables, group: Group, at: datetime | None = None) -> tuple[DescribedMember, ...]:
    """Return the members of a group at a point in time, sorted by member id."""
    asked = {"group": group.group_id, "at": at or END, "target_epoch": group.assignment_epoch}
    return tuple(warehouse.answers(DescribedMember, _MEMBERS, **asked))


def coordinator_of(warehouse: Tables, log_partition: int | None, at: datetime | None = None) -> int | None:
    """Return the id of the broker that led a log partition at a point in time.

    Return None if the leader is not certain, or if the log partition had no leader.
    """
    if log_partition is None or not warehouse.has_rows("coordinator_changes"):
        return None
    broker: int | None = None
    for leader, elected_at, is_exact in warehouse.rows(_LEADERS, log_partition=log_partition):
        if at is not None and elected_at is not None and elected_at > at:
            # If the time of this election is not exact, the election may have taken place before the point in time.
            return broker if is_exact else None
        broker = None if leader is None or leader < 0 else leader
    return broker


_LEADERS = """
    SELECT broker, elected_at, is_exact FROM coordinator_changes
    WHERE cluster = $cluster AND log_partition = $log_partition ORDER BY leader_epoch
"""


def _assignor(group: Group, members: Iterable[DescribedMember]) -> str | None:
    if group.group_type == "classic":
        return group.protocol
    if group.group_type != "consumer":
        return None
    asked = Counter(member.assignor for member in members if member.assignor)
    # Kafka breaks ties by hash order, which no log shows. Sorting by name at least gives the same answer each time.
    return min(asked, key=lambda name: (-asked[name], name)) if asked else DEFAULT_ASSIGNOR


def describe_at(warehouse: Tables, group: str, at: datetime | None = None) -> Description:
    """Return a group and its members at a point in time.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        at: the point in time; the end of the log if None.

    Raises:
        UsageError: the tables have no record of the group, or the group did not exist at that time.
    """
    described = group_at(warehouse, group, at)
    members = () if described.state == UNKNOWN else members_at(warehouse, described, at)
    names = [column.name for column in stored_columns(DescribedGroup) if column.name != "assignor"]
    shared = {name: getattr(described, name) for name in names} | {"assignor": _assignor(described, members)}
    shared["coordinator"] = coordinator_of(warehouse, described.log_partition, at)
    if described.group_type == "classic" or described.state == UNKNOWN:
        return Description(group=DescribedGroup(**shared), members=members)
    records = newest_records(warehouse, group, described.log_partition, at)
    if described.state == GroupState.NOT_READY:
        waiting: str | None = not_ready_note(warehouse, records.topology, at)
    else:
        waiting = _unassigned_note(warehouse, described, members, at)
    return Description(
        group=DescribedGroup(**shared, **records.group_fields()),
        members=tuple(replace(member, **records.member_fields(member.member_id)) for member in members),
        waiting=waiting,
    )


_STATE_SPAN = """
    WITH own AS (
        SELECT seq, to_state, log_timestamp, coalesce(is_exact, false) AS is_exact,
               coalesce(log_timestamp <= $at, true) AS is_before
        FROM group_timeline WHERE cluster = $cluster AND group_id = $group AND log_partition = $log_partition
    ), began AS (
        SELECT seq, log_timestamp, is_exact FROM own
        WHERE is_before
          AND seq > coalesce((SELECT max(seq) FROM own WHERE is_before AND to_state IS DISTINCT FROM $state), -1)
        ORDER BY seq LIMIT 1
    )
    SELECT log_timestamp, is_exact,
           (SELECT struct_pack(at := log_timestamp, is_exact := is_exact) FROM own
            WHERE NOT is_before AND seq > began.seq AND to_state IS DISTINCT FROM $state ORDER BY seq LIMIT 1)
    FROM began
"""


def _unassigned_note(
    warehouse: Tables, group: Group, members: Iterable[DescribedMember], at: datetime | None
) -> str | None:
    """Return a note that says what a group in state Assigning or Reconciling waits for, and since when.

    Return None for a group in another state.
    """
    if group.state == GroupState.ASSIGNING:
        newest = group.assignment_epoch
        which = "" if newest is None or newest < 0 else f"; the newest target assignment is of epoch {newest}"
        what = f"epoch {group.epoch} has no target assignment {'yet' if group.is_exact else 'on record'}{which}"
    elif group.state == GroupState.RECONCILING:
        what = _unreconciled(group, tuple(members))
    else:
        return None
    asked = {"group": group.group_id, "log_partition": group.log_partition, "state": str(group.state), "at": at or END}
    spans = warehouse.rows(_STATE_SPAN, **asked)
    began, is_exact, left = spans[0] if spans else (None, False, None)
    since = "" if began is None else f" since {moment_text(began)}{'' if is_exact else ' or earlier'}"
    until = ""
    if left is not None and left["at"] is not None:
        until = f" The group left this state {'at' if left['is_exact'] else 'by'} {moment_text(left['at'])}."
    return f"{group.state}{since}: {what}.{until}"


def _unreconciled(group: Group, members: Sequence[DescribedMember]) -> str:
    """Return a clause that names the members that have not yet reached their target assignment."""
    behind = [
        member
        for member in members
        if member.member_epoch != group.assignment_epoch or member.member_state not in (None, _STABLE)
    ]
    names = [f"{member.client_id or member.member_id} ({_progress(group, member)})" for member in behind]
    whose = f": {listed(names, _MOST_NAMED)}" if names else ""
    least = "" if group.is_exact else " on record"
    return (
        f"{len(behind):,} of {counted(len(members), 'member')}{least} "
        f"{'does' if len(behind) == 1 else 'do'} not have the target assignment of epoch {group.assignment_epoch} "
        f"yet{whose}"
    )


def _progress(group: Group, member: DescribedMember) -> str:
    epoch = f"at epoch {member.member_epoch}" if member.member_epoch != group.assignment_epoch else None
    state = member.member_state if member.member_state != _STABLE else None
    return ", ".join(filter(None, (state, epoch)))
