"""Rules over committed offsets: each looks at what the history of one partition, or of a topic, comes to."""

from collections.abc import Callable, Iterator
from typing import Any

from coordinator_replay.analysis.findings.case import Case, Row, usual
from coordinator_replay.analysis.findings.observation import MOST_NAMED, Observation, at, lasting, moment

_FEWEST_COMMITS = 3
"""So many commits tell how often a group commits."""


def commit_stall(case: Case, row: Row) -> Iterator[Observation]:
    """Others of the group went on committing long after this one stopped, and its owner is still there."""
    owner = case.owned.get((row["topic"], row["partition"]))
    last_ms, limits = row["last_at"], case.limits
    if owner is None or not case.is_stable or case.last_commit_ms is None or last_ms is None:
        return
    if owner.at_ms > last_ms or row["commits"] < _FEWEST_COMMITS:
        return
    stalled_ms, usual_ms = case.last_commit_ms - last_ms, usual(row["commits"], row["first_at"], last_ms)
    if stalled_ms < max(limits.stall_ms, limits.patience * usual_ms):
        return
    yield Observation(
        "commit_stall",
        (row["topic"], row["partition"], row["from_offset"]),
        last_ms,
        case.last_commit_ms,
        f"commits of {_name(row)} stopped at {row['committed_offset']} on {moment(last_ms)}, while the group went on "
        f"committing for another {lasting(stalled_ms)}",
        row["log_partition"],
        row["from_offset"],
        {
            "committed_offset": row["committed_offset"],
            "usual_ms": usual_ms,
            "stalled_ms": stalled_ms,
            "owned_from": moment(owner.at_ms),
        },
        topic=row["topic"],
        topic_partition=row["partition"],
        member_id=owner.member_id,
    )


def offset_rewind(case: Case, row: Row) -> Iterator[Observation]:
    """Commits below the one before, while the group had members, or in a group that never had any.

    An Empty group that has had members is left to ``offset_reset``, and so are commits before the first member joined.
    """
    last = row["last"]
    if row["is_empty"] and case.standing is not None and case.standing["members_from"] is not None:
        return
    committer = _committer(row) if row["is_empty"] else None
    words = f"; the group has no members on record: {committer}" if committer else ""
    yield Observation(
        "offset_rewind",
        (row["topic"], row["partition"]),
        row["first_at"],
        last["valid_from"],
        f"committed offset of {_name(row)} rewound from {last['previous_offset']} to {last['committed_offset']} "
        f"{at(last['valid_from'])}{words}",
        row["log_partition"],
        last["from_offset"],
        {
            "previous_offset": last["previous_offset"],
            "committed_offset": last["committed_offset"],
            "furthest_back": row["furthest"],
            "owner_member_id": last["owner_member_id"],
            "group_state": last["group_state"],
            "rebalance_id": case.rebalance_before(last["valid_from"]),
        }
        | ({"committer": committer} if committer else {}),
        occurrences=row["count"],
        topic=row["topic"],
        topic_partition=row["partition"],
        member_id=last["owner_member_id"],
    )


def offset_reset(case: Case, row: Row) -> Iterator[Observation]:
    """Commits into a group without members that has them at other times.

    Two kinds: into a group that is Empty after it has had members, and before the group's first member joined, where
    the log has its beginning. In a group that never had members a commit onward is no different from progress;
    ``offset_rewind`` has those that went back. A tool, a restore and a consumer that uses ``assign()`` leave the same
    records.
    """
    last = row["into_empty"]
    if not last["count"] or last["valid_from"] is None:
        return
    group = case.standing
    if group is None or group["members_from"] is None:
        return
    since, members_from = last["first_at"], group["members_from"]
    if last["valid_from"] >= members_from:
        since, when = max(since, members_from), "while the group was Empty"
    elif group["is_beginning_known"]:
        when = "before the group's first member joined"
    else:
        return
    yield Observation(
        "offset_reset",
        (row["topic"], row["partition"]),
        since,
        last["valid_from"],
        f"committed offset of {_name(row)} was set to {last['committed_offset']} on {moment(last['valid_from'])}, "
        f"{when}",
        row["log_partition"],
        last["from_offset"],
        {"committed_offset": last["committed_offset"], "previous_offset": last["previous_offset"]},
        occurrences=last["count"],
        topic=row["topic"],
        topic_partition=row["partition"],
    )


def _committer(row: Row) -> str:
    """Who may have moved an offset back in a group without members.

    A consumer commits the leader epoch of the last record it read. kafka-consumer-groups and MirrorMaker's checkpoints
    make ``OffsetAndMetadata`` of an offset alone, and so do clients that commit an offset of their choice.
    """
    last = row["last"]
    if last.get("is_transactional"):
        return "a transactional producer"
    if last.get("leader_epoch") is not None:
        return "a consumer that uses assign(); the commit has a leader epoch, kafka-consumer-groups writes none"
    if row["with_leader_epoch"]:
        return (
            "kafka-consumer-groups, another tool, or a client that committed an offset of its choice; the commit has "
            "no leader epoch, others of the partition have one"
        )
    return "a tool, a restore or a consumer that uses assign(), the log can't tell which"


def _name(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


PARTITION_RULES: tuple[Callable[[Case, Row], Iterator[Observation]], ...] = (commit_stall, offset_reset)
"""Rules over one partition."""


class Topic:
    """What the partitions of one topic come to."""

    __slots__ = ("first_ms", "held", "last_ms", "last_offset", "log_partition", "metadata_bytes", "name")

    def __init__(self, row: Row) -> None:
        self.name: str = row["topic"]
        self.log_partition: int = row["log_partition"]
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.last_offset: int = row["from_offset"]
        self.held = 0
        self.metadata_bytes = 0

    def count(self, row: Row) -> None:
        """Take one more partition."""
        self.held += bool(row["is_held"])
        self.metadata_bytes = max(self.metadata_bytes, row["metadata_bytes"] or 0)
        first_ms, last_ms = row["first_at"], row["last_at"]
        if first_ms is not None and (self.first_ms is None or first_ms < self.first_ms):
            self.first_ms = first_ms
        if last_ms is not None and (self.last_ms is None or last_ms > self.last_ms):
            self.last_ms, self.last_offset = last_ms, row["from_offset"]


def abandoned_topic(case: Case, topic: Topic) -> Iterator[Observation]:
    """Members that subscribe to other topics, and offsets that nobody has committed for long."""
    group = case.standing
    if group is None or not case.is_stable or not topic.held or topic.last_ms is None:
        return
    # Where no member's topics are known (Kafka Connect, a client's own protocol), nothing can be said.
    if (
        not group["subscribed"]
        or topic.name in group["subscribed"]
        or any(name == topic.name for name, _ in case.owned)
    ):
        return
    if case.end_ms - topic.last_ms < case.limits.abandoned_ms:
        return
    yield Observation(
        "abandoned_topic",
        (topic.name,),
        topic.last_ms,
        case.end_ms,
        f"no member subscribes to {topic.name}; the group has {topic.held} committed offsets of it, the last of "
        f"{moment(topic.last_ms)}",
        topic.log_partition,
        topic.last_offset,
        {"offsets": topic.held, "subscribed_topics": group["subscribed"][:MOST_NAMED]},
        occurrences=topic.held,
        topic=topic.name,
    )


def oversized_metadata(case: Case, topic: Topic) -> Iterator[Observation]:
    """The longest text beside a commit of the topic."""
    if topic.metadata_bytes >= case.limits.metadata_bytes:
        yield Observation(
            "oversized_metadata",
            (topic.name,),
            topic.first_ms,
            topic.last_ms,
            f"commit metadata of up to {topic.metadata_bytes:,} bytes in commits of {topic.name}",
            topic.log_partition,
            topic.last_offset,
            {"metadata_bytes": topic.metadata_bytes},
            topic=topic.name,
        )


TOPIC_RULES: tuple[Callable[[Case, Topic], Iterator[Observation]], ...] = (abandoned_topic, oversized_metadata)
"""Rules over the partitions of one topic."""


def never_committed(case: Case) -> Iterator[Observation]:
    """Partitions that have had their owner for long, and no commit ever; one observation a topic."""
    waited: dict[str, list[tuple[int, int]]] = {}
    for (topic, number), owner in case.owned.items():
        is_long = case.end_ms - owner.at_ms >= case.limits.never_committed_ms
        if is_long and (topic, number) not in case.committed:
            waited.setdefault(topic, []).append((number, owner.at_ms))
    for topic, found in waited.items():
        numbers = sorted(number for number, _ in found)
        since = max(from_ms for _, from_ms in found)
        yield Observation(
            "never_committed",
            (topic,),
            since,
            case.end_ms,
            f"{len(numbers)} partitions of {topic} have had an owner since {moment(since)} and no commit",
            None,
            None,
            {"partitions": numbers[:MOST_NAMED], "partition_count": len(numbers)},
            occurrences=len(numbers),
            topic=topic,
            topic_partition=numbers[0] if len(numbers) == 1 else None,
        )


def silent_group(case: Case) -> Iterator[Observation]:
    """A Stable group with members whose last record of any kind lies long before the end of the log."""
    group = case.standing
    if group is None or not case.is_stable or case.last_commit_ms is None or case.commits < _FEWEST_COMMITS:
        return
    since = max(case.last_commit_ms, group["at"])
    silent_ms = case.end_ms - since
    if silent_ms < max(case.limits.silent_ms, case.limits.patience * case.usual_ms):
        return
    yield Observation(
        "silent_group",
        (group["epoch"], case.last_offset),
        since,
        case.end_ms,
        f"the group of {group['members']} members has written no record since {moment(since)}: {_epoch(group)}, last "
        f"commit on {moment(case.last_commit_ms)}",
        case.log_partition,
        case.last_offset,
        {"epoch": group["epoch"], "group_type": group["group_type"], "usual_ms": case.usual_ms, "silent_ms": silent_ms},
    )


def _epoch(group: Row) -> str:
    return f"{'generation' if group['group_type'] == 'classic' else 'epoch'} {group['epoch']}"


def hot_committer(case: Case) -> Iterator[Observation]:
    """Minutes in which the group committed each of its partitions too often."""
    since, until = case.hot_from_ms, case.hot_to_ms
    if case.hot_minutes < case.limits.hot_minutes or since is None or until is None:
        return
    numbers: dict[str, Any] = {
        "peak_per_minute": case.most_a_minute,
        "minutes": case.hot_minutes,
        "commits": case.commits,
        "bytes": case.commit_bytes,
    }
    yield Observation(
        "hot_committer",
        (),
        since,
        until,
        f"up to {case.most_a_minute} commits per partition and minute, in {case.hot_minutes} minutes from "
        f"{moment(since)} to {moment(until)}; {case.commits} commits of {case.commit_bytes} bytes "
        "in all",
        case.log_partition,
        case.last_offset,
        numbers,
        occurrences=case.hot_minutes,
    )


GROUP_TOTALS: tuple[Callable[[Case], Iterator[Observation]], ...] = (never_committed, silent_group, hot_committer)
"""Rules over what all commits of a group come to."""
