"""Faults of Kafka releases that leave a trace in groups' records, with the versions that have them.

A trace alone proves no fault, so sentences call the fault possible. The versions are the releases without the fix.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    """A known fault.

    Attributes:
        issue: number of the fault in Kafka's issue tracker.
        versions: the releases that have the fault.
        effect: what the fault does to groups, as part of a sentence.
    """

    issue: str
    versions: str
    effect: str

    @property
    def words(self) -> str:
        """Return the effect of the fault, its issue number, and the releases that have it."""
        return f"{self.effect} ({self.issue}: {self.versions})"

    @property
    def as_possible(self) -> str:
        """Return the fault as a possible explanation."""
        return f"possibly {self.issue} ({self.versions}): {self.effect}"


KAFKA_7610 = Fault(
    "KAFKA-7610",
    "brokers before 2.2, or clients that send JoinGroup before version 4",
    "a client that retries JoinGroup without a member id leaves a member behind each time, until that one times out",
)
KAFKA_8653 = Fault(
    "KAFKA-8653",
    "brokers 2.3.0, JoinGroup version 0",
    "the coordinator that wrote it counted 0 and waited for nobody to join again; one that loads it counts the session "
    "timeout",
)
KAFKA_9801 = Fault(
    "KAFKA-9801",
    "brokers 2.3.0 to 2.4.1",
    "a static member that joins again before the leader's SyncGroup gets an empty assignment under its new member id",
)
KAFKA_12759 = Fault(
    "KAFKA-12759",
    "classic groups on every broker",
    "a static member that comes back to a Stable group with other topics causes no rebalance",
)
KAFKA_13081 = Fault(
    "KAFKA-13081",
    "Java clients before 2.8.1 and 3.0",
    "the sticky assignors give a partition to two members that claim to own it",
)
KAFKA_15106 = Fault(
    "KAFKA-15106",
    "Java clients before 3.5.2",
    "the sticky assignors move partitions for ever, because they never see that an assignment is balanced",
)
KAFKA_16147 = Fault(
    "KAFKA-16147",
    "brokers 3.7",
    "a partition that is assigned again to the member that is revoking it is given to a second member, too",
)

FAULTS = {
    fault.issue: fault
    for fault in (KAFKA_7610, KAFKA_8653, KAFKA_9801, KAFKA_12759, KAFKA_13081, KAFKA_15106, KAFKA_16147)
}
"""All known faults, by issue number."""
