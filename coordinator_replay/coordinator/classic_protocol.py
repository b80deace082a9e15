"""The classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Each is a function ``(shard, request, reply) -> Outcome`` in ``HANDLERS``; ``request.body`` has all fields.

- ``shard.classic_group(group_id)`` is the group as it stands, None where there is none of the classic type;
  ``shard.group(group_id)`` the group of whatever type. A new one is put into ``shard.classic_groups``.
- Refuse with ``raise RequestError(...)`` (``MemberSideError`` where the response names another member id) before
  anything is changed.
- An answer that waits: keep ``reply`` in ``LiveClassicGroup.waiting_joins`` or ``waiting_syncs`` and return an
  ``Outcome`` without a response; ``reply.send(body)`` answers at once, in whatever operation.
- Records: ``new_records.classic_group``; what has to wait until they are in the log (answers to SyncGroup, Stable)
  goes into ``Outcome.when_written``. The engine's replay gets the record too and holds what a reload begins with.
- Timers: ``shard.schedule(("heartbeat", group_id, member_id), delay_ms, operation)``, where the operation takes
  nothing and gives an ``Outcome``; ``shard.timers.cancel(key)``.
"""

from collections.abc import Callable, Mapping

from coordinator_replay.coordinator.messages import Request
from coordinator_replay.coordinator.operations import Outcome, Reply
from coordinator_replay.coordinator.shard import Shard

HANDLERS: Mapping[str, Callable[[Shard, Request, Reply], Outcome]] = {}


def load(shard: Shard) -> None:
    """Begin with the classic groups that a loaded partition holds: their members' heartbeat timers run."""
