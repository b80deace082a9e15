"""From evidence to findings: one pass over a group's rows, in the order of ``Evidence``."""

from collections.abc import Iterator
from typing import Any

from coordinator_replay.analysis.findings.case import Case, Row
from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.happenings import (
    KEPT_RULES,
    LOG_RULES,
    group_not_evaluated,
    late_topic_change,
)
from coordinator_replay.analysis.findings.observation import Observation, row
from coordinator_replay.analysis.findings.offsets import (
    GROUP_TOTALS,
    PARTITION_RULES,
    TOPIC_RULES,
    Topic,
    offset_rewind,
)
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.analysis.rows import Scope

FINDINGS = "findings"

Found = dict[str, Any]
"""A row of ``findings``."""


class Judge:
    """Makes the findings of one group.

    Evidence has to come in the order of ``Evidence``; happenings by time, offsets by topic, observations by finding.
    """

    __slots__ = ("case", "merged", "topic")

    def __init__(self, cluster: str, group_id: str, end_ms: int, limits: Thresholds) -> None:
        """Begin a group.

        Args:
            cluster: the cluster's name in the tables.
            group_id: the group.
            end_ms: the end of the log.
            limits: from when on something is a finding.
        """
        self.case = Case(cluster, group_id, end_ms, limits)
        self.topic: Topic | None = None
        self.merged: dict[str, Any] | None = None

    def take(self, kind: Evidence, evidence: Row) -> Iterator[Found]:
        """Take the next row of evidence; yields rows of ``findings``."""
        if kind is Evidence.STANDING:
            self.case.stand(evidence)
        elif kind is Evidence.HAPPENING:
            yield from self._happened(evidence)
        elif kind is Evidence.OFFSETS:
            yield from self._offsets(evidence)
        elif kind is Evidence.REWIND:
            yield from self._rows(offset_rewind(self.case, evidence), self.case.group_id)
        elif kind is Evidence.SIGHTING:
            yield from self._observed(evidence)
        elif kind is Evidence.LARGE_RECORD:
            self.case.take_record(evidence)
        elif kind is Evidence.PENDING:
            self.case.take_pending(evidence)
        elif kind is Evidence.EXPIRY:
            self.case.take_expiry(evidence)
        elif kind is Evidence.FAILURE:
            yield from self._rows(group_not_evaluated(self.case, evidence), self.case.group_id)
        else:
            yield from self._rows(LOG_RULES[kind](self.case, evidence), None)

    def finish(self) -> Iterator[Found]:
        """What only the whole of the group tells."""
        yield from self._end_topic()
        if self.merged is not None:
            yield self.merged
            self.merged = None
        for rule in (*GROUP_TOTALS, *KEPT_RULES):
            yield from self._rows(rule(self.case), self.case.group_id)

    def _happened(self, evidence: Row) -> Iterator[Found]:
        case = self.case
        if "commits" in evidence:
            case.take_commits(evidence)
        elif "rebalance_id" in evidence:
            case.rebalances.append((evidence["started_at"], evidence["rebalance_id"]))
            yield from self._rows(late_topic_change(case, evidence), case.group_id)

    def _offsets(self, evidence: Row) -> Iterator[Found]:
        case, topic = self.case, evidence["topic"]
        if self.topic is None or self.topic.name != topic:
            yield from self._end_topic()
            self.topic = Topic(evidence)
        self.topic.count(evidence)
        if (topic, evidence["partition"]) in case.owned:
            case.committed.add((topic, evidence["partition"]))
        for rule in PARTITION_RULES:
            yield from self._rows(rule(case, evidence), case.group_id)

    def _end_topic(self) -> Iterator[Found]:
        if self.topic is not None:
            for rule in TOPIC_RULES:
                yield from self._rows(rule(self.case, self.topic), self.case.group_id)
            self.topic = None

    def _observed(self, seen: Row) -> Iterator[Found]:
        """Merge observations of one finding; one that is still open counts if it has lasted long enough."""
        end_ms = self.case.end_ms
        if seen["last_seen"] is None and end_ms - seen["first_seen"] < (seen["needed_ms"] or 0):
            return
        last_seen = max(end_ms if seen["last_seen"] is None else seen["last_seen"], seen["first_seen"])
        known = self.merged
        if known is not None and known["finding_id"] == seen["finding_id"]:
            sum_of = known["occurrences"] + seen["occurrences"]
            first, latest = known["first_seen"], known if known["last_seen"] > last_seen else seen
            last_seen = max(known["last_seen"], last_seen)
            self.merged = {**latest, "first_seen": first, "last_seen": last_seen, "occurrences": sum_of}
            return
        if known is not None:
            yield known
        self.merged = {
            **seen,
            "cluster": self.case.cluster,
            "group_id": self.case.group_id,
            "last_seen": last_seen,
        }

    def _rows(self, observations: Iterator[Observation], group_id: str | None) -> Iterator[Found]:
        scope = Scope(self.case.cluster, group_id or "")
        for observation in observations:
            yield {**row(scope, observation), "group_id": group_id}
