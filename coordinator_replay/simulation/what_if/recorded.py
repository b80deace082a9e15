"""What is on record of a group, as ``what_if`` takes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from coordinator_replay.analysis.reasons.topic_changes import TopicChanges
from coordinator_replay.engine.model import Record
from coordinator_replay.simulation.what_if.measure import rows_of
from coordinator_replay.simulation.what_if.operations import RecordedOperation, operations_of


@dataclass(frozen=True)
class Recorded:
    """What is on record of a group.

    Attributes:
        records: its records in log order, embedded blobs opened; offset commits are not needed.
        names: topic name by id.
        counts: partitions by topic name, as of the newest source.
        changes: when topics changed.
        audited: rows of ``rebalances`` of an audit, which uses offset commits, too, and knows what the log proves; None
            to replay the group's records.
        log_end_ms: the last record of the log, of whatever group; None where it is not known.
        last_commits: when each member committed last, by member id, where that is known.
    """

    group_id: str
    records: Sequence[Record]
    names: Mapping[str, str]
    counts: Mapping[str, int]
    changes: TopicChanges
    audited: Sequence[dict[str, Any]] | None = None
    log_end_ms: int | None = None
    last_commits: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Return every table's rows; rebalances as the audit has them."""
        rows = rows_of(self.group_id, self.records, self.names, self.changes)
        if self.audited is not None:
            rows["rebalances"] = list(self.audited)
        return rows

    @cached_property
    def operations(self) -> list[RecordedOperation]:
        """Return the records as operations."""
        return operations_of(self.group_id, self.records)
