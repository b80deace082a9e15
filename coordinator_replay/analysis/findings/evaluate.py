"""The evaluation of evidence into findings: one pass over a group's rows, in the order of ``Evidence``."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from coordinator_replay.analysis.findings.commit_rules import (
    COMMIT_RULES,
    TOPIC_RULES,
    TopicCommits,
    look_for_jump,
    look_for_reset,
    look_for_stall,
    offset_rewind,
    position_lost,
)
from coordinator_replay.analysis.findings.context import GroupContext
from coordinator_replay.analysis.findings.ended_rules import ENDED_RULES
from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.evidence_rows import (
    Content,
    FindingRow,
    Found,
    GroupCommits,
    ObservationRow,
    PartitionCommits,
)
from coordinator_replay.analysis.findings.log_end import LogEnd
from coordinator_replay.analysis.findings.log_rules import (
    LOG_RULES,
    RECORD_RULES,
    group_not_evaluated,
    late_topic_change,
)
from coordinator_replay.analysis.findings.observation import Observation, row
from coordinator_replay.analysis.findings.rules import RULES, rule_of
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.analysis.rows import Scope
from coordinator_replay.completeness.spans import ExactSpan, is_all_proven, is_begin_proven, is_end_proven
from coordinator_replay.times import latest_ms, time_order

FINDINGS = "findings"

ROW_RULES: Mapping[Evidence, Sequence[Callable[[GroupContext, Any], Iterator[Observation]]]] = {
    Evidence.REBALANCE: (late_topic_change,),
    Evidence.REWIND: (offset_rewind,),
    Evidence.POSITION_LOSS: (position_lost,),
    Evidence.FAILURE: (group_not_evaluated,),
    **{kind: (rule,) for kind, rule in LOG_RULES.items()},
}
"""Rules that look at one row of evidence."""

END_RULES = (*COMMIT_RULES, *RECORD_RULES, *ENDED_RULES)
"""Rules that look at the group after all of its evidence."""


def joined(finding: Found, other: Found) -> Found:
    """Return two rows of one finding merged into one row.

    The result is the later row with the start of the earlier row. If the rows differ in the partition or the member, no
    partition or member had the problem all the time. The merged row then names no partition or member.
    """
    is_later = time_order(other["last_seen"]) >= time_order(finding["last_seen"])
    first = min(finding, other, key=lambda row: time_order(row["first_seen"]))
    return {
        **(other if is_later else finding),
        "partition": finding["partition"] if finding["partition"] == other["partition"] else None,
        "member_id": finding["member_id"] if finding["member_id"] == other["member_id"] else None,
        "first_seen": first["first_seen"],
        "is_begin_open": first["is_begin_open"],
        "occurrences": finding["occurrences"] + other["occurrences"],
    }


class Evaluator:
    """The evaluation of one group, or (with an empty group id) of the log itself.

    Evidence has to come in the order of the kinds in ``Evidence``. Within a kind, rebalances come by time, partitions
    by topic, and observations by finding.
    """

    def __init__(
        self,
        cluster: str,
        group_id: str,
        end_ms: int,
        limits: Thresholds,
        commits: GroupCommits | None = None,
        spans: Sequence[ExactSpan] = (),
    ) -> None:
        """Begin the evaluation of a group.

        Args:
            cluster: the cluster's name in the tables.
            group_id: id of the group.
            end_ms: the end of the log.
            limits: the thresholds of findings.
            commits: the sum of all commits of the group (``totals.GROUP``); None if the group has no commit.
            spans: the time ranges in which no record of the group's log partition is missing; empty if none is missing
                at all.
        """
        self.spans = spans
        self.context = GroupContext(cluster, group_id, LogEnd(end_ms), limits, commits)
        self.topic: TopicCommits | None = None
        self.finding: Found | None = None
        self.by_id: dict[str, Found] = {}

    def add(self, kind: Evidence, evidence: Content) -> Iterable[FindingRow]:
        """Add the next row of evidence, and return the findings that no later evidence can change."""
        if kind is Evidence.OFFSETS:
            self._add_partition(cast("PartitionCommits", evidence))
            return ()
        self.context.add(kind, evidence)
        if kind is Evidence.OBSERVATION:
            return map(self._doubted, self._merge(cast("ObservationRow", evidence)))
        return [
            self._doubted(self._row(rule, observation, is_of_log=kind in LOG_RULES))
            for rule in ROW_RULES.get(kind, ())
            for observation in rule(self.context, evidence)
        ]

    @property
    def changes_at_ms(self) -> int | None:
        """Return the next time at which the findings may change even if the log has no new record.

        Return None if the findings change only with new records.
        """
        return self.context.end.changes_at_ms

    def finish(self) -> Iterator[FindingRow]:
        """Yield findings that need all of the group's evidence."""
        self._end_topic()
        if self.finding is not None:
            yield self._doubted(self.finding)
            self.finding = None
        for rule in END_RULES:
            for observation in rule(self.context):
                self._keep(self._row(rule, observation))
        yield from map(self._doubted, self.by_id.values())
        self.by_id = {}

    def _doubted(self, finding: Found) -> FindingRow:
        """Return a finding, marked if missing records may hide an earlier start, a later end or more occurrences."""
        partition = finding["log_partition"] if finding["log_partition"] is not None else self.context.log_partition
        spans = [span for span in self.spans if span.log_partition == partition]
        recurs, ended_at = RULES[finding["rule"]].recurs, finding["ended_at"]
        since_ms = finding["first_seen"]
        is_begin_open = not is_begin_proven(spans, since_ms, recurs=recurs, joins_ms=finding["joins_ms"])
        is_end_open = ended_at is not None and not is_end_proven(spans, ended_at)
        is_begin_open = bool(finding["is_begin_open"]) or is_begin_open
        is_whole = not is_begin_open and is_all_proven(
            spans,
            since_ms,
            finding["last_seen"],
            recurs=recurs,
            joins_ms=finding["joins_ms"],
            goes_on_ms=finding["goes_on_ms"] or 0,
        )
        return {
            **finding,
            "is_begin_open": is_begin_open,
            "is_end_open": bool(finding["is_end_open"]) or is_end_open,
            "is_at_least": not is_whole,
        }

    def _keep(self, finding: Found) -> None:
        """Keep a finding until the end of the evidence. If the finding is kept already, merge the two rows."""
        before = self.by_id.get(finding["finding_id"])
        self.by_id[finding["finding_id"]] = finding if before is None else joined(before, finding)

    def _add_partition(self, evidence: PartitionCommits) -> None:
        self.context.add_partition(evidence)
        if self.topic is None or self.topic.name != evidence["topic"]:
            self._end_topic()
            self.topic = TopicCommits(evidence["topic"], evidence["log_partition"], evidence["from_offset"])
        self.topic.add(evidence)
        look_for_jump(self.context, self.topic, evidence)
        if self.context.status is not None:
            look_for_stall(self.context, self.topic, evidence)
            look_for_reset(self.context, self.topic, evidence)

    def _end_topic(self) -> None:
        if self.topic is not None:
            for rule in TOPIC_RULES:
                for observation in rule(self.context, self.topic):
                    self._keep(self._row(rule, observation))
            self.topic = None

    def _merge(self, observed: ObservationRow) -> Iterator[Found]:
        """Add an observation to the current finding.

        If the observation belongs to another finding, yield the current finding and begin the other finding. Leave out
        an observation that still holds at the end of the log but has not lasted for its ``needed_ms``.
        """
        end = self.context.end
        if observed["is_open"] and not end.has_lasted(observed["needed_ms"] or 0, observed["first_seen"]):
            return
        last_seen = latest_ms(end.ms if observed["is_open"] else observed["last_seen"], observed["first_seen"])
        ended_at = None if observed["is_open"] else end.ended_ms(last_seen, observed["goes_on_ms"])
        found: Found = {**observed, "last_seen": last_seen, "ended_at": ended_at, "is_proven": True}
        finding = self.finding
        if finding is None or finding["finding_id"] != observed["finding_id"]:
            if finding is not None:
                yield finding
            self.finding = found
            return
        self.finding = joined(finding, found)

    def _row(self, function: Callable[..., object], observation: Observation, *, is_of_log: bool = False) -> Found:
        rule, group_id = rule_of(function), "" if is_of_log else self.context.group_id
        return {
            **row(Scope(self.context.cluster, group_id), rule, observation),
            "group_id": None if is_of_log else group_id,
            "ended_at": self.context.end.ended_ms(observation.last_ms, observation.goes_on_ms),
            "is_proven": self.context.are_commits_proven or not RULES[rule].rests_on_commits,
        }
