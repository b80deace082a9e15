"""What is known of one group when its findings are made, and the evidence that a run hands in, in order.

Evidence is one row of plain data with a tag. Of each group it comes by tag, what happened by time, partitions by
topic, so that a case keeps totals and the group's own state, and never the rows.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from coordinator_replay.analysis.findings.thresholds import MINUTE_MS, Thresholds

Row = Mapping[str, Any]

_MOST_REBALANCES = 10_000


class Evidence(IntEnum):
    """The kinds of evidence, in the order in which they come.

    STANDING is the group at its last record. Happenings are told one by one (states, rebalances) or by the minute
    (commits, what ended them). OFFSETS is what the history of one partition comes to.
    """

    STANDING = 0
    HAPPENING = 1
    LARGE_RECORD = 2
    OFFSETS = 3
    PENDING = 4
    EXPIRY = 5
    SIGHTING = 6
    UNREADABLE = 7
    GAP = 8


class Owned(NamedTuple):
    """Who owns a partition since when, or owned it until when."""

    member_id: str
    at_ms: int


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
    hot_from_ms: int = 0
    hot_to_ms: int = 0
    most_a_minute: int = 0
    rebalances: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=_MOST_REBALANCES))

    def stand(self, row: Row) -> None:
        """Take the group's state at its last record."""
        self.standing = row
        self.log_partition = row["partition"]
        for into, told in ((self.owned, row["owned"]), (self.released, row["released"])):
            into.update({(topic, number): Owned(member_id, at_ms) for topic, number, member_id, at_ms in told})

    def count_commits(self, row: Row) -> None:
        """Take the commits of one minute."""
        self.commits += row["commits"]
        self.commit_bytes += row["bytes"]
        self.log_partition = row["log_partition"]
        if self.first_commit_ms is None:
            self.first_commit_ms = row["first_at"]
        self.last_commit_ms, self.last_offset = row["last_at"], row["last_offset"]
        each = row["commits"] // max(row["partitions"], 1)
        self.most_a_minute = max(self.most_a_minute, each)
        if each >= self.limits.hot_commits_per_minute:
            if not self.hot_minutes:
                self.hot_from_ms = row["first_at"]
            self.hot_minutes += 1
            self.hot_to_ms = row["last_at"]

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

    def rebalance_before(self, at_ms: int) -> str | None:
        """The last rebalance that began at or before a moment."""
        return next((rebalance_id for began, rebalance_id in reversed(self.rebalances) if began <= at_ms), None)


def usual(commits: int, first_ms: int | None, last_ms: int | None) -> int:
    """The mean time between two commits; a minute where there are not two."""
    if commits < 2 or first_ms is None or last_ms is None:
        return MINUTE_MS
    return (last_ms - first_ms) // (commits - 1)
