"""The groups of a recorded sample in the form that ``what_if`` takes, read without Spark."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from coordinator_replay.engine.model import Record
from coordinator_replay.records.blobs import open_blobs
from coordinator_replay.simulation.what_if.record import Recorded
from scripts.reasons.sample import Line, Sample, milliseconds

Commit = tuple[str, int, int]
"""Topic, partition, time."""


def recorded_groups(folder: Path) -> dict[str, Recorded]:
    """Return the groups that have other records than commits, by id. The causes of rebalances also rest on commits."""
    sample = Sample(folder)
    names, changes = sample.topics()
    records: dict[str, list[Record]] = {}
    commits: dict[str, list[Commit]] = {}
    end_ms = 0
    for line in sample.records():
        end_ms = max(end_ms, milliseconds(line["log_timestamp"]))
        if line.get("group_id") is not None and "topic" not in line:
            records.setdefault(line["group_id"], []).append(_record(line))
        elif line.get("group_id") is not None:
            at_ms = milliseconds(line["log_timestamp"])
            commits.setdefault(line["group_id"], []).append((line["topic"], line["partition"], at_ms))
    judged: dict[str, list[Line]] = {}
    for row in sample.rebalances():
        judged.setdefault(row["group_id"], []).append(row)
    found = {}
    for group, own in sorted(records.items()):
        recorded = Recorded(group, tuple(own), names, {}, changes, judged.get(group), end_ms)
        found[group] = replace(recorded, last_commits=_last_commits(recorded, commits.get(group, ())))
    return found


def _last_commits(recorded: Recorded, commits: Iterable[Commit]) -> dict[str, int]:
    """Return the time of each member's last commit. A commit counts for the member that owned the partition."""
    found: dict[str, int] = {}
    owned = recorded.rows.get("partition_ownership", ())
    for topic, partition, at_ms in commits:
        for row in owned:
            is_there = row["owned_from"] <= at_ms and (row["owned_to"] is None or at_ms < row["owned_to"])
            if is_there and (row["topic"], row["partition"]) == (topic, partition):
                found[row["member_id"]] = max(found.get(row["member_id"], 0), at_ms)
    return found


def _record(line: Line) -> Record:
    return Record(
        line["kind"],
        line["key_json"],
        open_blobs(line["kind"], line["value_json"]),
        line["log_partition"],
        line["log_offset"],
        milliseconds(line["log_timestamp"]),
        line["missing_before"],
        line["value_version"],
    )
