"""Members of classic groups whose subscription can't be read, because it is not in the format of Kafka's consumers.

The coordinator needs the subscriptions to know which topics a group reads. If it can't read the subscription of a
member, it assumes that the group reads all topics (``ClassicGroup.computeSubscribedTopics``). So no offset of the group
expires while the member is in the group.
"""

from collections.abc import Iterable
from datetime import datetime

from coordinator_replay.engine.classic_group import CONSUMER_PROTOCOL_TYPE
from coordinator_replay.engine.model import GroupType
from coordinator_replay.listing import listed
from coordinator_replay.query.describe import Description
from coordinator_replay.query.tables import Tables

MOST_NAMED = 3

_UNREAD = f"""
    WITH unread AS (
        SELECT DISTINCT group_id, member_id, from_offset FROM member_timeline
        WHERE cluster = $cluster AND group_type = '{GroupType.CLASSIC}' AND subscribed_topics IS NULL {{of_groups}}
          AND coalesce(valid_from < $end, true) AND (to_offset IS NULL OR NOT $is_at_end)
          AND coalesce(valid_to > $start, to_offset IS NULL OR $start IS NULL)
    )
    SELECT DISTINCT unread.group_id, member_id FROM unread ASOF JOIN (
        SELECT group_id, log_offset, protocol_type FROM expiry_rules WHERE cluster = $cluster {{of_groups}}
    ) rules ON unread.group_id = rules.group_id AND from_offset >= log_offset
    WHERE protocol_type = '{CONSUMER_PROTOCOL_TYPE}'
    ORDER BY ALL
"""  # noqa: S608 - put together from constants

Unread = tuple[str, str]
"""A group and one of its members whose subscription can't be read."""


def unread_at_end(warehouse: Tables, group: str | None = None) -> list[Unread]:
    """Return the members at the end of the log whose subscription can't be read.

    Args:
        warehouse: the tables to read.
        group: only members of this group; None for all groups.
    """
    return _unread(warehouse, group, None, None, is_at_end=True)


def unread_between(warehouse: Tables, start: datetime | None, end: datetime | None) -> list[Unread]:
    """Return the members of all groups in a time range whose subscription can't be read."""
    return _unread(warehouse, None, start, end, is_at_end=False)


def unread_in(description: Description) -> list[Unread]:
    """Return the members of a group whose subscription can't be read.

    Args:
        description: the group and its members at a point in time.
    """
    group = description.group
    if group.group_type != GroupType.CLASSIC or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return []
    return [(group.group_id, member.member_id) for member in description.members if member.subscribed_topics is None]


def unexpiring_note(unread: Iterable[Unread]) -> str | None:
    """Return a note on groups whose offsets don't expire, because the subscription of a member can't be read.

    Return None if there are no such groups.
    """
    by_group = _by_group(unread)
    if not by_group:
        return None
    which = "; ".join(f"{listed(members, MOST_NAMED)} of group {group}" for group, members in _most(by_group))
    return (
        f"No offset of a group expires while it has a member whose subscription can't be read: {which}"
        f"{_others(by_group)}. The coordinator does not know then to which topics the group subscribes."
    )


def unnamed_topics_note(unread: Iterable[Unread]) -> str | None:
    """Return a note on members that may also read the topic that the user asks about.

    The records of these members don't show which topics they subscribe to. Return None if there are no such members.

    Args:
        unread: the members whose subscription can't be read.
    """
    by_group = _by_group(unread)
    if not by_group:
        return None
    which = "; ".join(f"{listed(members, MOST_NAMED)} of group {group}" for group, members in _most(by_group))
    return (
        f"Members whose subscription can't be read may have subscribed to the topic, too: {which}{_others(by_group)}."
    )


def _unread(
    warehouse: Tables, group: str | None, start: datetime | None, end: datetime | None, *, is_at_end: bool
) -> list[Unread]:
    rows = warehouse.rows(_UNREAD, group=group, start=start, end=end, is_at_end=is_at_end)
    return [(group_id, member_id) for group_id, member_id in rows]


def _by_group(unread: Iterable[Unread]) -> dict[str, list[str]]:
    by_group: dict[str, list[str]] = {}
    for group_id, member_id in unread:
        by_group.setdefault(group_id, []).append(member_id)
    return by_group


def _most(by_group: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    return sorted(by_group.items())[:MOST_NAMED]


def _others(by_group: dict[str, list[str]]) -> str:
    left = len(by_group) - MOST_NAMED
    return f"; and of {left:,} more groups" if left > 0 else ""
