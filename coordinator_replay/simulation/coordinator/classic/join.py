"""JoinGroup of the classic protocol.

Mirrors ``GroupCoordinatorService.joinGroup`` and ``GroupMetadataManager.classicGroupJoin…``. Checks come in Kafka's
order.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_replay.engine.model import Current, GroupState, Member, Protocol, Subscription
from coordinator_replay.simulation.coordinator.classic import rebalance
from coordinator_replay.simulation.coordinator.classic.rebalance import Records, join_body
from coordinator_replay.simulation.coordinator.config import BrokerFault
from coordinator_replay.simulation.coordinator.errors import MemberSideError, RequestError
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LiveClassicGroup
from coordinator_replay.simulation.coordinator.messages import Request
from coordinator_replay.simulation.coordinator.operations import NOTHING_TO_DO, Outcome, Reply
from coordinator_replay.simulation.coordinator.shard import Shard
from coordinator_replay.simulation.coordinator.truth import join_reason

REQUIRES_MEMBER_ID_SINCE = 4
SKIPS_ASSIGNMENT_SINCE = 9


class Join:
    """One JoinGroup request to a classic group.

    Attributes:
        shard: the coordinator's state.
        live: the group to join.
        request: the request, with defaults for omitted fields.
        reply: the receiver of the response to the request.
    """

    __slots__ = ("body", "live", "reply", "request", "shard")

    def __init__(self, shard: Shard, live: LiveClassicGroup, request: Request, reply: Reply) -> None:
        self.shard = shard
        self.live = live
        self.request = request
        self.reply = reply
        self.body: dict[str, Any] = dict(request.body)

    @property
    def version(self) -> int:
        """Return the request's version."""
        return self.request.version or 0

    def run(self) -> Outcome:
        """Handle the request: add the member, let it join again, or refuse it."""
        live, member_id = self.live, self.body["memberId"]
        if not self._is_accepted(member_id):
            if member_id in live.members:
                self.shard.note_removal(live.group_id, member_id, "GROUP_MAX_SIZE_REACHED")
            live.remove(member_id)
            return self._refused("GROUP_MAX_SIZE_REACHED", "")
        if not live.supports(self.body["protocolType"], (entry["name"] for entry in self.body["protocols"])):
            return self._refused("INCONSISTENT_GROUP_PROTOCOL", member_id)
        return self._join_known(member_id) if member_id else self._join_new()

    def _refused(self, error: str, member_id: str) -> Outcome:
        rebalance.refuse_join(self.reply, error, member_id)
        return NOTHING_TO_DO

    def _is_accepted(self, member_id: str) -> bool:
        """Return whether ``group.max.size`` allows the member to join.

        The group's size is the number of its members. During a join phase, it is the number of members that have joined
        in this phase.
        """
        live, limit = self.live, self.shard.config.number("group.max.size")
        match live.state:
            case GroupState.EMPTY:
                return True
            case GroupState.PREPARING_REBALANCE:
                return member_id in live.waiting_joins or len(live.waiting_joins) < limit
            case _:
                return member_id in live.members or len(live.members) < limit

    # -- a member without an id --------------------------------------------------------------------------------------

    def _join_new(self) -> Outcome:
        instance_id = self.body["groupInstanceId"]
        prefix = self.request.client_id if instance_id is None else instance_id
        member_id = self.shard.ids.classic(prefix)
        if instance_id is not None:
            holder = self.live.static_members.get(instance_id)
            return self._add(member_id) if holder is None else self._replace(instance_id, holder, member_id)
        if self.version < REQUIRES_MEMBER_ID_SINCE:
            return self._add(member_id)
        self.live.pending_members.add(member_id)
        rebalance.schedule_heartbeat(self.shard, self.live, member_id, self.body["sessionTimeoutMs"])
        return self._refused("MEMBER_ID_REQUIRED", member_id)

    def _add(self, member_id: str) -> Outcome:
        live, body = self.live, self.body
        subscription = Subscription(
            instance_id=body["groupInstanceId"],
            client_id=self.request.client_id,
            client_host=f"/{self.request.client_host}",
            rebalance_timeout_ms=body["rebalanceTimeoutMs"],
            session_timeout_ms=body["sessionTimeoutMs"],
            uses_classic_protocol=True,
            protocols=protocols_of(body["protocols"]),
        )
        if live.state == GroupState.PREPARING_REBALANCE and live.previous_state == GroupState.EMPTY:
            live.has_new_member = True
        member = Member(member_id, subscription, Current(live.generation, state=None))
        live.add(member, protocol_type=body["protocolType"])
        live.new_members.add(member_id)
        live.waiting_joins[member_id] = self.reply
        live.pending_members.discard(member_id)
        rebalance.schedule_heartbeat(self.shard, live, member_id, rebalance.NEW_MEMBER_JOIN_TIMEOUT_MS)
        instance_id = body["groupInstanceId"] or "null"
        return self._rebalance(f"Adding new member {member_id} with group instance id {instance_id}")

    # -- a static member that returns without its id -----------------------------------------------------------------

    def _replace(self, instance_id: str, old_member_id: str, member_id: str) -> Outcome:
        """Let a static member continue under a new member id, and refuse the waiting requests of the old member id.

        A Stable group then rebalances only if the members now choose another assignor than before.
        """
        live = self.live
        old_leader = live.leader
        self._fence(old_member_id)
        live.replace_static_member(instance_id, old_member_id, member_id)
        rebalance.schedule_heartbeat(self.shard, live, member_id)
        self._update(member_id)
        match live.state:
            case GroupState.STABLE if live.select_protocol() == live.protocol:
                return Outcome((live.record(),), when_written=lambda: self._answer_replaced(member_id, old_leader))
            case GroupState.STABLE:
                return self._rebalance(
                    f"Group's selectedProtocol will change because static member {member_id} with instance id "
                    f"{instance_id} joined with change of protocol"
                )
            case GroupState.COMPLETING_REBALANCE if BrokerFault.STATIC_JOIN_BEFORE_SYNC in self.shard.config.faults:
                rebalance.note_sync(self.shard, live, old_member_id)
                return Outcome(when_written=lambda: self._answer_replaced(member_id, old_leader))
            case GroupState.COMPLETING_REBALANCE:
                return self._rebalance(
                    f"Updating metadata for static member {member_id} with instance id {instance_id}"
                )
            case GroupState.EMPTY:
                raise MemberSideError("UNKNOWN_SERVER_ERROR")
            case _:
                return _outcome(rebalance.maybe_complete_join(self.shard, live))

    def _fence(self, old_member_id: str) -> None:
        live = self.live
        join, sync = live.waiting_joins.pop(old_member_id, None), live.waiting_syncs.pop(old_member_id, None)
        live.new_members.discard(old_member_id)
        if join is not None:
            rebalance.refuse_join(join, "FENCED_INSTANCE_ID", old_member_id, protocol_is_null=True)
        if sync is not None:
            sync.send(RequestError("FENCED_INSTANCE_ID"))

    def _answer_replaced(self, member_id: str, old_leader: str | None) -> None:
        """Answer the JoinGroup of a static member that returned, without a rebalance.

        The response tells the member not to compute an assignment, even if the member is the leader.

        Args:
            member_id: the new id of the member.
            old_leader: id of the group's leader before the member returned.
        """
        # Since version 9, the response has a field for this: ``skipAssignment``. In older versions, the response names
        # the old id as the leader, so the member does not see that it is the leader.
        live = self.live
        live.waiting_joins.pop(member_id, None)
        if self.version < SKIPS_ASSIGNMENT_SINCE:
            self.reply.send(join_body(live, member_id, leader=old_leader))
            return
        leads = live.leader == member_id
        members = live.listed_members() if leads else []
        self.reply.send(join_body(live, member_id, members=members, skipAssignment=leads))

    # -- a member with an id -----------------------------------------------------------------------------------------

    def _join_known(self, member_id: str) -> Outcome:
        live, body = self.live, self.body
        if member_id in live.pending_members:
            if body["groupInstanceId"] is not None:
                raise MemberSideError("UNKNOWN_SERVER_ERROR")
            return self._add(member_id)
        try:
            live.validate(member_id, body["groupInstanceId"])
        except RequestError as error:
            rebalance.refuse_join(self.reply, error.error, member_id, protocol_is_null=True)
            return NOTHING_TO_DO
        match live.state:
            case GroupState.PREPARING_REBALANCE:
                return self._rejoin(member_id, f"Member {member_id} is joining group during {live.state}")
            case GroupState.COMPLETING_REBALANCE if not self._has_same_protocols(member_id):
                return self._rejoin(member_id, f"Updating metadata for member {member_id} during {live.state}")
            case GroupState.COMPLETING_REBALANCE:
                members = live.listed_members() if member_id == live.leader else []
                self.reply.send(join_body(live, member_id, members=members))
            case GroupState.STABLE if member_id == live.leader:
                return self._rejoin(member_id, f"Leader {member_id} re-joining group during {live.state}")
            case GroupState.STABLE if not self._has_same_protocols(member_id):
                return self._rejoin(member_id, f"Updating metadata for member {member_id} during {live.state}")
            case GroupState.STABLE:
                self.reply.send(join_body(live, member_id))
            case _:
                return self._refused("UNKNOWN_MEMBER_ID", member_id)
        return NOTHING_TO_DO

    def _rejoin(self, member_id: str, reason: str) -> Outcome:
        self._update(member_id)
        return self._rebalance(reason)

    def _rebalance(self, reason: str) -> Outcome:
        """Begin a rebalance, or end the present join phase if all members have joined.

        The reason of the rebalance is ``reason``, followed by the client's own reason.
        """
        text = f"{reason}; client reason: {join_reason(self.request)}"
        return _outcome(rebalance.rebalance_or_complete_join(self.shard, self.live, text))

    def _has_same_protocols(self, member_id: str) -> bool:
        subscription = self.live.members[member_id].subscription
        before = (
            [(protocol.name, protocol.metadata) for protocol in subscription.protocols]
            if subscription is not None
            else []
        )
        return before == [(entry["name"], entry["metadata"]) for entry in self.body["protocols"]]

    def _update(self, member_id: str) -> None:
        """Replace a member's protocols and timeouts by those of the request. The request then waits for its answer.

        The client id and host of the first join are kept.
        """
        subscription = self.live.members[member_id].subscription
        if subscription is None:
            raise MemberSideError("UNKNOWN_SERVER_ERROR")
        updated = subscription._replace(
            protocols=protocols_of(self.body["protocols"]),
            rebalance_timeout_ms=self.body["rebalanceTimeoutMs"],
            session_timeout_ms=self.body["sessionTimeoutMs"],
        )
        self.live.update_member(member_id, updated)
        self.live.waiting_joins[member_id] = self.reply


def protocols_of(entries: Sequence[Mapping[str, Any]]) -> tuple[Protocol, ...]:
    """Return the protocols of a JoinGroup request, in the member's order."""
    return tuple(Protocol(entry["name"], entry["metadata"]) for entry in entries)


def _outcome(records: Records) -> Outcome:
    return Outcome(records) if records else NOTHING_TO_DO
