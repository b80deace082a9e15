"""The groups of a recorded sample as ``what_if`` takes them, without Spark."""

from pathlib import Path

from coordinator_replay.engine.model import Record
from coordinator_replay.records.protocol import open_blobs
from coordinator_replay.whatif.recorded import Recorded
from scripts.reasons.sample import Line, Sample, milliseconds


def recorded_groups(folder: Path) -> dict[str, Recorded]:
    """Every group that has more than commits, its rebalances judged by commits too."""
    sample = Sample(folder)
    names, changes = sample.topics()
    records: dict[str, list[Record]] = {}
    end_ms = 0
    for line in sample.records():
        end_ms = max(end_ms, milliseconds(line["log_timestamp"]))
        if line.get("group_id") is not None and "topic" not in line:
            records.setdefault(line["group_id"], []).append(_record(line))
    judged: dict[str, list[Line]] = {}
    for row in sample.rebalances():
        judged.setdefault(row["group_id"], []).append(row)
    return {
        group: Recorded(group, tuple(own), names, {}, changes, judged.get(group), end_ms)
        for group, own in sorted(records.items())
    }


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
