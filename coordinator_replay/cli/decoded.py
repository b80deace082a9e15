"""Output of ``decode`` on a terminal: the main fields of the first records, and the number of records left out.

If the output is not a terminal, and with ``--wide``, ``decode`` prints every record as a JSON object.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from coordinator_replay.answer_columns import AnswerColumn
from coordinator_replay.cli import work
from coordinator_replay.cli.layout import cut, width_of
from coordinator_replay.cli.output import print_table, to_json
from coordinator_replay.cli.waiting import begin_waiting, end_waiting
from coordinator_replay.listing import counted, partition_ranges
from coordinator_replay.safe_text import neutral

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = (
    AnswerColumn("log_partition", "LOG-PARTITION", 3),
    AnswerColumn("log_offset", "LOG-OFFSET", 1),
    AnswerColumn("log_timestamp", "LOG-TIMESTAMP", 1),
    AnswerColumn("group_id", "GROUP", 1, is_id=True),
    AnswerColumn("kind", "KIND", 1),
    AnswerColumn("record", "RECORD", 1, 20, is_sentence=True),
    AnswerColumn("value", "VALUE", 1, 60, is_sentence=True, good=60),
)

_MOST_LINES = 16
"""Largest number of lines of records on a terminal."""

_LONGEST = 180
"""Largest width of a record's content on a terminal, in cells: less than three lines of 80."""

_SHORT = 32
"""Largest width, in cells, of a content in the column RECORD. A wider one is in the column VALUE, or below the line."""

_ELSEWHERE = " "
"""The cell of a record whose content is in the other of the two columns. The sign for null would deny the content."""

_LEFT_OUT = re.compile(r"metadataHash|rackId|processId|.*[tT]imestamp")
"""Names of fields that few readers look for. The record has a time of its own."""


def print_first_records(batches: "Iterable[pa.RecordBatch]") -> str:
    """Print the main fields of the first records, and count the records that are not printed.

    Args:
        batches: log records in ``LOG_RECORD``.

    Returns:
        A sentence that says how many records were not printed, and how to see them.
    """
    first: list[str] = []
    count = printed = 0
    try:
        for batch in batches:
            count += batch.num_rows
            if len(first) < _MOST_LINES:
                first += work.decode_lines(batch.slice(0, _MOST_LINES - len(first))).to_pylist()
                if len(first) == _MOST_LINES:
                    printed = _print(first)
                    begin_waiting("counting the records")
    finally:
        end_waiting()
        if 0 < len(first) < _MOST_LINES:
            printed = _print(first)
    more = f"{counted(count - printed, 'more record')}. " if count > printed else ""
    return (
        f"{more}--wide and a pipe have all records in full, each as a JSON object: | jq . shows it in several lines, "
        "| less -S cuts the lines"
    )


def _print(lines: Sequence[str]) -> int:
    """Print as many records as a screen has room for, and return their number."""
    records = [json.loads(line) for line in lines]
    rows = [[_value(record, column.name) for column in _COLUMNS] for record in records]
    # An offset says nothing without its log partition, unless all records are from one.
    first, *others = _COLUMNS
    if len({record.get("log_partition") for record in records}) > 1:
        first = replace(first, rank=1)
    return print_table([first, *others], rows, most_lines=_MOST_LINES, is_excerpt=True)


def _value(record: Mapping[str, Any], name: str) -> object:
    value = record.get(name)
    if name in ("record", "value"):
        text = cut(neutral(record_text(record)), _LONGEST)
        if not text:
            return None
        return text if (width_of(text) <= _SHORT) is (name == "record") else _ELSEWHERE
    if name == "kind":
        return value or record.get("error_class")
    return datetime.fromisoformat(value) if name == "log_timestamp" and value else value


def record_text(record: Mapping[str, Any]) -> str:
    """Return the content of a record as text: what it is about, then its fields.

    >>> record_text({"topic": "orders", "partition": 3, "committed_offset": 20, "is_tombstone": False})
    'orders-3: 20'
    >>> record_text({"value_json": None, "is_tombstone": True})
    'tombstone'
    >>> record_text({"member_id": "a-1", "key_json": {"groupId": "g", "memberId": "a-1"}, "value_json": {"state": 0}})
    'member a-1: state=0'
    """
    if record.get("error_class"):
        return str(record.get("error_message") or "")
    if record.get("control_type"):
        return f"{record['control_type']} of producer {record['producer_id']}"
    tombstone = "tombstone" if record.get("is_tombstone") else None
    if record.get("topic") is not None:
        return f"{record['topic']}-{record['partition']}: {tombstone or record['committed_offset']}"
    text = tombstone or _fields_text(record.get("value_json"))
    about = [f"member {record['member_id']}"] if record.get("member_id") else []
    key = record.get("key_json")
    key = key if isinstance(key, dict) else {"key": key}
    about += [value for name, value in key.items() if name not in _SHOWN_KEYS and value]
    return ": ".join(filter(None, [" ".join(map(str, about)), text]))


_SHOWN_KEYS = ("group", "groupId", "memberId")
"""Fields of keys that other parts of the line have."""


def _fields_text(value: object) -> str:
    """Return the fields that are not empty, in the order of the record, without hashes and times.

    >>> _fields_text({"protocolType": "consumer", "metadataHash": 7, "epoch": 4, "leader": None, "members": []})
    'protocolType=consumer epoch=4 0 members'
    >>> _fields_text({"topicPartitions": [{"topicId": "A", "partitions": [0, 1, 2]}], "topics": ["x", "y"]})
    'topicPartitions=A:0-2 topics=x,y'
    >>> _fields_text({"leader": "a-2", "members": [{"memberId": "a-1"}, {"memberId": "a-2"}]})
    '2 members (a-1, leader a-2)'
    >>> _fields_text({"leader": "a-2", "members": None}), _fields_text(None), _fields_text([1])
    ('leader=a-2 members=null', '', '[1]')
    """
    if not isinstance(value, dict):
        return "" if value is None else to_json(value)
    fields = [
        (name, field)
        for name, field in value.items()
        if name == "members" or (field not in (None, "", []) and not _LEFT_OUT.fullmatch(name))
    ]
    leader, members = value.get("leader"), value.get("members")
    if isinstance(members, list) and any(isinstance(each, dict) and each.get("memberId") == leader for each in members):
        fields = [(name, field) for name, field in fields if name != "leader"]
    return " ".join(_field_text(name, field, leader) for name, field in fields)


def _field_text(name: str, field: Any, leader: str | None) -> str:
    if not isinstance(field, list):
        return f"{name}={field if isinstance(field, str) else to_json(field)}"
    if field and all(isinstance(item, str) for item in field):
        return f"{name}={','.join(field)}"
    if field and all(isinstance(item, dict) and "partitions" in item for item in field):
        return f"{name}={','.join(map(_partitions_text, field))}"
    members = [str(item["memberId"]) for item in field if isinstance(item, dict) and "memberId" in item]
    members = [f"leader {member}" if member == leader else member for member in members]
    names = f" ({', '.join(members)})" if members else ""
    return f"{counted(len(field), name.removesuffix('s'))}{names}"


def _partitions_text(item: Mapping[str, Any]) -> str:
    """Return a topic, or a subtopology of a streams group, with its partitions."""
    name = item.get("topicName") or item.get("topicId") or item.get("subtopologyId")
    numbers = item["partitions"]
    return f"{name}:{partition_ranges(sorted(numbers))}" if isinstance(numbers, list) else f"{name}:{numbers}"
