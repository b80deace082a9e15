"""Assignors that run in consumers of the classic protocol, for simulated clients.

The leader of a classic group runs one of them over the members' subscriptions. Each is a plain function of the topics
that the leader knows and of the members' subscriptions. It returns the same assignment as kafka-clients 4.3.1.
"""

from collections.abc import Callable, Mapping

from coordinator_replay.simulation.coordinator.assignor.client import (
    range_assignor,
    round_robin_assignor,
    sticky_assignor,
)
from coordinator_replay.simulation.coordinator.assignor.client.subscription import (
    Assignment,
    AssignorError,
    ClientSubscription,
    Members,
    Partition,
    Topics,
)

ASSIGNORS: Mapping[str, Callable[[Topics, Members], Assignment]] = {
    "range": range_assignor.assign,
    "roundrobin": round_robin_assignor.assign,
    "sticky": sticky_assignor.assign,
    "cooperative-sticky": sticky_assignor.assign_cooperatively,
}
"""The assignors by name, as in ``partition.assignment.strategy`` and in the group's protocol."""

__all__ = ["ASSIGNORS", "Assignment", "AssignorError", "ClientSubscription", "Members", "Partition", "Topics"]
