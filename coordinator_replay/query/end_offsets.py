"""End offsets of partitions, read from a file. Lag needs them, and a dump of ``__consumer_offsets`` has none.

The file is CSV (``topic,partition,offset[,time]``, with or without these headings), JSON lines with the same names, or
the output of ``kafka-get-offsets.sh`` (``topic:partition:offset``).
"""

import csv
import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from coordinator_replay.errors import CoordinatorReplayError, InputError
from coordinator_replay.query.offsets import TopicPartition
from coordinator_replay.query.times import parse_absolute_time

_COLUMNS = ("topic", "partition", "offset", "time")
_FEWEST_COLUMNS = 3
_OF_KAFKAS_TOOL = re.compile(r"\s*[A-Za-z0-9._-]+:\d+:-?\d+\s*")


def _json_rows(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, json.loads(line)


def _csv_rows(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    names: tuple[str, ...] = _COLUMNS
    lines = text.splitlines()
    reader = csv.reader(",".join(line.rsplit(":", 2)) if _OF_KAFKAS_TOOL.fullmatch(line) else line for line in lines)
    for cells in reader:
        if not cells:
            continue
        if reader.line_num == 1 and "partition" in (named := tuple(cell.strip().lower() for cell in cells)):
            names = named
        else:
            if len(cells) < _FEWEST_COLUMNS:
                raise ValueError("topic, partition and offset are needed")
            yield reader.line_num, dict(zip(names, cells, strict=False))


def read_end_offsets(path: Path, at: datetime | None = None) -> dict[TopicPartition, int]:
    """Return end offsets by topic and partition, as of a point in time.

    Args:
        path: the file.
        at: the point in time; None for the latest time in the file. If the file has several offsets of a partition, the
            latest offset up to this time counts. Offsets without a time count only for partitions that have no offset
            with a time.

    Raises:
        InputError: the file can't be read, or a line is wrong; the message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} can't be read: {problem}") from problem
    ends: dict[TopicPartition, tuple[datetime | None, int]] = {}
    number = 0
    try:
        for number, row in (_json_rows if text.lstrip().startswith("{") else _csv_rows)(text):  # noqa: B007
            time = row.get("time")
            moment = None if time in (None, "") else parse_absolute_time(str(time))
            if at is not None and moment is not None and moment > at:
                continue
            key = (str(row["topic"]), int(row["partition"]))
            other = ends.get(key)
            if other is None or other[0] is None or (moment is not None and moment >= other[0]):
                ends[key] = (moment, int(row["offset"]))
    except (ValueError, KeyError, TypeError, CoordinatorReplayError) as problem:
        raise InputError(
            f"{path}, line {number or 1}: topic, partition, offset[, time] expected, or topic:partition:offset: "
            f"{problem}"
        ) from problem
    return {key: offset for key, (_, offset) in ends.items()}
