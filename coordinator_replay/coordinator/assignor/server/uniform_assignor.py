"""The ``uniform`` assignor: balanced over all topics together, and sticky."""

from coordinator_replay.coordinator.assignor.server.group_spec import GroupSpec
from coordinator_replay.coordinator.assignor.server.uniform_heterogeneous_assignment_builder import assign_different
from coordinator_replay.coordinator.assignor.server.uniform_homogeneous_assignment_builder import assign_equal
from coordinator_replay.engine.model import Assignment


def assign_uniformly(group: GroupSpec) -> dict[str, Assignment]:
    """Assign by one of two algorithms: members subscribe to the same topics, or they don't.

    Raises:
        PartitionAssignorError: partitions are left over.
    """
    if not group.members:
        return {}
    return assign_equal(group) if group.is_homogeneous else assign_different(group)
