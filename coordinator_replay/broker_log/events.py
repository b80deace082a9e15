"""What lines of the group coordinator say, in the wordings of Kafka 2.x and 3.x (Scala) and of Kafka 3.9 to 4.3 (Java).

Scala: ``kafka.coordinator.group.GroupCoordinator`` and ``GroupMetadataManager``. Java:
``org.apache.kafka.coordinator.group.GroupMetadataManager`` and ``GroupCoordinatorShard``, and ``CoordinatorRuntime``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from coordinator_replay.broker_log.layouts import LogLine

MARKS = (b"[GroupCoordinator ", b"[GroupMetadataManager ", b'"coordinatorId"')
"""A line that has none of these is none of a group coordinator."""

_MOST_MATCHED = 4096
"""How much of a message is looked at and kept: behind that stand whole assignments."""

_MOST_INT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEvent:
    """What a line of a group coordinator says.

    Attributes:
        event: its kind, one of ``EVENTS``.
        broker: id of the broker; None where the line does not have it.
        log_partition: partition of ``__consumer_offsets``; None where the line does not have it.
        epoch: generation, group epoch or leader epoch that the line names: ``PREPARING_REBALANCE`` has the old one.
        member_count: members of the group.
        reason: the coordinator's.
        client_reason: what the client gave as its own (KIP-800); whatever the client likes.
        duration_ms: of loading, or of writing tombstones.
        text: the message, at most 4,096 characters.
    """

    event: str
    text: str
    broker: int | None = None
    log_partition: int | None = None
    group_id: str | None = None
    epoch: int | None = None
    member_id: str | None = None
    instance_id: str | None = None
    member_count: int | None = None
    reason: str | None = None
    client_reason: str | None = None
    duration_ms: int | None = None

    def row(self) -> dict[str, Any]:
        """Its columns of table ``broker_log``."""
        return {name: getattr(self, name) for name in _COLUMNS}


_COLUMNS = tuple(one.name for one in fields(BrokerEvent))

_HEAD = re.compile(
    r"\[Group(?:Coordinator (?:id=)?|MetadataManager brokerId=)(?P<broker>\d+)"
    r"(?: topic=__consumer_offsets partition=(?P<log_partition>\d+))?\]:? ?"
)
_GROUP = r"\[Group(?:Id)?[ =](?P<group_id>.+?)\](?:\[MemberId (?P<member_id>\S+)\])? "
_LOG = r"(?:__consumer_offsets-|partition )(?P<log_partition>\d+)"
_PLACE = rf"(?: \({_LOG}\))?"
_CLIENT = r"(?:; client reason: (?P<client_reason>.*))?"
_LEFT = r"has left group (?:(?P<group_id>.+?) )?through explicit `LeaveGroup`(?: request)?"

_WORDINGS: tuple[tuple[str, str], ...] = (
    (
        "PREPARING_REBALANCE",
        rf"Preparing to rebalance group (?P<group_id>.+?) in state \w+ with old generation (?P<epoch>-?\d+){_PLACE} "
        r"\(reason: (?P<reason>.*)\)\.?$",
    ),
    (
        "STABILIZED",
        rf"Stabilized group (?P<group_id>.+?) generation (?P<epoch>\d+){_PLACE} with (?P<member_count>\d+) members",
    ),
    (
        "ASSIGNMENT_RECEIVED",
        r"Assignment received from leader (?:(?P<member_id>\S+) )?for group (?P<group_id>.+?) for generation "
        r"(?P<epoch>\d+)\.?(?: The group has (?P<member_count>\d+) members)?",
    ),
    ("GROUP_EMPTY", rf"Group (?P<group_id>.+?) with generation (?P<epoch>\d+) is now empty{_PLACE}"),
    ("GROUP_DEAD", r"Group (?P<group_id>.+?) transitioned to Dead in generation (?P<epoch>\d+)"),
    ("NO_MEMBER_REJOINED", r"Group (?P<group_id>.+?) could not complete rebalance because no members rejoined"),
    ("JOIN_EXPIRED", r"Group (?P<group_id>.+?) removed dynamic members who haven't joined: (?P<reason>.*)"),
    ("SYNC_EXPIRED", r"Group (?P<group_id>.+?) removed members who haven't sent their sync requests?: (?P<reason>.*)"),
    ("SESSION_EXPIRED", r"Member (?P<member_id>\S+) in group (?P<group_id>.+?) has failed, removing it from the group"),
    (
        "PENDING_MEMBER_EXPIRED",
        r"Pending member (?P<member_id>\S+) in group (?P<group_id>.+?) has been removed after session timeout",
    ),
    (
        "MEMBER_LEFT",
        r"Member\[group\.instance\.id (?P<instance_id>.+?), member\.id (?P<member_id>\S+)\] in group (?P<group_id>.+?) "
        r"has left, removing it from the group",
    ),
    (
        "MEMBER_LEFT",
        r"Member MemberMetadata\(memberId=(?P<member_id>[^,]+), groupInstanceId=(?P<instance_id>.+?), clientId=.* "
        rf"{_LEFT}{_CLIENT}$",
    ),
    (
        "MEMBER_LEFT",
        r"(?:\[Group(?:Id)? (?P<in_group>.+?)\] )?(?:Static |Dynamic |Pending )?[Mm]ember (?P<member_id>\S+) "
        rf"(?:with instance id (?P<instance_id>.+?) )?{_LEFT}{_CLIENT}$",
    ),
    (
        "MEMBER_LEFT_TEMPORARILY",
        rf"{_GROUP}Static [Mm]ember (?P<member>\S+) with instance id (?P<instance_id>.+?) temporarily left the ",
    ),
    (
        "MEMBER_LEFT",
        rf"{_GROUP}(?:Static )?[Mm]ember (?P<member>\S+) (?:with instance id (?P<instance_id>.+?) )?left the ",
    ),
    (
        "MEMBER_REPLACED",
        r"Static member with groupInstanceId=(?P<instance_id>.+?) and unknown member id (?:joins|rejoins) group "
        r"(?P<group_id>.+?) in \w+ state\. Replacing previously mapped member (?P<member_id>\S+)",
    ),
    (
        "MEMBER_REPLACED",
        rf"{_GROUP}Static member with instance id (?P<instance_id>.+?) re-joins the .*? using the \w+ protocol\. "
        r"Created a new member \S+ to replace the existing member (?P<member>\S+?)\.$",
    ),
    (
        "MEMBER_JOINED",
        r"Static member with groupInstanceId=(?P<instance_id>.+?) and unknown member id joins group (?P<group_id>.+?) "
        r"in \w+ state\. Created a new member id (?P<member_id>\S+)",
    ),
    (
        "MEMBER_ID_ASSIGNED",
        r"Dynamic member with unknown member id joins group (?P<group_id>.+?) in \w+ state\. Created a new member id "
        r"(?P<member_id>\S+) and request",
    ),
    (
        "MEMBER_ID_ASSIGNED",
        rf"{_GROUP}Dynamic member with unknown member id joins the .*? group\. "
        r"Created a new member id (?P<member>\S+) ",
    ),
    (
        "MEMBER_JOINED",
        r"Dynamic member with unknown member id joins group (?P<group_id>.+?) in (?:\w+ state|state \w+)\. "
        r"Created a new member id (?P<member_id>\S+) and add",
    ),
    (
        "MEMBER_JOINED",
        r"Pending dynamic member with id (?P<member_id>\S+) joins group (?P<group_id>.+?) in \w+ state\. Adding",
    ),
    (
        "MEMBER_JOINED",
        rf"{_GROUP}(?:Static m|M)ember (?:(?P<member>\S+) )?(?:with instance id (?P<instance_id>.+?) )?joins the ",
    ),
    (
        "MEMBER_FENCED",
        rf"{_GROUP}(?:Streams m|M)ember (?P<member>\S+) fenced from the group because (?P<reason>.*?)\.?$",
    ),
    (
        "INSTANCE_ID_FENCED",
        rf"{_GROUP}Static member (?P<member>\S+) with instance id (?P<instance_id>.+?) is fenced by existing member ",
    ),
    (
        "INSTANCE_ID_FENCED",
        rf"(?:{_GROUP})?Request memberId=(?P<member>\S+) for static member with groupInstanceId=(?P<instance_id>.+?) "
        r"is fenced by (?:current|existing) memberId=",
    ),
    (
        "INSTANCE_ID_UNRELEASED",
        rf"{_GROUP}Static member (?P<member>\S+) with instance id (?P<instance_id>.+?) cannot join the group because "
        r"the instance id is (?:is )?owned by member ",
    ),
    ("EPOCH_BUMPED", rf"{_GROUP}Bumped (?:streams )?group epoch to (?P<epoch>\d+)"),
    ("TARGET_COMPUTED", rf"{_GROUP}Computed a new target assignment for epoch (?P<epoch>\d+) "),
    (
        "MEMBER_STATE_CHANGED",
        rf"{_GROUP}Member(?:'s)?(?: (?P<member>\S+))? new assignment state: epoch=(?P<epoch>-?\d+), "
        r"previousEpoch=-?\d+, state=(?P<reason>\w+)",
    ),
    (
        "SUBSCRIPTION_CHANGED",
        rf"{_GROUP}Member (?P<member>\S+) updated its subscribed (?:topics|regex) to: (?P<reason>.*)",
    ),
    (
        "GROUP_CONVERTED",
        rf"{_GROUP}Converted the (?P<reason>(?:empty )?\w+ group to a \w+ group)",
    ),
    (
        "GROUP_CONVERSION_REFUSED",
        r"Cannot (?:(?:up|down)grade (?:classic|consumer)|join the consumer) group (?P<group_id>.+?) "
        r"(?:to (?:classic|consumer) group|with the classic protocol)(?: because|:) (?P<reason>.*?)\.?$",
    ),
    ("GROUP_CREATED", rf"{_GROUP}Creating a simple consumer group via manual offset commit"),
    (
        "TRANSACTIONAL_COMMIT_SKIPPED",
        r"Skipped the materialization of transactional offset commit .* in group (?P<group_id>.+?) with "
        r"(?P<reason>topic .*?, partition \d+ since its record offset .*?)\.?$",
    ),
    (
        "COMMITS_MIXED",
        r"group: (?P<group_id>.+?) with leader: (?P<member_id>\S*) has received offset commits from consumers as well "
        r"as transactional producers",
    ),
    (
        "OFFSETS_DELETED",
        r"The following offsets of the group (?P<group_id>.+?) were deleted: (?P<reason>.*?)\. A total of \d+ offsets "
        r"were removed",
    ),
    ("GROUPS_DELETED", r"The following groups were deleted: (?P<reason>.*?)\. A total of \d+ offsets were removed"),
    (
        "TOMBSTONES_WRITTEN",
        r"Generated \d+ (?:tombstone )?records (?:while cleaning up group metadata )?in (?P<duration_ms>\d+) "
        r"milliseconds(?: while (?P<reason>.*?))?\.?$",
    ),
    ("TOMBSTONES_WRITTEN", r"Removed \d+ (?:expired )?offsets in (?P<duration_ms>\d+) milliseconds"),
    ("TOMBSTONES_WRITTEN", r"Removed \d+ offsets (?P<reason>associated with deleted partitions: .*?)\.?$"),
    (
        "WRITE_FAILED",
        rf"(?:Failed to write|Writing) (?:a batch of \d+ record\(s\)|records|the transaction marker) to {_LOG} "
        r"(?P<reason>.*?)\.?$",
    ),
    ("COORDINATOR_ELECTED", rf"Elected as the group coordinator for {_LOG}(?: in epoch (?P<epoch>\d+))?"),
    (
        "COORDINATOR_RESIGNED",
        rf"Resigned as the group coordinator for {_LOG}(?: in epoch (?:OptionalInt\[|Some\()?(?P<epoch>\d+))?",
    ),
    (
        "LOADING_SCHEDULED",
        rf"Scheduling loading of (?:offsets and group )?metadata from {_LOG}(?: (?:for|with) epoch (?P<epoch>\d+))?",
    ),
    (
        "LOADING_FINISHED",
        rf"Finished loading of metadata from {_LOG} with epoch (?P<epoch>\d+) in (?P<duration_ms>\d+)ms",
    ),
    (
        "LOADING_FINISHED",
        rf"Finished loading offsets and group metadata from {_LOG} in (?P<duration_ms>\d+) milliseconds"
        r"(?: for epoch (?P<epoch>\d+))?",
    ),
    ("LOADING_FAILED", rf"Failed to load metadata from {_LOG} with epoch (?P<epoch>\d+) due to (?P<reason>.*?)\.?$"),
    ("LOADING_FAILED", rf"Error loading offsets from {_LOG}"),
    (
        "UNLOADING_SCHEDULED",
        rf"Scheduling unloading of (?:offsets and group )?metadata (?:for|from) {_LOG}"
        r"(?: with epoch OptionalInt\[(?P<epoch>\d+))?",
    ),
    (
        "UNLOADING_FINISHED",
        rf"Finished unloading (?:metadata for )?{_LOG}(?: (?:with|for coordinator) epoch OptionalInt\[(?P<epoch>\d+))?",
    ),
    (
        "GROUP_LOADED",
        r"Loaded (?:classic|consumer|share|streams) group (?P<group_id>.+?) with (?P<member_count>\d+) members",
    ),
    ("GROUP_LOADED", r"Loading group metadata for (?P<group_id>.+?) with generation (?P<epoch>\d+)"),
    (
        "GROUP_UNLOADED",
        rf"{_GROUP}Unload(?:ed|ing) group metadata for (?:generation|group epoch) (?P<epoch>\d+)",
    ),
    ("GROUP_UNLOADED", r"Unloading group metadata for (?P<group_id>.+?) with generation (?P<epoch>\d+)"),
)
_PATTERNS = tuple((event, re.compile(wording)) for event, wording in _WORDINGS)

MANAGED_EVENT = "REBALANCE_LOGGED"
"""A line of the rebalancing log of a managed service in no wording of Kafka's: its ``type`` stands in the text."""

EVENTS = frozenset(event for event, _ in _WORDINGS) | {MANAGED_EVENT}
"""All kinds of events."""

_REASONS = re.compile(r"(?P<reason>.*?); client reason: (?P<client_reason>.*)$")
_TEXTS = ("group_id", "instance_id", "reason", "client_reason")
_NUMBERS = ("epoch", "member_count", "duration_ms", "log_partition")
_ABSENT = ("null", "None", "")


def read_event(line: LogLine) -> BrokerEvent | None:
    """What a line says of groups or of a partition of ``__consumer_offsets``.

    Returns:
        None for lines of others, and for what coordinators say of nothing but themselves.
    """
    if line.fields is not None:
        return _managed(line.fields, line.message[:_MOST_MATCHED])
    head = _HEAD.match(line.message)
    if head is None:
        return None
    text = line.message[:_MOST_MATCHED]
    worded = _worded(text, head.end())
    return None if worded is None else _event(worded[0], text, {**_numbers(head.groupdict()), **worded[1]})


def _worded(text: str, start: int) -> tuple[str, dict[str, Any]] | None:
    """The event that a text is the wording of, and the fields that it has."""
    for event, pattern in _PATTERNS:
        match = pattern.match(text, start)
        if match is not None:
            return event, _fields(match.groupdict())
    return None


def _event(event: str, text: str, fields: Mapping[str, Any]) -> BrokerEvent:
    one = BrokerEvent(event=event, text=text, **fields)
    reasons = None if event != "PREPARING_REBALANCE" else _REASONS.match(one.reason or "")
    return one if reasons is None else replace(one, reason=reasons["reason"], client_reason=reasons["client_reason"])


def _numbers(fields: Mapping[str, str | None]) -> dict[str, int]:
    """The numbers among groups of a match, without those that no field of Kafka can hold."""
    return {
        name: number
        for name in ("broker", *_NUMBERS)
        if (written := fields.get(name)) is not None and len(written) <= 11 and abs(number := int(written)) <= _MOST_INT
    }


def _fields(fields: Mapping[str, str | None]) -> dict[str, Any]:
    member = fields.get("member_id") or fields.get("member")
    group = fields.get("group_id") or fields.get("in_group")
    texts = {name: fields.get(name) for name in _TEXTS} | {"member_id": member, "group_id": group}
    instance = texts["instance_id"]
    if instance is not None and instance.startswith("Some("):
        # Scala's Option.
        texts["instance_id"] = instance.removeprefix("Some(").removesuffix(")")
    return {
        **_numbers(fields),
        **{name: value for name, value in texts.items() if value is not None and value not in _ABSENT},
    }


def _managed(fields: Mapping[str, Any], text: str) -> BrokerEvent | None:
    """A line of the rebalancing log of a managed service; its reason is often a message of the broker."""
    group, reason = fields.get("groupId"), fields.get("reason")
    if not isinstance(group, str) or "coordinatorId" not in fields:
        return None
    numbers = {
        name: written
        for name, key in (("epoch", "generationId"), ("broker", "coordinatorId"))
        if re.fullmatch("-?[0-9]{1,10}", written := str(fields.get(key)))
    }
    columns: dict[str, Any] = {"group_id": group, **_numbers(numbers)}
    if not isinstance(reason, str):
        return BrokerEvent(event=MANAGED_EVENT, text=text, **columns)
    worded = _worded(reason[:_MOST_MATCHED], 0)
    if worded is None:
        return BrokerEvent(event=MANAGED_EVENT, text=text, reason=reason[:_MOST_MATCHED], **columns)
    event, named = worded
    return _event(event, text, {**columns, **named, "group_id": group})
