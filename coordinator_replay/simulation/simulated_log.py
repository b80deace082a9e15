"""Records of a simulated coordinator, as log segments and a list of topics that ``audit`` reads."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coordinator_replay.engine.model import Record
from coordinator_replay.errors import UsageError
from coordinator_replay.log.layout import NO_TIMESTAMP
from coordinator_replay.log.writer import LogEntry, write_control, write_records
from coordinator_replay.records.plain import encode_key, encode_value
from coordinator_replay.simulation.coordinator import Batch, Event, MarkerWritten, Topic
from coordinator_replay.simulation.coordinator.script import as_written, truth_line
from coordinator_replay.simulation.coordinator.shard import PARTITION

SEGMENT = "00000000000000000000.log"
TOPICS = "topics.csv"
ABORT, COMMIT = 0, 1
"""Types of control records."""


def write_log(folder: Path, written: Sequence[Batch | MarkerWritten], topics: Iterable[Topic]) -> Path:
    """Write the records as one segment of their log partition, and the topics as ``topics.csv``.

    Args:
        folder: target folder, which is created; the segment is written into its subfolder
            ``segments/__consumer_offsets-N``.
        written: all batches and control records, in order.
        topics: every topic that existed.

    Returns:
        The segment's file.

    Raises:
        UsageError: the folder has a log already, or can't be written.
    """
    segment = folder / "segments" / f"__consumer_offsets-{PARTITION}" / SEGMENT
    if segment.exists():
        raise UsageError(f"{segment} already exists; give another folder")
    try:
        segment.parent.mkdir(parents=True, exist_ok=True)
        segment.write_bytes(b"".join(_encoded(entry) for entry in written))
        with (folder / TOPICS).open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("topic_id", "topic", "partition_count"))
            rows.writerows((topic.topic_id, topic.name, topic.partitions) for topic in topics)
    except OSError as problem:
        raise UsageError(f"{folder}: can't be written: {problem}") from problem
    return segment


def write_truth(file: Path, events: Iterable[Event]) -> None:
    """Write the events of a simulated coordinator to a file, as one JSON line for each event.

    Raises:
        UsageError: the file can't be written.
    """
    lines = [json.dumps(truth_line(event), ensure_ascii=False) for event in events]
    try:
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"{file}: can't be written: {problem}") from problem


def _encoded(written: Batch | MarkerWritten) -> bytes:
    if isinstance(written, MarkerWritten):
        marker = written.marker
        return write_control(
            offset=marker.offset,
            control_type=COMMIT if marker.committed else ABORT,
            producer_id=marker.producer_id,
            producer_epoch=written.producer_epoch,
            timestamp_ms=NO_TIMESTAMP if marker.timestamp_ms is None else marker.timestamp_ms,
        )
    entries = [
        LogEntry(
            key=encode_key(record.kind, record.key),
            value=None if record.value is None else _value(record, record.value),
            timestamp_ms=NO_TIMESTAMP if record.timestamp_ms is None else record.timestamp_ms,
            offset=record.offset,
        )
        for record in written.records
    ]
    return write_records(entries, producer_id=written.producer_id, producer_epoch=written.producer_epoch)


def _value(record: Record, value: Mapping[str, Any]) -> bytes:
    return encode_value(record.kind, record.value_version or 0, as_written(value))
