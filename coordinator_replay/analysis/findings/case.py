"""What is known of one group when its findings are made: totals and its own state, and never the rows of evidence."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coordinator_replay.analysis.findings.thresholds import MINUTE_MS, Thresholds

Row = Mapping[str, Any]

_MOST_REBALANCES = 10_000


class Owned(NamedTuple):
    """Who owns a partition since when, or owned it until when."""

    member_id: str
    at_ms: int


@dataclass(slots=True)
class Transaction:
    """A transaction of one producer on offsets of the group, long enough to be told; open where nothing settled it."""

    producer_id: int
    producer_epoch: int | None
    log_partition: int
    log_offset: int
    since_ms: int
    settled_ms: int | None
    ended_by: str | None
    partitions: int = 0
    topics: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Expiry:
    """Offsets of one topic that go by one rule, of partitions that had an owner lately."""

    first_ms: int
    last_ms: int
    log_offset: int | None
    confidence: str
    owner: Owned
    numbers: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Case:
    """One group.

    Attributes:
        end_ms: the end of the log.
        standing: the group at its last record; None for one that only has offsets.
        owned: who owns which partition at the end of the log.
        released: who owned which partition last, and until when.
        committed: partitions of ``owned`` that the group has committed offsets of.
        commits: commits on record, and their bytes.
        hot_minutes: how many minutes had too many commits.
        rebalances: begin and id of the last ones.
        largest: the largest record near the topic's limit.
        transactions: by producer and the marker that settled them.
        expiries: by topic, status, rule and, where they are over, time.
    """

    cluster: str
    group_id: str
    end_ms: int
    limits: Thresholds
    standing: Row | None = None
    owned: dict[tuple[str, int], Owned] = field(default_factory=dict)
    released: dict[tuple[str, int], Owned] = field(default_factory=dict)
    committed: set[tuple[str, int]] = field(default_factory=set)
    commits: int = 0
    commit_bytes: int = 0
    first_commit_ms: int | None = None
    last_commit_ms: int | None = None
    last_offset: int | None = None
    log_partition: int | None = None
    hot_minutes: int = 0
    hot_from_ms: int | None = None
    hot_to_ms: int | None = None
    most_a_minute: int = 0
    largest: Row | None = None
    transactions: dict[tuple[int, int | None], Transaction] = field(default_factory=dict)
    expiries: dict[tuple[str, str, str, int | None], Expiry] = field(default_factory=dict)
    rebalances: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=_MOST_REBALANCES))

    def stand(self, row: Row) -> None:
        """Take the group's state at its last record."""
        self.standing = row
        self.log_partition = row["partition"]
        for into, told in ((self.owned, row["owned"]), (self.released, row["released"])):
            into.update({(topic, number): Owned(member_id, at_ms) for topic, number, member_id, at_ms in told})

    def take_commits(self, row: Row) -> None:
        """Take what all commits come to."""
        self.commits, self.commit_bytes, self.log_partition = row["commits"], row["bytes"], row["log_partition"]
        self.first_commit_ms, self.last_commit_ms = row["first_at"], row["last_at"]
        self.last_offset, self.most_a_minute = row["last_offset"], row["most_a_minute"]
        self.hot_minutes, self.hot_from_ms, self.hot_to_ms = row["hot_minutes"], row["hot_from"], row["hot_to"]

    def take_record(self, row: Row) -> None:
        """Take a record near the topic's limit."""
        if self.largest is None or row["record_bytes"] > self.largest["record_bytes"]:
            self.largest = row

    def take_pending(self, row: Row) -> None:
        """Take a transactional commit that was pending for long."""
        key = row["producer_id"], row["to_offset"]
        known = self.transactions.get(key)
        if known is None:
            known = self.transactions[key] = Transaction(
                row["producer_id"],
                row["producer_epoch"],
                row["log_partition"],
                row["from_offset"],
                row["pending_since"],
                row["settled_at"],
                row["ended_by"],
            )
        known.since_ms = min(known.since_ms, row["pending_since"])
        known.log_offset = min(known.log_offset, row["from_offset"])
        known.partitions += 1
        known.topics.add(row["topic"])

    def take_expiry(self, row: Row) -> None:
        """Take an offset that expired or expires next, if somebody may miss it."""
        is_over = row["status"] == "EXPIRED"
        owner = self.owned_until(row["topic"], row["partition"])
        judged_ms = row["at"] if is_over else self.end_ms
        if owner is None or judged_ms - owner.at_ms > self.limits.owned_lately_ms:
            return
        key = row["topic"], row["status"], row["rule"], row["at"] if is_over else None
        known = self.expiries.get(key)
        if known is None:
            known = self.expiries[key] = Expiry(row["at"], row["at"], row["log_offset"], row["confidence"], owner)
        known.first_ms, known.last_ms = min(known.first_ms, row["at"]), max(known.last_ms, row["at"])
        known.owner = max(known.owner, owner, key=lambda one: one.at_ms)
        known.numbers.add(row["partition"])

    @property
    def is_stable(self) -> bool:
        """Whether the group is Stable with members at its last record."""
        return self.standing is not None and self.standing["state"] == "Stable" and self.standing["members"] > 0

    @property
    def usual_ms(self) -> int:
        """The mean time between two commits of the group."""
        return usual(self.commits, self.first_commit_ms, self.last_commit_ms)

    def owned_until(self, topic: str, number: int) -> Owned | None:
        """The last owner of a partition, and until when it was; None where it never had one."""
        owner = self.owned.get((topic, number))
        return owner._replace(at_ms=self.end_ms) if owner is not None else self.released.get((topic, number))

    def rebalance_before(self, at_ms: int | None) -> str | None:
        """The last rebalance that began at or before a moment; None where the moment is not known."""
        if at_ms is None:
            return None
        return next((rebalance_id for began, rebalance_id in reversed(self.rebalances) if began <= at_ms), None)


def usual(commits: int, first_ms: int | None, last_ms: int | None) -> int:
    """The mean time between two commits; a minute where there are not two."""
    if commits < 2 or first_ms is None or last_ms is None:
        return MINUTE_MS
    return (last_ms - first_ms) // (commits - 1)
