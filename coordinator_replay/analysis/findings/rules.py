"""Every rule: its name, its severity, what it says and what to do about it.

The table is the only place that has a rule's severity and words; the documentation is made of it. A rule's function has
the rule's name: those over a group's steps are in ``progress`` and ``shape``, the others in ``commit_rules`` and
``log_rules``.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How soon somebody should look."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class FindingRule(NamedTuple):
    """One rule.

    Attributes:
        about: what it observes, as a sentence.
        advice: what it may mean, and where to look next.
        thresholds: from when on it is a finding, as fields of ``Thresholds``.
        needs: what it looks at that not every audit has.
        rests_on_commits: whether it takes commits for granted, which an aborted transaction would undo.
    """

    severity: Severity
    about: str
    advice: str
    thresholds: tuple[str, ...] = ()
    rests_on_commits: bool = False
    needs: str | None = None


RULES: Mapping[str, FindingRule] = {
    # Rules over the steps of one group: functions in progress.py and shape.py.
    "invariant_broken": FindingRule(
        Severity.ERROR,
        "Two owners of one partition, an epoch that decreased, or another state that no coordinator writes, and no gap "
        "explains it.",
        "Two coordinators may have written the partition, or files of two clusters may be mixed. The timeline has the "
        "record; `detail.rule` names the broken rule.",
    ),
    "stuck_group": FindingRule(
        Severity.ERROR,
        "A consumer, share or streams group has not become Stable (Assigning, Reconciling, NotReady) for long.",
        "`detail.waiting_for` names the members that are not at the target epoch. A streams group that is NotReady "
        "waits for topics. A classic group never shows here: its rebalances leave no record until they end.",
        ("stuck_ms",),
    ),
    "unrevoked_partitions": FindingRule(
        Severity.WARNING,
        "A member did not revoke partitions for its whole rebalance timeout, and others waited for them.",
        "The member's poll loop takes longer than max.poll.interval.ms, or it hangs. The coordinator fences it when "
        "the timeout is over.",
        ("unrevoked_ms",),
    ),
    "rebalance_storm": FindingRule(
        Severity.WARNING,
        "A group rebalanced again and again within a short time, beyond what growing or shrinking takes.",
        "The message names the client that joined and was removed most, `detail.members` the first three. Look at "
        "`why` for the causes: session timeouts and restarts point to the machines, changed metadata to the topics.",
        ("storm_rebalances", "storm_window_ms"),
    ),
    "static_member_flapping": FindingRule(
        Severity.WARNING,
        "A static member joined again many times within a short time.",
        "Seen from one host it restarts again and again; from two hosts, two processes may be configured with the same "
        "group.instance.id and fence each other. A classic group keeps the host of the first member on record, so "
        "there the log does not show which.",
        ("flapping_returns", "flapping_window_ms"),
    ),
    "partition_unowned": FindingRule(
        Severity.ERROR,
        "Nobody in a Stable group owns a partition, though the group owns others of the topic and had owned this one.",
        "Nobody reads it. Unless the topic was deleted and created with fewer partitions, the assignor left it out.",
        ("unowned_ms",),
    ),
    "unbalanced_assignment": FindingRule(
        Severity.INFO,
        "A member has nothing while another with the same subscription has several partitions, or one has more than "
        "twice its share.",
        "The range assignor gives the first members one partition more of each topic; a sticky or uniform assignor "
        "spreads them evenly.",
        ("unbalanced_ms",),
    ),
    "mixed_protocols": FindingRule(
        Severity.WARNING,
        "Members of a consumer group have used both the classic and the consumer protocol for long.",
        "A migration to KIP-848 is incomplete: `detail.classic_members` have not been restarted with "
        "group.protocol=consumer.",
        ("mixed_protocols_ms",),
    ),
    "group_near_member_limit": FindingRule(
        Severity.WARNING,
        "A group has nearly as many members as the brokers allow.",
        "Members beyond the limit are refused with GROUP_MAX_SIZE_REACHED. Give the brokers' own limit as a threshold: "
        "it is not in the log.",
        ("size_percent", "group_max_size", "share_group_max_size"),
        needs="the brokers' limit as --threshold group-max-size=N",
    ),
    # Rules over offsets and over all groups: functions in commit_rules.py and log_rules.py.
    "group_near_record_limit": FindingRule(
        Severity.WARNING,
        "One record of a group is nearly as large as the topic allows.",
        "A classic group keeps all members with their subscriptions and assignments in one record; when that can't be "
        "written, no rebalance of the group succeeds any more. Fewer topics for each group, or a larger "
        "max.message.bytes.",
        ("size_percent", "record_max_bytes"),
    ),
    "silent_group": FindingRule(
        Severity.WARNING,
        "A group with members that used to commit has written no record for long.",
        "It has nothing to read, it hangs, or (a classic group) it is in a rebalance that does not end, which leaves "
        "no record until it does. The log shows no difference.",
        ("silent_ms", "patience"),
    ),
    "commit_stall": FindingRule(
        Severity.WARNING,
        "Commits of a partition have stopped while its owner stays and the rest of the Stable group goes on.",
        "Either nothing is written to the partition, or its consumer makes no progress: compare with its end offset.",
        ("stall_ms", "patience"),
        rests_on_commits=True,
    ),
    "never_committed": FindingRule(
        Severity.INFO,
        "A member has owned partitions for long and the group never committed an offset of them.",
        "They may be empty, or the consumer keeps its offsets elsewhere, or it never gets a record processed.",
        ("never_committed_ms",),
    ),
    "abandoned_topic": FindingRule(
        Severity.INFO,
        "A group with members has committed offsets of a topic that none of them subscribes to.",
        "Tools show its lag growing for good. The offsets expire in time; kafka-consumer-groups --delete-offsets "
        "removes them now.",
        ("abandoned_ms",),
        rests_on_commits=True,
    ),
    "hot_committer": FindingRule(
        Severity.WARNING,
        "A group commits each partition far more often than the default of once in five seconds.",
        "A commit for each record makes the offsets topic large and its compaction expensive: commit by time, or "
        "in batches.",
        ("hot_commits_per_minute", "hot_minutes"),
    ),
    "offset_rewind": FindingRule(
        Severity.WARNING,
        "A committed offset was rewound while the group had members, or in a group without members on record.",
        "Records are read twice. Around a rebalance it is mostly an old owner's late commit, or a new owner that "
        "began before the old one's last commit; `detail` has the owner and the rebalance. In a group without members "
        "it was a tool, a restore or a consumer that uses assign(): `detail.committer` says what the commit's leader "
        "epoch shows. A commit onward looks like progress there; `sql --query manual-offset-changes` lists "
        "single ones too.",
        rests_on_commits=True,
    ),
    "offset_reset": FindingRule(
        Severity.INFO,
        "An offset was committed into a group while it was Empty, or before its first member joined.",
        "A tool reset it, it was restored, or a consumer that uses assign() commits under the same name: these leave "
        "the same records, and none says who it was. `sql --query manual-offset-changes` lists them.",
        rests_on_commits=True,
    ),
    "open_transaction": FindingRule(
        Severity.ERROR,
        "A transactional commit waits for its marker at the end of the log, longer than a transaction may last.",
        "Consumers that ask for stable offsets get UNSTABLE_OFFSET_COMMIT. Look for the producer id with "
        "kafka-transactions; the transactional id is not in this topic.",
        ("pending_ms",),
        needs="segment files: an export has no producer ids",
    ),
    "long_transaction": FindingRule(
        Severity.INFO,
        "A transactional commit waited long for its marker, which came in the end.",
        "An aborted one is mostly a producer that died and was fenced after transaction.timeout.ms.",
        ("pending_ms",),
        needs="segment files: an export has no producer ids",
    ),
    "offset_due": FindingRule(
        Severity.WARNING,
        "Offsets of partitions that had an owner lately are past retention and not removed yet: the next check does "
        "it.",
        "A consumer that comes back after that begins where auto.offset.reset says. Commit again, or raise "
        "offsets.retention.minutes.",
        ("owned_lately_ms",),
        rests_on_commits=True,
    ),
    "offset_expiring": FindingRule(
        Severity.INFO,
        "Offsets of partitions that had an owner lately expire within the horizon, unless a member joins again.",
        "As for offset_due; `expired` lists them one by one.",
        ("owned_lately_ms",),
        rests_on_commits=True,
    ),
    "offset_lost": FindingRule(
        Severity.WARNING,
        "Offsets of partitions that had an owner lately expired.",
        "`offsets --at` a time before shows what they were, and `--reset-file` puts them back.",
        ("owned_lately_ms",),
        rests_on_commits=True,
    ),
    "oversized_metadata": FindingRule(
        Severity.INFO,
        "A group commits long metadata.",
        "It is kept in every commit and in the brokers' memory; the limit is offset.metadata.max.bytes.",
        ("metadata_bytes",),
    ),
    "late_topic_change": FindingRule(
        Severity.WARNING,
        "A group took long to notice that its topics had changed.",
        "New partitions were read by nobody until then. Classic members find out at metadata.max.age.ms.",
        ("metadata_delay_ms",),
        needs="the times of topics (--cluster-metadata)",
    ),
    "log_truncated": FindingRule(
        Severity.WARNING,
        "Records that earlier audits had read are no longer in the log: a leader was elected that didn't have them.",
        "Groups lost the state of these records, committed offsets too: consumers may have read again from older ones. "
        "Look for an unclean election in the brokers' logs (unclean.leader.election.enable), and for acks and "
        "min.insync.replicas of __consumer_offsets. The tables hold what the new leader has.",
    ),
    "slow_loading": FindingRule(
        Severity.WARNING,
        "A broker took long to load a partition of __consumer_offsets: until then its groups had no coordinator. Only "
        "the brokers' logs have it (audit --broker-log).",
        "Commits and heartbeats get COORDINATOR_LOAD_IN_PROGRESS meanwhile. A large partition is mostly one that the "
        "cleaner does not keep up with: look at the segments' sizes and at the log cleaner's own log.",
        ("loading_ms",),
    ),
    "log_gap": FindingRule(
        Severity.WARNING,
        "A range of the log was not in any dump audited so far.",
        "Segments are missing, or retention deleted them. What happened in it is unknown; rows that it may concern say "
        "is_exact = false.",
    ),
    "group_not_evaluated": FindingRule(
        Severity.WARNING,
        "A step for this group alone failed on what its records say. What the tables say of the group ends before the "
        "record at hand, or lacks findings; all other groups are audited. Every run tries the group again.",
        "Please report it with `detail` and the group's records: `sql \"FROM group_records WHERE group_id = '…'\"`.",
    ),
    "unreadable_records": FindingRule(
        Severity.ERROR,
        "Records could not be decoded and are in quarantine.",
        "Damage on disk, or a record of a version that this release does not know.",
    ),
}
