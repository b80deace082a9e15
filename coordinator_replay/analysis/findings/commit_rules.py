"""Rules over committed offsets: each looks at the sums of the commits of a partition, a topic or the whole group."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter

from coordinator_replay.analysis.findings.context import GroupContext
from coordinator_replay.analysis.findings.ended_rules import epoch_of
from coordinator_replay.analysis.findings.evidence_rows import (
    Burst,
    Jump,
    PartitionCommits,
    PositionLosses,
    Rewinds,
    Stall,
)
from coordinator_replay.analysis.findings.observation import (
    MOST_NAMED,
    Observation,
    at,
    lasting,
    of_partitions,
)
from coordinator_replay.analysis.findings.thresholds import MINUTE_MS
from coordinator_replay.analysis.findings.totals import BURST_MS, bursts_of, mean_interval_ms
from coordinator_replay.listing import counted
from coordinator_replay.times import latest_ms, time_order, time_text


def look_for_stall(context: GroupContext, topic: "TopicCommits", row: PartitionCommits) -> None:
    """Add the partition to ``topic.stalls`` if commits of the partition stopped long before the group's last commits.

    The partition must have had the same owner since its last commit.
    """
    first_ms, last_ms, limits, commits = row["first_at"], row["last_at"], context.limits, context.commits
    if first_ms is None or last_ms is None or commits is None:
        return
    stalled_ms = commits["last_at"] - last_ms
    if stalled_ms < limits.stall_ms or not row["is_last_known"] or not context.is_stable:
        return
    owner = context.owned.get((row["topic"], row["partition"]))
    if owner is None or time_order(owner.at_ms) > last_ms:
        return
    active = context.active_time([first_ms, last_ms, row["commits"]])
    usual_ms = mean_interval_ms(0, active.elapsed_ms(first_ms, last_ms), row["commits"])
    if usual_ms is None or stalled_ms < limits.patience * usual_ms:
        return
    stall: Stall = {
        "partition": row["partition"],
        "last_at": last_ms,
        "committed_offset": row["committed_offset"],
        "from_offset": row["from_offset"],
        "topic_id": row["topic_id"],
        "usual_ms": usual_ms,
        "owned_from": owner.at_ms,
    }
    topic.stalls.setdefault(owner.member_id, []).append(stall)


def commit_stall(context: GroupContext, topic: "TopicCommits") -> Iterator[Observation]:
    """Yield, for each owner, the partitions of the topic whose commits have stopped."""
    if not topic.stalls or context.commits is None:
        return
    until_ms = context.commits["last_at"]
    for member_id, of_owner in topic.stalls.items():
        # If the last commit may be of an earlier topic with that name, the partition may no longer exist.
        stalls = [stall for stall in of_owner if stall["topic_id"] == topic.topic_id]
        if not stalls:
            continue
        first, last = (choose(stalls, key=itemgetter("last_at")) for choose in (min, max))
        numbers = [stall["partition"] for stall in stalls]
        where = f" at {first['committed_offset']} on {time_text(first['last_at'])}"
        if len(stalls) > 1:
            where = f", the first on {time_text(first['last_at'])}, the last on {time_text(last['last_at'])}"
        stalled_ms = until_ms - last["last_at"]
        yield Observation(
            (topic.name, member_id),
            first["last_at"],
            until_ms,
            f"commits of {of_partitions(topic.name, numbers)} stopped{where}, while the group went on committing for "
            f"another {lasting(stalled_ms)}",
            topic.log_partition,
            first["from_offset"],
            {
                "partitions": numbers[:MOST_NAMED],
                "partition_count": len(numbers),
                "committed_offset": first["committed_offset"],
                "usual_ms": first["usual_ms"],
                "stalled_ms": stalled_ms,
                "owned_from": time_text(first["owned_from"]),
            },
            goes_on_ms=None,
            occurrences=len(numbers),
            topic=topic.name,
            topic_partition=numbers[0] if len(numbers) == 1 else None,
            member_id=member_id,
        )


def offset_rewind(context: GroupContext, row: Rewinds) -> Iterator[Observation]:
    """Yield rewinds: commits of a lower offset than the previous commit of the partition.

    A rewind counts here if the group has members, or never had members on record. Rule ``offset_reset`` has rewinds in
    an Empty group that has had members, and rewinds before the first member joined. Rewinds of a topic in quick
    succession are one observation.
    """
    last, numbers = row["last"], row["partitions"]
    if row["is_empty"] and context.status is not None and context.status["has_had_members"]:
        return
    committer = _committer(row) if row["is_empty"] else None
    words = f"; the group has no members on record: {committer}" if committer else ""
    step = f"from {last['previous_offset']} to {last['committed_offset']} {at(last['valid_from'])}"
    if len(numbers) == 1:
        message = f"committed offset of {row['topic']}-{numbers[0]} rewound {step}{words}"
    else:
        message = (
            f"committed offsets of {of_partitions(row['topic'], numbers)} rewound, by up to {row['furthest']}; the "
            f"last, of partition {last['partition']}, {step}{words}"
        )
    yield Observation(
        (row["topic"], row["first_offset"]),
        row["first_at"],
        row["last_at"],
        message,
        row["log_partition"],
        last["from_offset"],
        {
            "partitions": numbers[:MOST_NAMED],
            "partition_count": len(numbers),
            "previous_offset": last["previous_offset"],
            "committed_offset": last["committed_offset"],
            "furthest_back": row["furthest"],
            "owner_member_id": last["owner_member_id"],
            "group_state": last["group_state"],
            "rebalance_id": context.rebalance_before(last["valid_from"]),
        }
        | ({"committer": committer} if committer else {}),
        occurrences=row["count"],
        joins_ms=BURST_MS,
        topic=row["topic"],
        topic_partition=numbers[0] if len(numbers) == 1 else None,
        member_id=last["owner_member_id"],
    )


def position_lost(context: GroupContext, row: PositionLosses) -> Iterator[Observation]:
    """Yield a burst of commits of negative offsets.

    Brokers store a negative offset, but consumers treat it as no committed offset.
    """
    last, numbers, lasting = row["last"], row["partitions"], row["lasting"]
    before = "" if last["replaced_offset"] is None else f", where {last['replaced_offset']} had been committed"
    if len(numbers) == 1:
        what = f"committed offset of {row['topic']}-{numbers[0]} set to {last['committed_offset']}"
    else:
        what = (
            f"committed offsets of {of_partitions(row['topic'], numbers)} set to negative numbers; the last, of "
            f"partition {last['partition']}, to {last['committed_offset']}"
        )
    yield Observation(
        (row["topic"], row["first_offset"]),
        row["first_at"],
        context.end.ms if lasting else row["last_at"],
        f"{what} {at(last['valid_from'])}{before}: a negative offset means none, the position is lost",
        row["log_partition"],
        last["from_offset"],
        {
            "partitions": numbers[:MOST_NAMED],
            "partition_count": len(numbers),
            "committed_offset": last["committed_offset"],
            "replaced_offset": last["replaced_offset"],
            "still_without_offset": lasting[:MOST_NAMED],
            "owner_member_id": last["owner_member_id"],
        },
        goes_on_ms=None if lasting else 0,
        occurrences=row["count"],
        topic=row["topic"],
        topic_partition=numbers[0] if len(numbers) == 1 else None,
        member_id=last["owner_member_id"],
    )


def look_for_reset(context: GroupContext, topic: "TopicCommits", row: PartitionCommits) -> None:
    """Add the partition's last reset to ``topic.resets``, if there is one.

    A reset is an offset commit to a group that has no members at that time, but has members at other times.

    The records do not show whether a tool, a restore or a consumer that uses ``assign()`` wrote the commit.
    """
    status, last_ms = context.status, row["empty_valid_from"]
    last_offset, committed = row["empty_from_offset"], row["empty_committed_offset"]
    if status is None or not status["has_had_members"] or last_ms is None or last_offset is None or committed is None:
        return
    since, members_from = row["empty_first_at"], status["members_from"]
    if last_ms >= time_order(members_from):
        since, when = latest_ms(since, members_from), "while the group was Empty"
    elif status["is_beginning_known"]:
        when = "before the group's first member joined"
    else:
        return
    burst: Burst = {
        "log_partition": row["log_partition"],
        "count": row["empty_count"],
        "first_at": since,
        "last_at": last_ms,
        "first_offset": last_offset,
        "furthest": 0,
        "partitions": [row["partition"]],
        "last": {
            "partition": row["partition"],
            "from_offset": last_offset,
            "valid_from": last_ms,
            "committed_offset": committed,
            "previous_offset": row["empty_previous_offset"],
        },
    }
    topic.resets.setdefault(when, []).append(burst)


def offset_reset(context: GroupContext, topic: "TopicCommits") -> Iterator[Observation]:
    """Yield the resets of a topic (see ``look_for_reset``).

    Resets of several partitions in quick succession are one observation.
    """
    for when, resets in topic.resets.items():
        for burst in bursts_of(resets):
            last, numbers = burst["last"], burst["partitions"]
            which = "committed offset of" if len(numbers) == 1 else "committed offsets of"
            were = "was set" if len(numbers) == 1 else f"were set, the last, of partition {last['partition']},"
            step = _step(last.get("previous_offset"), last["committed_offset"])
            yield Observation(
                (topic.name, burst["first_at"]),
                burst["first_at"],
                burst["last_at"],
                f"{which} {of_partitions(topic.name, numbers)} {were} {step} on "
                f"{time_text(last['valid_from'])}, {when}",
                burst["log_partition"],
                last["from_offset"],
                {
                    "partitions": numbers[:MOST_NAMED],
                    "partition_count": len(numbers),
                    "committed_offset": last["committed_offset"],
                    "previous_offset": last["previous_offset"],
                },
                occurrences=burst["count"],
                joins_ms=BURST_MS,
                topic=topic.name,
                topic_partition=numbers[0] if len(numbers) == 1 else None,
            )


def _step(previous: int | None, committed: int) -> str:
    """Return the change of a committed offset as text.

    The text has the distance if the previous offset is on record.

    >>> _step(None, 7), _step(7, 40), _step(40, 7), _step(7, 7)
    ('to 7', 'from 7 to 40 (33 ahead)', 'from 40 to 7 (33 back)', 'from 7 to 7')
    """
    if previous is None:
        return f"to {committed}"
    words = f"from {previous} to {committed}"
    where = "ahead" if committed > previous else "back"
    return words if committed == previous else f"{words} ({abs(committed - previous):,} {where})"


def look_for_jump(context: GroupContext, topic: "TopicCommits", row: PartitionCommits) -> None:
    """Add the partition's longest step forward to ``topic.jumps``, if its other steps are far shorter on average."""
    step, lowest, newest, limits = row.get("longest_step"), row.get("lowest"), row["committed_offset"], context.limits
    if not step or lowest is None or newest is None or row["commits"] <= limits.patience:
        return
    length, negated, committed, at_ms = step
    if length is None or negated is None or committed is None or length < limits.jump_offsets:
        return
    usual = max(newest - lowest - length, 0) // (row["commits"] - 1)
    if length >= limits.jump_times * usual:
        jump: Jump = {
            "partition": row["partition"],
            "previous_offset": committed - length,
            "committed_offset": committed,
            "from_offset": -negated,
            "at": at_ms,
            "usual": usual,
        }
        topic.jumps.append(jump)


def offset_jump(context: GroupContext, topic: "TopicCommits") -> Iterator[Observation]:
    """Yield the jumps of a topic (see ``look_for_jump``), each as a finding of its own."""
    for jump in topic.jumps:
        place = f"{topic.name}-{jump['partition']}"
        others = f"by {jump['usual']:,}" if jump["usual"] else "by less than 1"
        yield Observation(
            (topic.name, jump["partition"], jump["from_offset"]),
            jump["at"],
            jump["at"],
            f"committed offset of {place} went ahead from {jump['previous_offset']} to {jump['committed_offset']} "
            f"{at(jump['at'])}; its other commits go ahead {others} on average",
            topic.log_partition,
            jump["from_offset"],
            {
                "previous_offset": jump["previous_offset"],
                "committed_offset": jump["committed_offset"],
                "usual": jump["usual"],
                "rebalance_id": context.rebalance_before(jump["at"]),
            },
            topic=topic.name,
            topic_partition=jump["partition"],
        )


def _committer(row: Rewinds) -> str:
    """Return in words who may have moved an offset back in a group without members.

    A consumer commits an offset with the leader epoch of the last record that it read. Three others commit no leader
    epoch (``OffsetAndMetadata``): kafka-consumer-groups, MirrorMaker's checkpoints, and clients that choose an offset
    themselves. So a commit with a leader epoch comes from a consumer.
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
    return "a tool, a restore or a consumer that uses assign(), the log doesn't show which"


@dataclass(slots=True)
class TopicCommits:
    """The sums of the commits of one topic.

    Attributes:
        last_offset: log offset of the last commit.
        first_ms: time of the first commit.
        last_ms: time of the last commit.
        topic_id: topic id of the last commit that has a topic id; None if no commit has one.
        partitions: number of partitions with a committed offset.
        metadata_bytes: length of the longest commit metadata.
        is_last_known: False if a partition may have had another commit after its last commit on record.
        stalls: partitions whose commits have stopped, by owner.
        resets: resets as bursts, for ``totals.bursts_of``. The key tells in words when the resets happened, like "while
            the group was Empty".
        jumps: commits that advanced a partition much further than its other commits.
    """

    name: str
    log_partition: int
    last_offset: int
    first_ms: int | None = None
    last_ms: int | None = None
    topic_id: str | None = None
    topic_id_offset: int = -1
    partitions: int = 0
    metadata_bytes: int = 0
    is_last_known: bool = True
    stalls: dict[str, list[Stall]] = field(default_factory=dict)
    resets: dict[str, list[Burst]] = field(default_factory=dict)
    jumps: list[Jump] = field(default_factory=list)

    def add(self, row: PartitionCommits) -> None:
        """Add the sums of another partition of the topic."""
        self.partitions += bool(row["has_offset"])
        self.is_last_known &= row["is_last_known"]
        self.metadata_bytes = max(self.metadata_bytes, row["metadata_bytes"] or 0)
        if row["topic_id"] is not None and row["from_offset"] > self.topic_id_offset:
            self.topic_id, self.topic_id_offset = row["topic_id"], row["from_offset"]
        first_ms, last_ms = row["first_at"], row["last_at"]
        if first_ms is not None and (self.first_ms is None or first_ms < self.first_ms):
            self.first_ms = first_ms
        if last_ms is not None and (self.last_ms is None or last_ms > self.last_ms):
            self.last_ms, self.last_offset = last_ms, row["from_offset"]


def abandoned_topic(context: GroupContext, topic: TopicCommits) -> Iterator[Observation]:
    """Yield the topic if nobody has committed its offsets for a long time, while members subscribe to other topics."""
    status = context.status
    if status is None or not context.is_stable or not topic.partitions or topic.last_ms is None:
        return
    if not topic.is_last_known:
        return
    # For Kafka Connect, clients with their own protocol, and unreadable subscriptions, no topics are on record: nothing
    # shows that the topic was left.
    if (
        not status["subscribed"]
        or topic.name in status["subscribed"]
        or any(name == topic.name for name, _ in context.owned)
    ):
        return
    if not context.end.has_reached(topic.last_ms + context.limits.abandoned_ms):
        return
    yield Observation(
        (topic.name,),
        topic.last_ms,
        context.end.ms,
        f"no member subscribes to {topic.name}; the group has {topic.partitions} committed offsets of it, the last of "
        f"{time_text(topic.last_ms)}",
        topic.log_partition,
        topic.last_offset,
        {"offsets": topic.partitions, "subscribed_topics": status["subscribed"][:MOST_NAMED]},
        goes_on_ms=None,
        occurrences=topic.partitions,
        topic=topic.name,
    )


def oversized_metadata(context: GroupContext, topic: TopicCommits) -> Iterator[Observation]:
    """Yield the topic if the metadata of one of its commits is too long."""
    if topic.metadata_bytes >= context.limits.metadata_bytes:
        yield Observation(
            (topic.name,),
            topic.first_ms,
            topic.last_ms,
            f"commit metadata of up to {topic.metadata_bytes:,} bytes in commits of {topic.name}",
            topic.log_partition,
            topic.last_offset,
            {"metadata_bytes": topic.metadata_bytes},
            topic=topic.name,
        )


TOPIC_RULES: tuple[Callable[[GroupContext, TopicCommits], Iterator[Observation]], ...] = (
    commit_stall,
    offset_reset,
    offset_jump,
    abandoned_topic,
    oversized_metadata,
)
"""Rules over the partitions of one topic."""


def never_committed(context: GroupContext) -> Iterator[Observation]:
    """Yield partitions that have had their owner for a long time without any commit.

    There is one observation for each topic.

    If records are missing, only the time after the missing records counts.
    """
    status = context.status
    if status is None or not status["is_exact"] or status["has_gap"]:
        return
    waiting: dict[str, list[tuple[int, int | None]]] = {}
    for (topic, number), owner in context.owned.items():
        since = latest_ms(owner.at_ms, status["proven_from"])
        is_committed = (topic, number) in context.committed
        if not is_committed and context.end.has_lasted(context.limits.never_committed_ms, since):
            waiting.setdefault(topic, []).append((number, since))
    for topic, partitions in waiting.items():
        numbers = sorted(number for number, _ in partitions)
        since = max((from_ms for _, from_ms in partitions), key=time_order)
        yield Observation(
            (topic,),
            since,
            context.end.ms,
            f"{of_partitions(topic, numbers)} owned since {time_text(since)}, without any commit",
            None,
            None,
            {"partitions": numbers[:MOST_NAMED], "partition_count": len(numbers)},
            goes_on_ms=None,
            occurrences=len(numbers),
            topic=topic,
            topic_partition=numbers[0] if len(numbers) == 1 else None,
        )


def silent_group(context: GroupContext) -> Iterator[Observation]:
    """Yield a Stable group with members, if its last record of any kind is long before the end of the log."""
    status, commits = context.status, context.commits
    if status is None or not context.is_stable or commits is None:
        return
    since = max(commits["last_at"], time_order(status["at"]))
    usual_ms = mean_interval_ms(commits["first_at"], commits["last_at"], commits["commits"])
    if usual_ms is None:
        return
    if not context.end.has_reached(since + max(context.limits.silent_ms, context.limits.patience * usual_ms)):
        return
    silent_ms = context.end.ms - since
    yield Observation(
        (status["epoch"],),
        since,
        context.end.ms,
        f"the group of {counted(status['members'], 'member')} has written no record since {time_text(since)}: "
        f"{epoch_of(status)}, last commit on {time_text(commits['last_at'])}",
        context.log_partition,
        commits["last_offset"],
        {"epoch": status["epoch"], "group_type": status["group_type"], "usual_ms": usual_ms, "silent_ms": silent_ms},
        goes_on_ms=None,
    )


def hot_committer(context: GroupContext) -> Iterator[Observation]:
    """Yield the minutes in which the group made too many commits per partition, on average."""
    commits = context.commits
    if commits is None or commits["hot_minutes"] < context.limits.hot_minutes:
        return
    since, until, peak = commits["hot_from"], commits["hot_to"], commits["most_a_minute"]
    if since is None or until is None:
        return
    yield Observation(
        (),
        since,
        until,
        f"up to {peak} commits per partition and minute, in {commits['hot_minutes']} minutes from {time_text(since)} "
        f"to {time_text(until)}; {commits['commits']:,} commits of {commits['bytes']:,} bytes on record",
        context.log_partition,
        commits["last_offset"],
        {
            "peak_per_minute": peak,
            "minutes": commits["hot_minutes"],
            "commits": commits["commits"],
            "bytes": commits["bytes"],
        },
        goes_on_ms=MINUTE_MS,
        occurrences=commits["hot_minutes"],
    )


COMMIT_RULES: tuple[Callable[[GroupContext], Iterator[Observation]], ...] = (
    never_committed,
    silent_group,
    hot_committer,
)
"""Rules over the owners and the commits of a whole group."""
