"""Events that a coordinator tells its observer.

There is an event for each written batch, started rebalance, raised group epoch and removed member. The trigger of an
event is the request, timer or change that caused the event. Records do not show triggers. The coordinator does not keep
events, and no record, response or timer depends on an event.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from coordinator_replay.simulation.coordinator.messages import Request

NO_REASON = "not provided"
"""The reason in brokers' logs if a client gives none for joining or leaving."""


class TriggerKind(StrEnum):
    """Kinds of triggers.

    A trigger is a request, a timer, a finished background job, a change of topics, the marker at the end of a
    transaction, or the loading of the log partition.
    """

    REQUEST = "request"
    TIMER = "timer"
    JOB = "job"
    TOPICS = "topics"
    MARKER = "marker"
    LOAD = "load"


class Trigger(NamedTuple):
    """A request, timer or change that started an operation.

    Attributes:
        kind: whether the trigger is a request, a timer or another kind of change.
        name: name of the API, the timer or the job.
        version: version of the request, None if the trigger is no request.
        group_id: group of a timer or a job, or the group that a request names.
        member_ids: members that the timer is for, or that the request names.
        instance_ids: group.instance.id of members that the request names.
        client_id: client id in the header of the request, None if the trigger is no request.
        client_host: address that the request came from.
    """

    kind: TriggerKind
    name: str
    version: int | None = None
    group_id: str = ""
    member_ids: tuple[str, ...] = ()
    instance_ids: tuple[str, ...] = ()
    client_id: str | None = None
    client_host: str | None = None


LOADING = Trigger(TriggerKind.LOAD, "load")


class BatchWritten(NamedTuple):
    """An event: a batch of records or a control record was written.

    Attributes:
        first_offset: log offset of the first record.
        last_offset: log offset of the last record.
    """

    at_ms: int
    first_offset: int
    last_offset: int
    trigger: Trigger


class RebalanceStarted(NamedTuple):
    """An event: a classic group entered PreparingRebalance.

    Attributes:
        generation: the group's last generation before the rebalance.
        end_offset: log offset of the next record that the coordinator writes.
        state: the group's state before PreparingRebalance.
        reason: the reason for the rebalance, as brokers log it.
    """

    at_ms: int
    group_id: str
    generation: int
    end_offset: int
    state: str
    reason: str
    trigger: Trigger


class EpochBumped(NamedTuple):
    """An event: the epoch of a consumer group was raised, or set for the first time.

    Attributes:
        epoch: the new epoch.
        offset: log offset of the record with the new epoch.
        reason: lines of Kafka's own log for the operation, joined by a semicolon.
    """

    at_ms: int
    group_id: str
    epoch: int
    offset: int
    reason: str
    trigger: Trigger


class MemberRemoved(NamedTuple):
    """An event: the coordinator removed a member from its group.

    Attributes:
        end_offset: log offset of the next record that the coordinator writes after the removal.
        reason: the reason for the removal, as brokers log it.
    """

    at_ms: int
    group_id: str
    member_id: str
    end_offset: int
    reason: str
    trigger: Trigger


Event = BatchWritten | RebalanceStarted | EpochBumped | MemberRemoved

Observer = Callable[[Event], None]


def ignore(_: Event) -> None:
    """Do nothing with an event. This is the observer of a coordinator whose events nobody needs."""


def request_trigger(request: Request) -> Trigger:
    """Return the trigger of an operation that handles a request.

    Args:
        request: the request, with defaults for omitted fields.
    """
    body = request.body
    members = body["members"] or () if request.api == "LeaveGroup" else ()
    named = [body, *members]
    return Trigger(
        TriggerKind.REQUEST,
        request.api,
        request.version,
        body.get("groupId") or "",
        tuple(member["memberId"] for member in named if member.get("memberId")),
        tuple(instance for member in named if (instance := _instance_id(member)) is not None),
        request.client_id,
        request.client_host,
    )


def timer_trigger(key: tuple[str, ...]) -> Trigger:
    """Return the trigger of an operation that a timer started.

    Args:
        key: the timer's name, and the ids of its group and its member if the timer has them.
    """
    name, *rest = key
    return Trigger(TriggerKind.TIMER, name, group_id=rest[0] if rest else "", member_ids=tuple(rest[1:]))


def join_reason(request: Request) -> str:
    """Return the reason that a JoinGroup request gives, as brokers log it."""
    return request.body["reason"] or NO_REASON


def leave_reason(member: Mapping[str, Any]) -> str:
    """Return the reason that a LeaveGroup request gives for a member, as brokers log it."""
    reason = member.get("reason")
    return NO_REASON if reason is None else reason


def _instance_id(member: Mapping[str, Any]) -> str | None:
    return member.get("groupInstanceId") or member.get("instanceId")
