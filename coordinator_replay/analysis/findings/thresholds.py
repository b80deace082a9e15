"""Thresholds of findings: every number that a rule compares with, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from coordinator_replay.errors import UsageError

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The thresholds. Their defaults suit a cluster that uses Kafka's own defaults.

    Attributes:
        stuck_ms: how long a group may take to become Stable. The default is twice a
            consumer's default rebalance timeout.
        unrevoked_ms: how long a member without a known rebalance timeout may keep partitions that it must revoke.
        storm_rebalances: a group with at least this many rebalances within storm-window is in a storm. If the group
            gained or lost N members in this time, N of the rebalances don't count.
        storm_window_ms: the time in which storm-rebalances are counted.
        flapping_returns: how many returns of a static member within flapping-window make a finding.
        flapping_window_ms: the time in which flapping-returns are counted.
        unbalanced_ms: how long an assignment may be unbalanced.
        unowned_ms: how long a partition may have no owner in a group that owns the topic's other partitions.
        disjoint_ms: how long members of a group may have no topic in common.
        mixed_protocols_ms: how long the migration of a group from one protocol to the other may take.
        size_percent: what percentage of a limit on a group's size may be used.
        group_max_size: the brokers' group.max.size, and the same settings for consumer and streams groups. 0 means no
            limit, which is Kafka's default.
        share_group_max_size: the brokers' group.share.max.size.
        record_max_bytes: max.message.bytes of __consumer_offsets. A larger record of a group can't be written.
        silent_ms: how long a group that used to commit may write nothing at all.
        stall_ms: how long the commits of one partition may stop while the group still commits others.
        patience: a silence or stall must also last this many times the usual time between two commits.
        never_committed_ms: how long a partition may be owned without any commit.
        abandoned_ms: how old the last commit of a topic must be before its offsets count as abandoned.
        hot_commits_per_minute: how many commits per partition and minute are too many.
        hot_minutes: the group must reach hot-commits-per-minute in at least this many minutes, in a row or not.
        pending_ms: how long a transaction may be open. The default is a producer's default transaction.timeout.ms.
        jump_offsets: a jump is a commit that moves its partition ahead by at least this many offsets.
        jump_times: a jump must be at least this many times the average step of the partition's other commits.
        metadata_bytes: how many bytes of metadata a commit may have.
        owned_lately_ms: the loss of an offset matters if its partition had an owner within this time.
        metadata_delay_ms: how long a group may take to notice that its topics changed.
        loading_ms: how long a broker may take to load a partition of __consumer_offsets.
    """

    stuck_ms: int = 10 * MINUTE_MS
    unrevoked_ms: int = 5 * MINUTE_MS
    storm_rebalances: int = 10
    storm_window_ms: int = 10 * MINUTE_MS
    flapping_returns: int = 5
    flapping_window_ms: int = HOUR_MS
    unbalanced_ms: int = 10 * MINUTE_MS
    unowned_ms: int = 10 * MINUTE_MS
    disjoint_ms: int = HOUR_MS
    mixed_protocols_ms: int = DAY_MS
    size_percent: int = 90
    group_max_size: int = 0
    share_group_max_size: int = 200
    record_max_bytes: int = 1_048_588
    silent_ms: int = HOUR_MS
    stall_ms: int = 10 * MINUTE_MS
    patience: int = 10
    never_committed_ms: int = HOUR_MS
    abandoned_ms: int = DAY_MS
    hot_commits_per_minute: int = 60
    hot_minutes: int = 10
    jump_offsets: int = 10_000
    jump_times: int = 1000
    pending_ms: int = MINUTE_MS
    metadata_bytes: int = 1024
    owned_lately_ms: int = 7 * DAY_MS
    metadata_delay_ms: int = 5 * MINUTE_MS
    loading_ms: int = 10 * SECOND_MS

    @property
    def pause_ms(self) -> int:
        """Return the shortest time without commits that can make a finding."""
        return min(self.stall_ms, self.silent_ms)

    def with_changes(self, changes: Mapping[str, int]) -> "Thresholds":
        """Return these thresholds with other values for some of them.

        Raises:
            UsageError: a name is no threshold, or its number is below the least value.
        """
        for name, value in changes.items():
            if name not in THRESHOLD_NAMES:
                raise UsageError(f"no threshold is called {name!r}; there are {', '.join(THRESHOLD_NAMES)}")
            if value < 1 and name != "group_max_size":
                raise UsageError(f"threshold {name} must be at least 1, not {value}")
        return replace(self, **changes)


THRESHOLD_NAMES = tuple(field.name for field in fields(Thresholds))
DEFAULTS = Thresholds()
