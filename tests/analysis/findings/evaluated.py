"""From records or evidence to findings, as a run does it, without Spark."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coordinator_replay.analysis.findings.evaluate import Evaluator
from coordinator_replay.analysis.findings.evidence import TABLE, Evidence
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.analysis.findings.totals import ranges_of
from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.analysis.reasons.topic_changes import NO_CHANGES, TopicChanges
from coordinator_replay.completeness.spans import ExactSpan
from coordinator_replay.engine.model import Record
from tests.engine.lives import GROUP

FindingRow = dict[str, Any]


def evaluate(
    evidence: Sequence[tuple[Evidence | None, Mapping[str, Any]]],
    *,
    end_ms: int,
    limits: Thresholds = DEFAULTS,
    unproven: int = 0,
    spans: Sequence[ExactSpan] = (),
) -> list[FindingRow]:
    """What rules find in evidence; rows without a kind are minutes of commits, ``unproven`` of them of an export."""
    minutes = [row for kind, row in evidence if kind is None]
    commits = {**all_commits(minutes, limits), "unproven": unproven} if minutes else None
    evaluator = Evaluator("test", GROUP, end_ms, limits, commits, spans)
    rows = sorted(((kind, row) for kind, row in evidence if kind is not None), key=lambda pair: pair[0])
    findings = [finding for kind, row in rows for finding in evaluator.add(kind, row)]
    return [*findings, *evaluator.finish()]


def all_commits(minutes: Sequence[Mapping[str, Any]], limits: Thresholds) -> Mapping[str, Any]:
    """The sum of the commits of some minutes."""
    hot = [one for one in minutes if one["commits"] // max(one["partitions"], 1) >= limits.hot_commits_per_minute]
    pause = limits.pause_ms, limits.patience
    return {
        "log_partition": minutes[-1]["log_partition"],
        "commits": sum(one["commits"] for one in minutes),
        "bytes": sum(one["bytes"] for one in minutes),
        "first_at": minutes[0]["first_at"],
        "last_at": minutes[-1]["last_at"],
        "last_offset": minutes[-1]["last_offset"],
        "most_a_minute": max(one["commits"] // max(one["partitions"], 1) for one in minutes),
        "hot_minutes": len(hot),
        "hot_from": hot[0]["first_at"] if hot else None,
        "hot_to": hot[-1]["last_at"] if hot else None,
        "active": ranges_of([[one["first_at"], one["last_at"], one["commits"]] for one in minutes], *pause),
    }


def evidence_of(
    records: Sequence[Record],
    limits: Thresholds = DEFAULTS,
    names: Mapping[str, str] | None = None,
    gap_ms: int | None = None,
    changes: TopicChanges = NO_CHANGES,
) -> list[tuple[Evidence, Mapping[str, Any]]]:
    """The evidence of a group's records; with ``gap_ms`` no dump has those from that time on."""
    life = GroupReplay("test", GROUP, names, changes, limits)
    rows = [row for record in records for row in life.feed(record)]
    if gap_ms is not None:
        rows += life.lose_track(records[-1].partition, records[-1].offset + 2, gap_ms)
    rows += life.finish()
    evidence = [row for name, row in rows if name == TABLE and row["tag"] != Evidence.STATE]
    evidence.sort(key=lambda row: (row["tag"], row["at"], row["name"], row["seq"]))
    return [(Evidence(row["tag"]), json.loads(row["detail"])) for row in evidence]


def life_findings(
    records: Sequence[Record],
    *,
    end_ms: int,
    limits: Thresholds = DEFAULTS,
    names: Mapping[str, str] | None = None,
    gap_ms: int | None = None,
    changes: TopicChanges = NO_CHANGES,
    spans: Sequence[ExactSpan] = (),
) -> list[FindingRow]:
    """Findings of a group by its own records; that none of these lives commits offsets is no matter here."""
    found = evaluate(evidence_of(records, limits, names, gap_ms, changes), end_ms=end_ms, limits=limits, spans=spans)
    return [one for one in found if one["rule"] != "never_committed"]


def rules(found: Iterable[FindingRow]) -> list[str]:
    return sorted(one["rule"] for one in found)


STATUS = {
    "group_type": "consumer",
    "state": "Stable",
    "epoch": 4,
    "members": 2,
    "has_had_members": True,
    "members_from": 0,
    "is_beginning_known": False,
    "is_exact": True,
    "proven_from": None,
    "has_gap": False,
    "at": 0,
    "partition": 3,
    "offset": 7,
    "subscribed": ["orders"],
    "owned": [["orders", 0, "m-0", 0], ["orders", 1, "m-1", 0]],
    "released": [],
}


def group_status(**changes: Any) -> tuple[Evidence, dict[str, Any]]:
    """A Stable group of two members that own two partitions of a topic since the beginning."""
    had = {"has_had_members": changes.get("members_from", 0) is not None}
    return Evidence.STATUS, {**STATUS, **had, **changes}


def minute(at: int, commits: int = 2, partitions: int = 2, **changes: Any) -> tuple[None, dict[str, Any]]:
    """The commits of a minute."""
    row = {
        "at": at,
        "log_partition": 3,
        "commits": commits,
        "bytes": 100 * commits,
        "partitions": partitions,
        "first_at": at,
        "last_at": at,
        "last_offset": 1000 + at,
    }
    return None, {**row, **changes}


NO_COMMITS = {
    "count": 0,
    "first_at": None,
    "from_offset": None,
    "valid_from": None,
    "committed_offset": None,
    "previous_offset": None,
}


def offsets(
    topic: str = "orders", partition: int = 0, into_empty: Mapping[str, Any] = NO_COMMITS, **changes: Any
) -> tuple[Evidence, dict[str, Any]]:
    """The history of a partition that is committed as it should be."""
    row = {
        "topic": topic,
        "partition": partition,
        "log_partition": 3,
        "commits": 100,
        "first_at": 0,
        "last_at": 0,
        "has_offset": True,
        "is_last_known": True,
        "metadata_bytes": 0,
        "from_offset": 900,
        "committed_offset": 50,
        "topic_id": None,
        "past": (),
        **{f"empty_{name}": value for name, value in into_empty.items()},
    }
    return Evidence.OFFSETS, {**row, **changes}


def rewinds(
    count: int,
    first_at: int | None,
    furthest: int,
    last: Mapping[str, Any],
    with_leader_epoch: int = 0,
    partitions: Sequence[int] = (0,),
) -> tuple[Evidence, dict[str, Any]]:
    """Commits of a topic that went back."""
    row: dict[str, Any] = {"topic": "orders", "log_partition": 3, "partitions": list(partitions)}
    row |= {"is_empty": last["group_state"] == "Empty", "with_leader_epoch": with_leader_epoch}
    row |= {"first_at": first_at, "last_at": last["valid_from"], "first_offset": last["from_offset"]}
    return Evidence.REWIND, {**row, "count": count, "furthest": furthest, "last": last}
