"""What a classic group has beside its records: who waits for what, and what its last record does not hold.

A classic group lives outside the replayed state, as in Kafka: its rebalance goes on in memory, and a record is
written only when it comes to something. ``group`` is the engine's own machine, driven by hand; the state that records
leave behind is the shard's replay of them, which is what a new leader of the partition would begin with.
"""

from dataclasses import dataclass, field

from coordinator_replay.coordinator.operations import Reply
from coordinator_replay.engine import ClassicGroup


@dataclass(slots=True)
class LiveClassicGroup:
    """One classic group as it stands now.

    Attributes:
        group: state, generation, members with all their protocols.
        waiting_joins: JoinGroup requests not answered yet, by member id.
        waiting_syncs: SyncGroup requests not answered yet, by member id.
        pending_members: ids given out with MEMBER_ID_REQUIRED that have not joined yet.
        pending_syncs: members of the generation that have not sent SyncGroup yet.
    """

    group: ClassicGroup
    waiting_joins: dict[str, Reply] = field(default_factory=dict)
    waiting_syncs: dict[str, Reply] = field(default_factory=dict)
    pending_members: set[str] = field(default_factory=set)
    pending_syncs: set[str] = field(default_factory=set)
