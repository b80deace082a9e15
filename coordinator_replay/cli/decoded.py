"""Decoded records on a terminal: the main fields of the first ones, and the number of the others.

Anywhere else, and with ``--wide``, ``decode`` prints every record as a JSON object.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from coordinator_replay.answer_columns import AnswerColumn
from coordinator_replay.cli import work
from coordinator_replay.cli.output import print_table, to_json
from coordinator_replay.cli.waiting import begin_waiting, end_waiting
from coordinator_replay.listing import counted

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = (
    AnswerColumn("log_partition", "LOG-PARTITION", 3),
    AnswerColumn("log_offset", "LOG-OFFSET", 1),
    AnswerColumn("log_timestamp", "LOG-TIMESTAMP", 2),
    AnswerColumn("group_id", "GROUP", 2, 10, is_id=True, good=16),
    AnswerColumn("kind", "KIND", 1, 13, is_cut=True, good=20),
    AnswerColumn("record", "RECORD", 1, 20, is_cut=True),
)

_MOST_RECORDS = 16
"""Largest number of records on a terminal, which has a line for each."""


def print_first_records(batches: "Iterable[pa.RecordBatch]") -> str:
    """Print the main fields of the first records, and count all of them.

    Args:
        batches: log records in ``LOG_RECORD``.

    Returns:
        A sentence that says how many records follow, and how to see them.
    """
    first: list[str] = []
    count = 0
    try:
        for batch in batches:
            count += batch.num_rows
            if len(first) < _MOST_RECORDS:
                first += work.decode_lines(batch.slice(0, _MOST_RECORDS - len(first))).to_pylist()
                if len(first) == _MOST_RECORDS:
                    _print(first)
                    begin_waiting("counting the records")
    finally:
        end_waiting()
        if 0 < len(first) < _MOST_RECORDS:
            _print(first)
    more = f"{counted(count - len(first), 'more record')}. " if count > len(first) else ""
    return (
        f"{more}--wide and a pipe have all records in full, each as a JSON object: | jq . shows it in several lines, "
        "| less -S cuts the lines"
    )


def _print(lines: Sequence[str]) -> None:
    records = [json.loads(line) for line in lines]
    rows = [[_value(record, column.name) for column in _COLUMNS] for record in records]
    print_table(_COLUMNS, rows, is_excerpt=True)


def _value(record: Mapping[str, Any], name: str) -> object:
    value = record.get(name)
    if name == "record":
        return record_text(record)
    if name == "kind":
        return value or record.get("error_class")
    return datetime.fromisoformat(value) if name == "log_timestamp" and value else value


def record_text(record: Mapping[str, Any]) -> str:
    """Return the content of a record as one line of a table.

    >>> record_text({"topic": "orders", "partition": 3, "committed_offset": 20, "is_tombstone": False})
    'orders-3: 20'
    >>> record_text({"value_json": None, "is_tombstone": True})
    'tombstone'
    """
    if record.get("error_class"):
        return str(record.get("error_message") or "")
    if record.get("control_type"):
        return f"{record['control_type']} of producer {record['producer_id']}"
    tombstone = "tombstone" if record.get("is_tombstone") else None
    if record.get("topic") is not None:
        return f"{record['topic']}-{record['partition']}: {tombstone or record['committed_offset']}"
    return tombstone or _fields_text(record.get("value_json"))


def _fields_text(value: Mapping[str, Any] | None) -> str:
    """Return the fields that are not empty, the shortest first, so that a narrow line shows as many as possible.

    >>> _fields_text({"protocolType": "consumer", "generation": 4, "leader": None, "members": [{}, {}]})
    '2 members generation=4 protocolType=consumer'
    """
    texts = [
        counted(len(field), name.removesuffix("s"))
        if isinstance(field, list)
        else f"{name}={field if isinstance(field, str) else to_json(field)}"
        for name, field in (value or {}).items()
        if field not in (None, "")
    ]
    return " ".join(sorted(texts, key=len))
