"""ConsumerGroupHeartbeat: the consumer group protocol of KIP-848."""

from collections.abc import Callable, Mapping

from coordinator_replay.coordinator.messages import Request
from coordinator_replay.coordinator.operations import Outcome, Reply
from coordinator_replay.coordinator.shard import Shard

HANDLERS: Mapping[str, Callable[[Shard, Request, Reply], Outcome]] = {}
