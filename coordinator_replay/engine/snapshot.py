"""State of a replay as plain data, and back: dicts, lists, strings, numbers, nothing else.

The version rises with every change of this form. A snapshot of another version is refused, never guessed at.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

from coordinator_replay.engine.classic_group import ClassicGroup
from coordinator_replay.engine.consumer_group import ConsumerGroup, Regex, TopicMetadata
from coordinator_replay.engine.model import (
    Assignment,
    Current,
    GroupState,
    GroupType,
    Member,
    MemberState,
    Protocol,
    Subscription,
    Target,
)
from coordinator_replay.engine.notes import Group
from coordinator_replay.engine.offsets import CommittedOffset, Offsets
from coordinator_replay.engine.operation import Header, Operation, Touch
from coordinator_replay.engine.reconciliation import Reconciliation
from coordinator_replay.engine.share_group import ShareGroup
from coordinator_replay.engine.streams_group import StreamsGroup, Topology
from coordinator_replay.errors import SnapshotError

VERSION = 2


@contextmanager
def reading(snapshot: Mapping[str, Any]) -> Iterator[None]:
    """Check the version, and turn what is wrong inside into one error.

    Raises:
        SnapshotError: the version is not ours, or a part is missing or of another form.
    """
    version = snapshot.get("version") if isinstance(snapshot, Mapping) else None
    if version != VERSION:
        raise SnapshotError(
            f"engine snapshot has version {version!r}, this release reads {VERSION}: "
            "audit again from the beginning of the log"
        )
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise SnapshotError(f"engine snapshot of version {VERSION} is damaged: {cause!r}") from cause


def _assignment(plain: Mapping[str, Any] | None) -> Assignment | None:
    if plain is None:
        return None
    return {topic: tuple(partitions) for topic, partitions in plain.items()}


def _plain_assignment(assignment: Assignment | None) -> dict[str, list[int]] | None:
    if assignment is None:
        return None
    return {topic: list(partitions) for topic, partitions in assignment.items()}


def _known(plain: Mapping[str, Any] | None) -> Assignment:
    return _assignment(plain) or {}


_CURRENT_ASSIGNMENTS = (
    "pending",
    "assigned_epochs",
    "pending_epochs",
    "standby",
    "warmup",
    "standby_pending",
    "warmup_pending",
)
_current_assignments = attrgetter(*_CURRENT_ASSIGNMENTS)


def _current_to_plain(current: Current | None) -> dict[str, Any] | None:
    if current is None:
        return None
    plain: dict[str, Any] = {
        "epoch": current.epoch,
        "previous_epoch": current.previous_epoch,
        "state": current.state,
        "assigned": _plain_assignment(current.assigned),
        "missing": current.missing,
    }
    for name, assignment in zip(_CURRENT_ASSIGNMENTS, _current_assignments(current), strict=True):
        if assignment:
            plain[name] = _plain_assignment(assignment)
    if current.assignment_bytes:
        plain["assignment_bytes"] = current.assignment_bytes
    if current.draft is not None:
        plain["draft"] = dict(current.draft)
    return plain


def _current_from_plain(plain: Mapping[str, Any] | None) -> Current | None:
    if plain is None:
        return None
    return Current(
        plain["epoch"],
        plain["previous_epoch"],
        MemberState(plain["state"]) if plain["state"] is not None else None,
        _assignment(plain["assigned"]),
        assignment_bytes=plain.get("assignment_bytes", ""),
        draft=plain.get("draft"),
        missing=plain["missing"],
        **{name: _known(plain.get(name)) for name in _CURRENT_ASSIGNMENTS},
    )


def _target_to_plain(target: Target | None) -> dict[str, Any] | None:
    if target is None:
        return None
    plain: dict[str, Any] = {"assigned": _plain_assignment(target.assigned), "missing": target.missing}
    for name in ("standby", "warmup"):
        if getattr(target, name):
            plain[name] = _plain_assignment(getattr(target, name))
    if target.draft is not None:
        plain["draft"] = dict(target.draft)
    return plain


def _target_from_plain(plain: Mapping[str, Any] | None) -> Target | None:
    if plain is None:
        return None
    return Target(
        _known(plain["assigned"]),
        _known(plain.get("standby")),
        _known(plain.get("warmup")),
        plain.get("draft"),
        plain["missing"],
    )


_DEFAULT_SUBSCRIPTION = Subscription()


def _subscription_to_plain(subscription: Subscription | None) -> dict[str, Any] | None:
    if subscription is None:
        return None
    plain: dict[str, Any] = {}
    values: tuple[Any, ...] = subscription
    for name, value, usual in zip(Subscription._fields, values, _DEFAULT_SUBSCRIPTION, strict=True):
        if value == usual:
            continue
        if name == "protocols":
            value = [[protocol.name, protocol.metadata, protocol.fields] for protocol in value]
        elif name == "client_tags":
            value = [list(tag) for tag in value]
        elif isinstance(value, tuple):
            value = list(value)
        plain[name] = value
    return plain


def _subscription_from_plain(plain: Mapping[str, Any] | None) -> Subscription | None:
    if plain is None:
        return None
    values = dict(plain)
    if "topics" in values:
        values["topics"] = tuple(values["topics"])
    if "protocols" in values:
        values["protocols"] = tuple(Protocol(*protocol) for protocol in values["protocols"])
    if "user_endpoint" in values:
        values["user_endpoint"] = tuple(values["user_endpoint"])
    if "client_tags" in values:
        values["client_tags"] = tuple(tuple(tag) for tag in values["client_tags"])
    return Subscription(**values)


def member_to_plain(member: Member | None) -> dict[str, Any] | None:
    """A member as plain data."""
    if member is None:
        return None
    return {
        "member_id": member.member_id,
        "subscription": _subscription_to_plain(member.subscription),
        "current": _current_to_plain(member.current),
        "target": _target_to_plain(member.target),
    }


def member_from_plain(plain: Mapping[str, Any] | None) -> Member | None:
    """A member from plain data."""
    if plain is None:
        return None
    return Member(
        plain["member_id"],
        _subscription_from_plain(plain["subscription"]),
        _current_from_plain(plain["current"]),
        _target_from_plain(plain["target"]),
    )


def _members(plain: list[Mapping[str, Any]]) -> dict[str, Member]:
    members = (member_from_plain(entry) for entry in plain)
    return {member.member_id: member for member in members if member is not None}


def group_to_plain(group: Group | None) -> dict[str, Any] | None:
    """A group of any type as plain data."""
    if group is None:
        return None
    if isinstance(group, ClassicGroup):
        return {
            "group_type": GroupType.CLASSIC,
            "members": [member_to_plain(member) for member in group.members.values()],
            **dict(zip(_CLASSIC_FIELDS, _classic_values(group), strict=True)),
        }
    plain = {"group_type": group.group_type, **_reconciliation_to_plain(group.reconciliation)}
    if isinstance(group, ConsumerGroup):
        plain["regexes"] = {expression: _regex_to_plain(regex) for expression, regex in group.regexes.items()}
        plain["topic_metadata"] = _topic_metadata_to_plain(group.topic_metadata)
    elif isinstance(group, StreamsGroup):
        plain["topology"] = _topology_to_plain(group.topology)
        plain["validated_topology_epoch"] = group.validated_topology_epoch
        plain["assignment_configs"] = [list(config) for config in group.assignment_configs]
    return plain


_CLASSIC_FIELDS = (
    "generation",
    "is_simple",
    "leader",
    "missing",
    "protocol",
    "protocol_type",
    "state",
    "state_timestamp_ms",
    "static_members",
    "votes",
)
_classic_values = attrgetter(*_CLASSIC_FIELDS)


def group_from_plain(plain: Mapping[str, Any] | None, group_id: str) -> Group | None:
    """A group of any type from plain data."""
    if plain is None:
        return None
    match GroupType(plain["group_type"]):
        case GroupType.CLASSIC:
            classic = ClassicGroup(group_id)
            for name in _CLASSIC_FIELDS:
                value = plain[name]
                setattr(classic, name, dict(value) if isinstance(value, Mapping) else value)
            classic.state = GroupState(plain["state"])
            classic.members = _members(plain["members"])
            return classic
        case GroupType.CONSUMER:
            consumer = ConsumerGroup(group_id)
            consumer.reconciliation = _reconciliation_from_plain(plain)
            consumer.regexes = {expression: _regex_from_plain(regex) for expression, regex in plain["regexes"].items()}
            consumer.topic_metadata = _topic_metadata_from_plain(plain["topic_metadata"])
            for member in consumer.members.values():
                assignor = member.subscription.assignor if member.subscription is not None else None
                if assignor is not None:
                    consumer.assignors[assignor] = consumer.assignors.get(assignor, 0) + 1
            return consumer
        case GroupType.SHARE:
            share = ShareGroup(group_id)
            share.reconciliation = _reconciliation_from_plain(plain)
            return share
        case GroupType.STREAMS:
            streams = StreamsGroup(group_id)
            streams.reconciliation = _reconciliation_from_plain(plain)
            streams.topology = _topology_from_plain(plain["topology"])
            streams.validated_topology_epoch = plain["validated_topology_epoch"]
            streams.assignment_configs = tuple((key, value) for key, value in plain["assignment_configs"])
            return streams


_RECONCILIATION_FIELDS = (
    "assignment_epoch",
    "assignment_missing",
    "assignment_timestamp_ms",
    "birth_missing",
    "epoch",
    "epoch_missing",
    "is_rebalancing",
    "metadata_hash",
)
_reconciliation_values = attrgetter(*_RECONCILIATION_FIELDS)


def _reconciliation_to_plain(state: Reconciliation) -> dict[str, Any]:
    return {
        "members": [member_to_plain(member) for member in state.members.values()],
        "orphan_targets": {
            member_id: _target_to_plain(target)
            for member_id, target in state.targets.items()
            if member_id not in state.members
        },
        "owners": [[topic, partition, owner] for (topic, partition), owner in state.owners.items()],
        "target_owners": [[topic, partition, owner] for (topic, partition), owner in state.target_owners.items()],
        **dict(zip(_RECONCILIATION_FIELDS, _reconciliation_values(state), strict=True)),
    }


def _reconciliation_from_plain(plain: Mapping[str, Any]) -> Reconciliation:
    state = Reconciliation()
    for name in _RECONCILIATION_FIELDS:
        setattr(state, name, plain[name])
    for member in _members(plain["members"]).values():
        state.put(member)
        if member.target is not None:
            state.targets[member.member_id] = member.target
    for member_id, orphan in plain["orphan_targets"].items():
        target = _target_from_plain(orphan)
        if target is not None:
            state.targets[member_id] = target
    state.owners = {(topic, partition): owner for topic, partition, owner in plain["owners"]}
    state.target_owners = {(topic, partition): owner for topic, partition, owner in plain["target_owners"]}
    return state


def _regex_to_plain(regex: Regex | None) -> list[Any] | None:
    return [list(regex.topics), regex.version, regex.timestamp_ms] if regex is not None else None


def _regex_from_plain(plain: list[Any]) -> Regex:
    topics, version, timestamp_ms = plain
    return Regex(tuple(topics), version, timestamp_ms)


def _topic_metadata_to_plain(topics: tuple[TopicMetadata, ...] | None) -> list[list[Any]] | None:
    return [[topic.topic_id, topic.name, topic.partitions] for topic in topics] if topics is not None else None


def _topic_metadata_from_plain(plain: list[list[Any]] | None) -> tuple[TopicMetadata, ...] | None:
    return tuple(TopicMetadata(*topic) for topic in plain) if plain is not None else None


def _topology_to_plain(topology: Topology | None) -> list[Any] | None:
    if topology is None:
        return None
    return [topology.epoch, {key: list(topics) for key, topics in topology.source_topics.items()}]


def _topology_from_plain(plain: list[Any] | None) -> Topology | None:
    if plain is None:
        return None
    epoch, topics = plain
    return Topology(epoch, {key: tuple(names) for key, names in topics.items()})


def offsets_to_plain(offsets: Offsets) -> dict[str, Any]:
    """Stored and pending offsets as plain data."""
    return {
        "stored": [_committed_to_plain(offset) for offset in offsets.stored.values()],
        "pending": [_committed_to_plain(offset) for mine in offsets.pending.values() for offset in mine.values()],
    }


def offsets_from_plain(plain: Mapping[str, Any]) -> Offsets:
    """Stored and pending offsets from plain data."""
    offsets = Offsets()
    for entry in plain["stored"]:
        offset = CommittedOffset(*entry)
        offsets.stored[offset.topic, offset.partition] = offset
    for entry in plain["pending"]:
        offset = CommittedOffset(*entry)
        offsets.pending.setdefault(offset.producer_id, {})[offset.topic, offset.partition] = offset
    return offsets


def _committed_to_plain(offset: CommittedOffset) -> list[Any]:
    return [getattr(offset, name) for name in CommittedOffset.__slots__]


def operation_to_plain(operation: Operation | None) -> dict[str, Any] | None:
    """An operation that is still open, as plain data."""
    if operation is None:
        return None
    before = operation.before
    return {
        **dict(zip(_OPERATION_FIELDS, _operation_values(operation), strict=True)),
        "before": list(_header_values(before)) if before is not None else None,
        "members": [
            [
                member_id,
                member_to_plain(touch.before),
                touch.last_at,
                _target_to_plain(touch.target_before),
                touch.subscription_at,
                touch.current_at,
                touch.target_at,
            ]
            for member_id, touch in operation.members.items()
        ],
        "at": dict(operation.at),
        "changes": {thing: _thing_to_plain(thing, old) for thing, old in operation.changes.items()},
        "damage": [list(found) for found in operation.damage],
    }


_OPERATION_FIELDS = (
    "partition",
    "timestamp_ms",
    "first_offset",
    "last_offset",
    "phase",
    "is_exact",
    "missing",
    "wrote_subscription",
    "wrote_current",
    "wrote_target",
)
_operation_values = attrgetter(*_OPERATION_FIELDS)
_header_values = attrgetter(*Header.__slots__)


def operation_from_plain(plain: Mapping[str, Any] | None) -> Operation | None:
    """An operation that is still open, from plain data."""
    if plain is None:
        return None
    before = None
    if plain["before"] is not None:
        group_type, state, *rest = plain["before"]
        before = Header(GroupType(group_type), GroupState(state), *rest)
    operation = Operation(before=before, **{name: plain[name] for name in _OPERATION_FIELDS})
    for member_id, known, last_at, target, subscription_at, current_at, target_at in plain["members"]:
        operation.members[member_id] = Touch(
            member_from_plain(known), last_at, _target_from_plain(target), subscription_at, current_at, target_at
        )
    operation.at = dict(plain["at"])
    operation.changes = {thing: _thing_from_plain(thing, old) for thing, old in plain["changes"].items()}
    operation.damage = [(name, detail, offset) for name, detail, offset in plain["damage"]]
    return operation


def _thing_to_plain(thing: str, old: Any) -> Any:
    if thing == "topology":
        return _topology_to_plain(old)
    if thing == "topic_metadata":
        return _topic_metadata_to_plain(old)
    if thing.startswith("regex "):
        return _regex_to_plain(old)
    return old


def _thing_from_plain(thing: str, plain: Any) -> Any:
    if thing == "topology":
        return _topology_from_plain(plain)
    if thing == "topic_metadata":
        return _topic_metadata_from_plain(plain)
    if thing.startswith("regex "):
        return _regex_from_plain(plain) if plain is not None else None
    return plain
