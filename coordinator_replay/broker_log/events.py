"""Reading of events from log lines of the group coordinator. ``schemas/broker_log`` has the wordings of these lines."""

import re
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, NamedTuple

from coordinator_replay.broker_log.layouts import LogLine
from coordinator_replay.schemas_folder import schemas_folder

MARKS = (b"[GroupCoordinator ", b"[GroupMetadataManager ", b'"coordinatorId"')
"""Texts by which lines of a group coordinator are recognized: each such line contains one of these texts."""

_MOST_MATCHED = 4096
"""Number of characters of a message that are read and kept. Only messages with whole assignments are longer."""

_MOST_INT = 2**31 - 1


class BrokerEvent(NamedTuple):
    """An event that a line in the log of a group coordinator reports. The fields are columns of table ``broker_log``.

    Attributes:
        event: kind of the event, one of ``EVENTS``.
        broker: id of the broker; None if the line does not have it.
        log_partition: partition of ``__consumer_offsets``; None if the line does not have it.
        epoch: generation, group epoch or leader epoch in the line; for ``PREPARING_REBALANCE`` the generation before
            the rebalance.
        member_count: number of members of the group.
        reason: the reason that the coordinator gave for the event.
        client_reason: the reason that the client gave (KIP-800), which may be any text.
        duration_ms: how long the coordinator took to load a log partition, or to write tombstones.
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


_HEAD = re.compile(
    r"\[Group(?:Coordinator (?:id=)?|MetadataManager brokerId=)(?P<broker>\d+)"
    r"(?: topic=__consumer_offsets partition=(?P<log_partition>\d+))?\]:? ?"
)
_LOG = r"(?:__consumer_offsets-|partition )(?P<log_partition>\d+)"
_PARTS = {
    "{group}": r"\[Group(?:Id)?[ =](?P<group_id>.+?)\](?:\[MemberId (?P<member_id>\S+)\])? ",
    "{log}": _LOG,
    "{place}": rf"(?: \({_LOG}\))?",
    "{client}": r"(?:; client reason: (?P<client_reason>.*))?",
    "{left}": r"has left group (?:(?P<group_id>.+?) )?through explicit `LeaveGroup`(?: request)?",
}


def _patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the event and the pattern of each wording in ``schemas/broker_log/wordings.txt``.

    A wording is a regular expression for one message of a broker. The order is the order of the file.
    """
    event = ""
    for line in (schemas_folder() / "broker_log" / "wordings.txt").read_text("utf-8").splitlines():
        if line.startswith(" "):
            yield event, re.compile(reduce(lambda text, part: text.replace(*part), _PARTS.items(), line.strip()))
        elif not line.startswith("#"):
            event = line


_PATTERNS = tuple(_patterns())

MANAGED_EVENT = "REBALANCE_LOGGED"
"""Event of a line in a managed service's rebalancing log, if the line's reason is not worded as in Kafka. The text has
the line's ``type``."""

EVENTS = frozenset(event for event, _ in _PATTERNS) | {MANAGED_EVENT}
"""All kinds of events."""

_REASONS = re.compile(r"(?P<reason>.*?); client reason: (?P<client_reason>.*)$")
_TEXTS = ("group_id", "instance_id", "reason", "client_reason")
_NUMBERS = ("epoch", "member_count", "duration_ms", "log_partition")
_ABSENT = ("null", "None", "")


def read_event(line: LogLine) -> BrokerEvent | None:
    """Return the event of a line about groups or a partition of ``__consumer_offsets``.

    Return None for lines that the coordinator did not write, and for lines that match no wording.
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
    """Return the event of a message, and the event's fields.

    If several wordings match, the first in the order of ``_PATTERNS`` counts. Return None if no wording matches.

    Args:
        text: a text with the message.
        start: index of the message's first character.
    """
    for event, pattern in _PATTERNS:
        match = pattern.match(text, start)
        if match is not None:
            return event, _fields(match.groupdict())
    return None


def _event(event: str, text: str, fields: Mapping[str, Any]) -> BrokerEvent:
    read = BrokerEvent(event=event, text=text, **fields)
    reasons = None if event != "PREPARING_REBALANCE" else _REASONS.match(read.reason or "")
    return read if reasons is None else read._replace(reason=reasons["reason"], client_reason=reasons["client_reason"])


def _numbers(fields: Mapping[str, str | None]) -> dict[str, int]:
    """Return the fields of a match that are numbers.

    Leave out numbers that don't fit into 32 bits: no such field of Kafka is larger.
    """
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
    """Return the event of a line in the rebalancing log of a managed service.

    A line has a reason, which is often the message of a broker. The event is then the event of this message. Return
    None if the line has no group or no coordinator.

    Args:
        fields: the line's JSON object.
        text: the line's message.
    """
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
