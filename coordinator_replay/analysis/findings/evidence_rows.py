"""The rows of evidence, by kind, and the rows of findings, as typed dicts.

The rows are plain dicts at run time, because some are stored as JSON. Times are in milliseconds.
"""

from collections.abc import Sequence
from typing import Final, Literal, NotRequired, TypedDict

Range = list[int]
"""First and last time of some commits without a pause, and their number."""

Owned = tuple[str, int, str, int | None]
"""Topic, partition and member id of an owner, with the start or the end of the ownership."""

STALL: Final = "STALL"
"""Status of a past time in which a partition was not committed although its owner stayed."""

ABANDONED: Final = "ABANDONED"
"""Status of a past time in which an offset was not committed and no member subscribed to its topic."""


class LastStatus(TypedDict):
    """The group at its last record: ``Evidence.STATUS``.

    Attributes:
        members_from: time at which the group's first member joined; None if no record has that time.
        subscribed: topics that members subscribe to; empty if a subscription can't be read.
        owned: the owner of each partition.
        released: the last owner of each partition that has no owner now.
        proven_from: the time from which no record is missing; None if no record is missing at all.
        has_gap: whether the log has a gap. The records in the gap may have been of any kind.
    """

    group_type: str
    state: str
    epoch: int
    members: int
    has_had_members: bool
    members_from: int | None
    is_beginning_known: bool
    is_exact: bool
    at: int | None
    partition: int
    offset: int
    subscribed: list[str]
    owned: Sequence[Owned]
    released: Sequence[Owned]
    proven_from: int | None
    has_gap: bool


class RebalanceTimes(TypedDict):
    """One rebalance: ``Evidence.REBALANCE``.

    Attributes:
        at: the end of the rebalance; its start if it has not ended.
        started_at: the start of the rebalance, or the latest time at which it can have begun.
        metadata_delay_ms: time from a change of the group's topics to the rebalance that it caused; None if that time
            is not proven.
    """

    at: int | None
    is_over: bool
    rebalance_id: str
    epoch: int | None
    started_at: int | None
    metadata_delay_ms: int | None


class LargeRecord(TypedDict):
    """A record near the topic's limit: ``Evidence.LARGE_RECORD``."""

    kind: str
    record_bytes: int
    timestamp_ms: int | None
    log_partition: int
    log_offset: int


class QuietTime(TypedDict):
    """A time in which a Stable group with members had no records but offset commits: ``Evidence.QUIET``.

    Attributes:
        offset: log offset of the record before this time.
        at: start of this time.
        until: end of this time.
    """

    group_type: str
    epoch: int
    members: int
    partition: int
    offset: int
    at: int
    until: int


class Silence(QuietTime):
    """A time in which a Stable group with members wrote no record of any kind.

    Attributes:
        usual_ms: mean time between two of the group's commits before the pause.
    """

    usual_ms: int


class GroupCommits(TypedDict):
    """Commits of a group: a sum of kind ``totals.GROUP``.

    Attributes:
        unproven: number of commits that may or may not be transactional. Sums of an earlier release lack this number.
        last_offset: log offset of the last commit.
        most_a_minute: the highest mean number of commits per partition in one minute. The mean of a minute is its
            number of commits, divided by its number of partitions with a commit, rounded down.
        hot_minutes: number of minutes with too many commits (``Thresholds.hot_commits_per_minute``).
        hot_from: time of the first commit in such a minute.
        hot_to: time of the last commit in such a minute.
        active: time ranges in which the group committed without a pause.
    """

    log_partition: int
    commits: int
    bytes: int
    unproven: NotRequired[int]
    first_at: int
    last_at: int
    last_offset: int
    most_a_minute: int
    hot_minutes: int
    hot_from: int | None
    hot_to: int | None
    active: list[Range]


class PastStall(TypedDict):
    """A past stall: a time in which nobody committed a partition although the partition kept its owner.

    Attributes:
        at: time of the partition's last commit before the stall.
        until: time of the partition's next commit, or of the end of the ownership.
        pause: the time in which ``committed_offset`` was the committed offset, as a list of start and end. The start is
            ``at``. If no record has replaced or removed the offset, the end is the end of the log.
        went_on_ms: for how long after ``at`` the group still committed other partitions, in milliseconds.
    """

    status: Literal["STALL"]
    log_partition: int
    from_offset: int
    committed_offset: int | None
    member_id: str
    owned_from: int | None
    at: int
    until: int
    pause: list[int]
    went_on_ms: int


class PastExpiry(TypedDict):
    """A past period in which an offset was about to expire, was past retention, or had no subscriber to its topic.

    Attributes:
        at: the time at which the offset was to expire. If the status is ABANDONED, this is ``since``.
        since: start of the period.
        until: end of the period.
    """

    status: Literal["EXPIRING", "DUE", "ABANDONED"]
    log_partition: int
    log_offset: int | None
    from_offset: int
    rule: str
    confidence: str
    at: int
    since: int
    until: int


class PartitionCommits(TypedDict):
    """The sums of one partition's commits, and its past stalls and expiries: ``Evidence.OFFSETS``.

    Columns that begin with ``empty_`` are about commits to the group while it was Empty.

    Attributes:
        from_offset: log offset of the newest commit; ``committed_offset`` and ``topic_id`` come from this commit.
        is_lost: whether the present committed offset is not known: the newest commit can't be read, or missing records
            may have replaced or removed the offset.
        has_offset: whether the partition has a committed offset.
        is_last_known: whether no commit can be missing after the newest commit.
        past: past stalls and expiries.
        lowest: the lowest committed offset. Sums of an earlier release lack ``lowest`` and ``longest_step``.
        longest_step: the longest step forward from one commit to the next while the group was not Empty. The list has
            the length of the step, and the log offset, committed offset and time of the commit at its end. The log
            offset has a minus sign.
    """

    topic: str
    partition: int
    log_partition: int
    commits: int
    first_at: int | None
    last_at: int | None
    metadata_bytes: int | None
    with_leader_epoch: int
    from_offset: int
    committed_offset: int | None
    is_lost: bool
    topic_id: str | None
    empty_count: int
    empty_first_at: int | None
    empty_from_offset: int | None
    empty_valid_from: int | None
    empty_committed_offset: int | None
    empty_previous_offset: int | None
    has_offset: bool
    is_last_known: bool
    past: Sequence[PastStall | PastExpiry]
    lowest: NotRequired[int | None]
    longest_step: NotRequired[list[int | None] | None]


class Stall(TypedDict):
    """A partition whose commits have stopped, with the usual time between two commits.

    Attributes:
        from_offset: log offset of the last commit.
        owned_from: start of the present ownership; None if no record has it.
    """

    partition: int
    last_at: int
    committed_offset: int | None
    from_offset: int
    topic_id: str | None
    usual_ms: int
    owned_from: int | None


class EndedStall(PastStall):
    """A stall that is over, with its partition and the usual time between two commits."""

    topic: str
    partition: int
    usual_ms: int


class EndedExpiry(PastExpiry):
    """A ``PastExpiry``, with its partition."""

    topic: str
    partition: int


class Jump(TypedDict):
    """A commit that advanced its partition much further than other commits do.

    Attributes:
        from_offset: log offset of the commit.
        usual: the mean distance by which the other commits advanced the partition.
    """

    partition: int
    previous_offset: int
    committed_offset: int
    from_offset: int
    at: int | None
    usual: int


class LastCommit(TypedDict):
    """The newest of many commits in a short time.

    A field may be None or missing, because its value is not on record or not needed.
    """

    partition: int
    from_offset: int
    committed_offset: int
    previous_offset: NotRequired[int | None]
    replaced_offset: NotRequired[int | None]
    leader_epoch: NotRequired[int | None]
    is_transactional: NotRequired[bool | None]
    owner_member_id: NotRequired[str | None]
    group_state: NotRequired[str | None]
    valid_from: int | None


class Burst(TypedDict):
    """Commits in quick succession.

    Attributes:
        first_offset: log offset of the first commit.
        furthest: the largest distance by which a commit went back.
        partitions: numbers of the partitions.
        last: the newest commit.
    """

    log_partition: int
    count: int
    first_at: int | None
    last_at: int | None
    first_offset: int
    furthest: int
    partitions: list[int]
    last: LastCommit


class Rewinds(Burst):
    """A burst of rewinds in one topic: ``Evidence.REWIND``. A rewind commits a lower offset than the previous commit.

    Attributes:
        is_empty: whether the group was Empty or had no records but offset commits.
        with_leader_epoch: number of commits with a leader epoch in one partition: the partition of the burst's last
            commit. None if this number is not known.
    """

    topic: str
    is_empty: bool
    with_leader_epoch: int | None


class PositionLosses(Burst):
    """A burst of commits of negative offsets, in one topic: ``Evidence.POSITION_LOSS``.

    Attributes:
        lasting: partitions whose current committed offset is still a negative offset of this burst.
    """

    topic: str
    lasting: list[int]


class LongTransaction(TypedDict):
    """A transaction whose commits waited long for its marker: ``Evidence.PENDING``.

    Attributes:
        from_offset: log offset of the transaction's first commit.
        ended_at: time of the marker that ended it. If ``ended_by`` is RECORDS_MISSING, the time until which
            it was certainly open. None if it is open at the end of the log.
        partitions: number of partitions whose offsets the transaction committed.
        topic: the topic whose offsets the transaction committed; None for several topics.
    """

    producer_id: int
    producer_epoch: int
    log_partition: int
    from_offset: int
    pending_since: int
    ended_at: int | None
    ended_by: str | None
    partitions: int
    topic: str | None


class OffsetExpiry(TypedDict):
    """An offset that has expired, is past retention or is about to expire: ``Evidence.EXPIRY``.

    Attributes:
        at: the time at which the offset expired or is to expire.
        since: start of an earlier period in which the offset was near expiry or past retention; ``until`` is the end of
            that period. Rows about the present have neither field.
    """

    topic: str
    partition: int
    status: str
    rule: str
    confidence: str
    at: int
    log_offset: int | None
    since: NotRequired[int]
    until: NotRequired[int]


class UncommittedTime(TypedDict):
    """A past time in which a partition had an owner and no commit yet: ``Evidence.UNCOMMITTED``.

    Attributes:
        at: start of this time.
        until: end of this time: the first commit, or the end of the ownership.
    """

    topic: str
    partition: int
    member_id: str
    log_partition: int
    at: int | None
    until: int


class ObservationRow(TypedDict):
    """An observation of a rule: ``Evidence.OBSERVATION``.

    ``observation.Observation`` describes ``needed_ms``, ``goes_on_ms`` and ``joins_ms``. All other fields except
    ``is_open`` are columns of ``findings``.

    Attributes:
        is_open: whether the observation still holds at the group's last record.
    """

    cluster: str
    group_id: str | None
    finding_id: str
    rule: str
    severity: str
    topic: str | None
    partition: int | None
    member_id: str | None
    first_seen: int | None
    last_seen: int | None
    occurrences: int
    message: str
    detail: str
    needed_ms: int
    goes_on_ms: int | None
    joins_ms: int
    log_partition: int | None
    log_offset: int | None
    is_begin_open: bool
    is_end_open: bool
    is_open: bool


class Found(ObservationRow):
    """A finding as the group's evidence shows it, before missing records are taken into account.

    Attributes:
        ended_at: the end of the finding; None if the finding still holds.
        is_proven: False if the finding rests on commits that may have been aborted.
    """

    ended_at: int | None
    is_proven: bool


class FindingRow(Found):
    """A finding of a group, together with the doubt that missing records cause.

    Attributes:
        is_at_least: whether the problem may have occurred more often than the dump shows, because records are missing.
    """

    is_at_least: bool


class DatedFinding(FindingRow):
    """A row of ``findings``.

    Attributes:
        found_in_run: the run that first stored the finding; None if a release without this column stored it.
    """

    found_in_run: str | None


class UnreadableRecords(TypedDict):
    """Records of a log partition that were not read: ``Evidence.UNREADABLE`` and ``Evidence.UNKNOWN_KIND``."""

    log_partition: int | None
    error_class: str
    error_message: str
    records: int
    first_at: int | None
    last_at: int | None
    log_offset: int | None
    groups: list[str]


class LogRange(TypedDict):
    """A range of log offsets that was not read or was lost: ``Evidence.GAP`` and ``Evidence.LOST``.

    Attributes:
        to_offset: the first log offset after the range.
    """

    log_partition: int
    from_offset: int
    to_offset: int


class FailedStep(TypedDict):
    """A step of the audit that failed on a group: ``Evidence.FAILURE``.

    Attributes:
        log_partition: log partition of the record that the step worked on; None if it is not known.
        log_offset: log offset of this record.
    """

    step: str
    error: str
    where: str
    log_partition: int | None
    log_offset: int | None


class Loading(TypedDict):
    """A coordinator that loaded a log partition: ``Evidence.LOADING``."""

    log_partition: int
    leader_epoch: int
    broker: int | None
    loading_ms: int | None
    loaded_at: int
    sources: list[str]


class NamedMove(TypedDict):
    """A move of a group to another log partition."""

    group_id: str
    log_partition: int
    to_log_partition: int
    moved_at: int | None


class MovedGroups(TypedDict):
    """Groups whose records moved to another log partition: ``Evidence.MOVED``.

    Attributes:
        moves: some of the moves.
        groups: number of groups that moved.
        overlaps_until: end of the time in which brokers with the old and with the new partition count both wrote; None
            if there was no such time.
    """

    moves: list[NamedMove]
    groups: int
    first_at: int | None
    last_at: int | None
    overlaps_until: int | None


Content = (
    LastStatus | RebalanceTimes | LargeRecord | PartitionCommits | LongTransaction | OffsetExpiry | ObservationRow
    | UnreadableRecords | LogRange | Rewinds | FailedStep | Loading | QuietTime | UncommittedTime | PositionLosses
    | MovedGroups
)  # fmt: skip
"""The content of a row of evidence. The row's kind tells the type of the content."""
