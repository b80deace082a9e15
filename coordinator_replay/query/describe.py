"""A group with its members at a point in time, as the broker's describe would have said.

A member's current assignment is what it owns: assigned and pending revocation together (``ConsumerGroupMember``,
``asConsumerGroupDescribeMember``). The assignor of a consumer group is the one most members ask for; where none asks,
the first of the broker's default list.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from coordinator_replay.query.groups import UNKNOWN, Group, group_at
from coordinator_replay.query.partitions import TopicPartitions, topic_partitions
from coordinator_replay.query.warehouse import END, MEMBERS_AS_OF, Warehouse

DEFAULT_ASSIGNOR = "uniform"
"""First of ``group.consumer.assignors`` as brokers ship it; the setting itself is not in this topic."""

_MEMBERS = f"""
    SELECT member_id, instance_id, client_id, client_host, rack_id, subscribed_topics, subscribed_topic_regex,
           assignor, member_state, member_epoch, assigned, pending_revocation, target, valid_from,
           coalesce(is_client_inherited, false), coalesce(is_begin_open, true)
    FROM member_timeline
    WHERE cluster = $cluster AND group_id = $group AND {MEMBERS_AS_OF}
    QUALIFY row_number() OVER (PARTITION BY member_id ORDER BY from_offset DESC) = 1
    ORDER BY member_id
"""  # noqa: S608 - put together from constants


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member at a point in time.

    Attributes:
        current_assignment: partitions that it owns, those it must give up among them.
        pending_revocation: of these: the ones it must give up.
        target_assignment: partitions that it is to have; None where no target is on record.
        since: since when it is as it is.
        is_client_inherited: client id and host may be those of an earlier process of this static member.
        is_begin_open: whether it may have been so before, too: the log does not have what was before ``since``.
    """

    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    rack_id: str | None
    subscribed_topics: tuple[str, ...] | None
    subscribed_topic_regex: str | None
    assignor: str | None
    member_state: str | None
    member_epoch: int | None
    current_assignment: tuple[TopicPartitions, ...]
    pending_revocation: tuple[TopicPartitions, ...]
    target_assignment: tuple[TopicPartitions, ...] | None
    since: datetime | None
    is_client_inherited: bool
    is_begin_open: bool

    @property
    def partition_count(self) -> int:
        """How many partitions it owns."""
        return sum(len(topic.partitions) for topic in self.current_assignment)


_MOST_NAMED = 3
"""Members that a note names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A group and its members at a point in time.

    Attributes:
        assignor: the assignor or protocol that distributes the partitions; None where there is none.
    """

    group: Group
    assignor: str | None
    members: tuple[Member, ...]


def inherited_note(members: Iterable[tuple[str, bool]]) -> str | None:
    """What to say of members whose client id and host on record may be those of others.

    Args:
        members: ids, and whether client id and host may be those of an earlier process.
    """
    names = sorted({member_id for member_id, is_inherited in members if is_inherited})
    if not names:
        return None
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (
        f"Client id and host of {', '.join(names[:_MOST_NAMED])}{more} may be those of an earlier process: of a static "
        "member a classic group keeps the first one's on record, even when another process has replaced it."
    )


def missing_records_note(group: Group) -> str | None:
    """What to say of a group of which the log does not prove what is shown."""
    if group.is_exact:
        return None
    if group.state == UNKNOWN:
        return (
            "The state of the group at that time is not on record: it may not have existed, or have had members that "
            "the log no longer tells of."
        )
    return "Records of that time are missing from the log: this is what those on record say; members may be missing."


def members_at(warehouse: Warehouse, group: str, at: datetime | None = None) -> tuple[Member, ...]:
    """The members of a group at a point in time, by member id."""
    return tuple(
        Member(
            member_id=row[0],
            instance_id=row[1],
            client_id=row[2],
            client_host=row[3],
            rack_id=row[4],
            subscribed_topics=None if row[5] is None else tuple(row[5]),
            subscribed_topic_regex=row[6],
            assignor=row[7],
            member_state=row[8],
            member_epoch=row[9],
            current_assignment=topic_partitions(row[10], row[11]),
            pending_revocation=topic_partitions(row[11]),
            target_assignment=None if row[12] is None else topic_partitions(row[12]),
            since=row[13],
            is_client_inherited=row[14],
            is_begin_open=row[15],
        )
        for row in warehouse.rows(_MEMBERS, group=group, at=at or END)
    )


def _assignor(group: Group, members: Iterable[Member]) -> str | None:
    if group.group_type == "classic":
        return group.protocol
    if group.group_type != "consumer":
        return None
    asked = Counter(member.assignor for member in members if member.assignor)
    # Kafka breaks ties by hash order, which no log tells; the name makes the answer at least the same each time.
    return min(asked, key=lambda name: (-asked[name], name)) if asked else DEFAULT_ASSIGNOR


def describe_at(warehouse: Warehouse, group: str, at: datetime | None = None) -> Description:
    """A group as it was at a point in time.

    Args:
        warehouse: the tables.
        group: the group.
        at: the point in time; the end of the log if None.

    Raises:
        UsageError: the tables don't know the group, or it did not exist then.
    """
    found = group_at(warehouse, group, at)
    members = () if found.state == UNKNOWN else members_at(warehouse, group, at)
    return Description(group=found, assignor=_assignor(found, members), members=members)
