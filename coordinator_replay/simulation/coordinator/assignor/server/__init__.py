"""The assignors that run on the broker, by the names under which members ask for them."""

from collections.abc import Callable, Mapping

from coordinator_replay.engine.model import Assignment
from coordinator_replay.simulation.coordinator.assignor.server.group_spec import (
    GroupSpec,
    MemberSpec,
    PartitionAssignorError,
)
from coordinator_replay.simulation.coordinator.assignor.server.range_assignor import assign_ranges
from coordinator_replay.simulation.coordinator.assignor.server.uniform_heterogeneous_assignment_builder import (
    assign_different,
)
from coordinator_replay.simulation.coordinator.assignor.server.uniform_homogeneous_assignment_builder import (
    assign_equal,
)


def assign_uniformly(group: GroupSpec) -> dict[str, Assignment]:
    """Return the assignment of ``uniform``, which is sticky and balanced over all topics.

    One algorithm is for members with equal subscriptions, another for members with different ones.

    Raises:
        PartitionAssignorError: a partition can't be assigned.
    """
    if not group.members:
        return {}
    return assign_equal(group) if group.is_homogeneous else assign_different(group)


ASSIGNORS: Mapping[str, Callable[[GroupSpec], dict[str, Assignment]]] = {
    "uniform": assign_uniformly,
    "range": assign_ranges,
}
"""Assignors by name. Each returns partitions by topic id for each member; a member not in the result gets nothing."""

__all__ = ["ASSIGNORS", "GroupSpec", "MemberSpec", "PartitionAssignorError"]
