"""Facts about a group that rules need, besides the row of evidence that they evaluate."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.evidence_rows import (
    ABANDONED,
    STALL,
    Content,
    EndedExpiry,
    EndedStall,
    GroupCommits,
    LargeRecord,
    LastStatus,
    LongTransaction,
    OffsetExpiry,
    PartitionCommits,
    QuietTime,
    Range,
    RebalanceTimes,
    UncommittedTime,
)
from coordinator_replay.analysis.findings.log_end import LogEnd
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.analysis.findings.totals import ActiveTime, mean_interval_ms
from coordinator_replay.times import elapsed_ms, latest_ms, time_order

_MOST_REBALANCES = 10_000


class PartitionOwner(NamedTuple):
    """The owner of a partition.

    Attributes:
        at_ms: start of the ownership if the member still owns the partition, or else the end of the ownership. In the
            result of ``owned_until``, it is the end in any case. None if no record has the time.
    """

    member_id: str
    at_ms: int | None


@dataclass(slots=True)
class ExpiringOffsets:
    """Offsets of one topic that expire by the same rule, in partitions that had an owner within ``owned_lately_ms``.

    Attributes:
        first_ms: the earliest time at which one of the offsets expired or is to expire.
        last_ms: the latest of these times.
        owner: the last owner of these partitions. If they had different owners, this is the owner with the latest time.
        numbers: numbers of the partitions.
        since_ms: start of an earlier period in which the offsets were past retention or about to expire; None if the
            offsets have expired, or this period has not ended.
        until_ms: end of that period; None if ``since_ms`` is None.
    """

    first_ms: int
    last_ms: int
    log_offset: int | None
    confidence: str
    owner: PartitionOwner
    since_ms: int | None = None
    until_ms: int | None = None
    numbers: set[int] = field(default_factory=set)


@dataclass(slots=True)
class GroupContext:
    """Facts about one group, for the rules of findings.

    Attributes:
        end: the end of the log.
        commits: totals of all commits on record, as one row (``totals.GROUP``); None if no commit is on record.
        status: the group at its last record; None for a group that only has offsets.
        owned: the owner of each partition at the end of the log.
        released: the last owner of each partition that has no owner now.
        committed: partitions of ``owned`` with a committed offset.
        rebalances: start and id of each of the last rebalances.
        largest: the group's largest record, if its size is near max.message.bytes of ``__consumer_offsets``.
        transactions: transactions that were pending for a long time.
        expiries: offsets that expire or have expired, grouped by five values: topic, status, rule, time of expiry (only
            of expired offsets), and whether the offsets have left this status.
        quiet: evidence of times in which the group had no records but offset commits.
        uncommitted: evidence of partitions that had an owner and no commit yet.
        stalls: past stalls of partitions, with the usual time between two commits.
        abandoned: times in which no member subscribed to the topic of an offset.
        active: times in which the group committed without a pause; None until ``active_time`` is called.
    """

    cluster: str
    group_id: str
    end: LogEnd
    limits: Thresholds
    commits: GroupCommits | None = None
    status: LastStatus | None = None
    owned: dict[tuple[str, int], PartitionOwner] = field(default_factory=dict)
    released: dict[tuple[str, int], PartitionOwner] = field(default_factory=dict)
    committed: set[tuple[str, int]] = field(default_factory=set)
    largest: LargeRecord | None = None
    transactions: list[LongTransaction] = field(default_factory=list)
    expiries: dict[tuple[str, str, str, int | None, bool], ExpiringOffsets] = field(default_factory=dict)
    rebalances: deque[tuple[int | None, str]] = field(default_factory=lambda: deque(maxlen=_MOST_REBALANCES))
    quiet: list[QuietTime] = field(default_factory=list)
    uncommitted: list[UncommittedTime] = field(default_factory=list)
    stalls: list[EndedStall] = field(default_factory=list)
    abandoned: list[EndedExpiry] = field(default_factory=list)
    active: ActiveTime | None = None

    def add(self, kind: Evidence, content: Content) -> None:
        """Keep a row of evidence if rules need it later.

        Pass rows of type ``PartitionCommits`` to ``add_partition`` instead.
        """
        match kind:
            case Evidence.STATUS:
                self.add_status(cast("LastStatus", content))
            case Evidence.REBALANCE:
                rebalance = cast("RebalanceTimes", content)
                self.rebalances.append((rebalance["started_at"], rebalance["rebalance_id"]))
            case Evidence.LARGE_RECORD:
                record = cast("LargeRecord", content)
                if self.largest is None or record["record_bytes"] > self.largest["record_bytes"]:
                    self.largest = record
            case Evidence.PENDING:
                self.transactions.append(cast("LongTransaction", content))
            case Evidence.EXPIRY:
                self._add_expiry(cast("OffsetExpiry", content))
            case Evidence.QUIET:
                self.quiet.append(cast("QuietTime", content))
            case Evidence.UNCOMMITTED:
                self.uncommitted.append(cast("UncommittedTime", content))

    def add_status(self, row: LastStatus) -> None:
        """Keep the facts of the row with the group at its last record."""
        self.status = row
        for owners, rows in ((self.owned, row["owned"]), (self.released, row["released"])):
            owners.update(
                {(topic, number): PartitionOwner(member_id, at_ms) for topic, number, member_id, at_ms in rows}
            )

    def add_partition(self, row: PartitionCommits) -> None:
        """Keep a partition that has commits.

        Also keep its past stalls, and the times in which no member subscribed to its topic.
        """
        if (row["topic"], row["partition"]) in self.owned:
            self.committed.add((row["topic"], row["partition"]))
        first_ms, last_ms = row["first_at"], row["last_at"]
        if not row["past"] or first_ms is None or last_ms is None:
            return
        topic, number = row["topic"], row["partition"]
        active = self.active_time([first_ms, last_ms, row["commits"]])
        active_ms = active.elapsed_ms(first_ms, last_ms)
        for summary in row["past"]:
            if summary["status"] == ABANDONED:
                self.abandoned.append({**summary, "topic": topic, "partition": number})
            elif summary["status"] == STALL and summary["went_on_ms"] >= self.limits.stall_ms:
                since, until = summary["pause"]
                paused_ms = active.elapsed_ms(since, min(until, last_ms))
                # The pause itself does not count for the usual time.
                usual_ms = mean_interval_ms(paused_ms, active_ms, row["commits"] - (since < last_ms))
                if usual_ms is not None and summary["went_on_ms"] >= self.limits.patience * usual_ms:
                    self.stalls.append({**summary, "topic": topic, "partition": number, "usual_ms": usual_ms})

    def _add_expiry(self, row: OffsetExpiry) -> None:
        """Keep an offset that has expired or is about to expire, if its partition had an owner recently."""
        is_expired, until_ms = row["status"] == "EXPIRED", row.get("until")
        owner = self.owned_until(row["topic"], row["partition"])
        if owner is None:
            return
        asked_ms = row["at"] if is_expired else self.end.ms if until_ms is None else until_ms
        since_ms = elapsed_ms(owner.at_ms, asked_ms)
        if since_ms is None or since_ms > self.limits.owned_lately_ms:
            return
        key = row["topic"], row["status"], row["rule"], row["at"] if is_expired else None, until_ms is not None
        offsets = self.expiries.get(key)
        if offsets is None:
            offsets = ExpiringOffsets(
                row["at"], row["at"], row["log_offset"], row["confidence"], owner, row.get("since")
            )
            self.expiries[key] = offsets
        offsets.first_ms, offsets.last_ms = min(offsets.first_ms, row["at"]), max(offsets.last_ms, row["at"])
        if offsets.since_ms is not None:
            offsets.since_ms = min(offsets.since_ms, row.get("since"), key=time_order)
        offsets.until_ms = latest_ms(offsets.until_ms, until_ms)
        offsets.owner = max(offsets.owner, owner, key=lambda candidate: time_order(candidate.at_ms))
        offsets.numbers.add(row["partition"])

    @property
    def are_commits_proven(self) -> bool:
        """Return whether the log shows for each commit whether the commit was transactional.

        An export does not show this.
        """
        return self.commits is None or not self.commits.get("unproven")

    @property
    def is_stable(self) -> bool:
        """Return whether the group is proven to be Stable with members at its last record."""
        status = self.status
        return status is not None and status["is_exact"] and status["state"] == "Stable" and status["members"] > 0

    @property
    def log_partition(self) -> int | None:
        """Return the log partition that has the group's records."""
        if self.commits is not None:
            return self.commits["log_partition"]
        return None if self.status is None else self.status["partition"]

    def owned_until(self, topic: str, number: int) -> PartitionOwner | None:
        """Return the last owner of a partition, with the end of the ownership.

        Return None if the partition never had an owner.
        """
        owner = self.owned.get((topic, number))
        return owner._replace(at_ms=self.end.ms) if owner is not None else self.released.get((topic, number))

    def active_time(self, of_partition: Range) -> ActiveTime:
        """Return the time ranges in which the group committed.

        Args:
            of_partition: time range of one partition's commits. If the sums of the group have no time ranges, this
                range is used instead.
        """
        if self.active is None and self.commits is not None and self.commits["active"]:
            self.active = ActiveTime(self.commits["active"])
        return self.active or ActiveTime([of_partition])

    def rebalance_before(self, at_ms: int | None) -> str | None:
        """Return the id of the last rebalance that began at or before a time.

        Return None if there is no such rebalance, or the time is None.
        """
        if at_ms is None:
            return None
        return next(
            (rebalance_id for began, rebalance_id in reversed(self.rebalances) if time_order(began) <= at_ms), None
        )
