"""The ``uniform`` assignor: balanced over all topics together, and sticky."""

from coordinator_replay.coordinator.server_assignors.group_spec import GroupSpec
from coordinator_replay.coordinator.server_assignors.uniform_heterogeneous import assign_different
from coordinator_replay.coordinator.server_assignors.uniform_homogeneous import assign_equal
from coordinator_replay.engine.model import Assignment


def assign_uniformly(group: GroupSpec) -> dict[str, Assignment]:
    """Assign by one of two algorithms: members subscribe to the same topics, or they don't.

    Raises:
        AssignorError: partitions are left over.
    """
    if not group.members:
        return {}
    return assign_equal(group) if group.is_homogeneous else assign_different(group)
