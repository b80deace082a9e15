"""Assignors that run in consumers of the classic protocol, for simulated clients.

The leader of a classic group runs one of them over the members' subscriptions. Each is a plain function of what the
leader knows of topics and what members told, and gives what kafka-clients 4.3.1 gives.
"""

from collections.abc import Callable, Mapping

from coordinator_replay.coordinator.client_assignors import cooperative_sticky, range, roundrobin, sticky
from coordinator_replay.coordinator.client_assignors.subscription import (
    Assignment,
    AssignorError,
    ClientSubscription,
    Members,
    Partition,
    Topics,
)

ASSIGNORS: Mapping[str, Callable[[Topics, Members], Assignment]] = {
    "range": range.assign,
    "roundrobin": roundrobin.assign,
    "sticky": sticky.assign,
    "cooperative-sticky": cooperative_sticky.assign,
}
"""The assignors by the names that ``partition.assignment.strategy`` and the group's protocol have."""

__all__ = ["ASSIGNORS", "Assignment", "AssignorError", "ClientSubscription", "Members", "Partition", "Topics"]
