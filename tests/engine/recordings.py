"""The recorded samples as the engine takes them: records by partition, checkpoints, Kafka's own replay."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from coordinator_replay.engine.model import Marker, Record
from coordinator_replay.engine.replay import StateReplay
from tests.engine.blobs import opened
from tests.samples import DATA

Log = tuple[Record | Marker, ...]


def folder(sample: str) -> Path:
    """Where a sample lies."""
    return DATA / sample


def lines(sample: str, name: str) -> list[dict[str, Any]]:
    with (folder(sample) / name).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@cache
def logs(sample: str) -> dict[int, Log]:
    """Records and markers of each log partition, in order; offsets that are not there count as missing."""
    found: dict[int, list[Record | Marker]] = {}
    seen: dict[int, int] = {}
    for line in lines(sample, "decoded.jsonl"):
        partition, offset = line["partition"], line["offset"]
        missing = offset - seen.get(partition, 0)
        seen[partition] = seen.get(partition, 0) + 1
        found.setdefault(partition, []).append(_read(line, missing))
    return {partition: tuple(log) for partition, log in found.items()}


def _read(line: dict[str, Any], missing: int) -> Record | Marker:
    if "control" in line:
        return Marker(
            line["producerId"], line["control"] == "COMMIT", line["partition"], line["offset"], line["timestamp"]
        )
    return Record(
        line["kind"],
        line["key"],
        opened(line["kind"], line.get("value")),
        line["partition"],
        line["offset"],
        line["timestamp"],
        missing,
        line.get("valueVersion"),
        line["producerId"],
    )


def group_of(record: Record) -> str:
    return str(record.key.get("groupId", record.key.get("group")))


def by_group(log: Log) -> dict[str, list[Record]]:
    """Records of each group; commits included, markers not."""
    groups: dict[str, list[Record]] = {}
    for record in log:
        if isinstance(record, Record):
            groups.setdefault(group_of(record), []).append(record)
    return groups


def group_records(sample: str) -> Iterator[tuple[str, list[Record]]]:
    """The records of every group of a sample that has more than commits."""
    for log in logs(sample).values():
        for group_id, records in by_group(log).items():
            own = [record for record in records if not record.kind.endswith("OffsetCommit")]
            if own:
                yield group_id, own


def replayed(log: Log, end: int) -> dict[str, StateReplay]:
    """Every group of a log partition replayed up to an end offset, markers applied to all."""
    groups: dict[str, StateReplay] = {}
    for entry in log:
        if entry.offset >= end:
            break
        if isinstance(entry, Marker):
            for replay in groups.values():
                replay.apply_marker(entry)
            continue
        group_id = group_of(entry)
        if group_id not in groups:
            groups[group_id] = StateReplay(group_id)
        groups[group_id].apply(entry)
    return groups
