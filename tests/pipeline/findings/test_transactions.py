"""Transactions that were open for long become one row of evidence each, however many partitions they committed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from coordinator_replay.analysis.findings.thresholds import DEFAULTS
from coordinator_replay.pipeline.findings.statements import long_transactions
from coordinator_replay.tables.definition import table

BEGIN = datetime(2026, 11, 20, 2, tzinfo=UTC)
LIMITS = replace(DEFAULTS, pending_ms=60_000)


def commit(
    partition: int, offset: int, *, topic: str = "orders", minutes: int | None = 5, **more: Any
) -> dict[str, Any]:
    return {
        "group_id": "payments", "topic": topic, "partition": partition, "log_partition": 3, "producer_id": 9,
        "producer_epoch": 0, "from_offset": offset, "to_offset": None if minutes is None else 90, "is_exact": True,
        "pending_since": BEGIN + timedelta(milliseconds=offset), "ended_by": None if minutes is None else "COMMIT",
        "valid_to": None if minutes is None else BEGIN + timedelta(minutes=minutes), **more,
    }  # fmt: skip


def evidence(*commits: dict[str, Any], end: datetime = BEGIN + timedelta(hours=1)) -> list[dict[str, Any]]:
    pending = pa.Table.from_pylist(list(commits), table("pending_offsets").file_schema().remove_metadata())
    rows: list[dict[str, Any]] = long_transactions(pending, end, LIMITS).to_pylist()
    return sorted(rows, key=lambda row: row["from_offset"])


def test_commits_of_one_transaction_are_one_row_that_begins_with_the_first() -> None:
    (row,) = evidence(commit(1, 51, producer_epoch=1), commit(0, 50))
    assert (row["partitions"], row["topic"], row["from_offset"], row["producer_epoch"]) == (2, "orders", 50, 0)
    assert (row["ended_at"] - row["pending_since"], row["ended_by"]) == (300_000 - 50, "COMMIT")
    (mixed,) = evidence(commit(0, 50), commit(0, 51, topic="audit"))
    assert (mixed["partitions"], mixed["topic"]) == (2, None)


def test_another_producer_or_another_end_is_another_transaction() -> None:
    open_one = commit(0, 70, minutes=None)
    rows = evidence(commit(0, 50), commit(1, 60, producer_id=8), open_one)
    assert [(row["producer_id"], row["ended_at"] is None) for row in rows] == [(9, False), (8, False), (9, True)]


def test_short_ones_and_those_that_are_not_proven_are_left_out() -> None:
    assert evidence(commit(0, 50, minutes=1)) == []
    assert evidence(commit(0, 50, is_exact=False)) == []
    assert evidence(commit(0, 50, minutes=None), end=BEGIN + timedelta(seconds=30)) == []


def test_a_transaction_of_which_a_newer_dump_lacks_the_commits_was_open_up_to_the_missing_records() -> None:
    missing = {"ended_by": "RECORDS_MISSING", "to_offset": 80}
    (row,) = evidence(commit(0, 50, **missing))
    assert (row["ended_by"], row["ended_at"] - row["pending_since"]) == ("RECORDS_MISSING", 300_000 - 50)
    assert evidence(commit(0, 50, **missing, valid_to=None)) == []


def test_a_transaction_is_one_finding_if_a_newer_dump_lacks_some_of_its_commits() -> None:
    missing = {"ended_by": "RECORDS_MISSING", "to_offset": 80}
    for minutes in (6, None):
        (row,) = evidence(commit(0, 50, **missing), commit(1, 51, minutes=minutes))
        assert (row["from_offset"], row["ended_by"]) == (51, "COMMIT" if minutes else None)
    assert len(evidence(commit(0, 50, **missing), commit(1, 51, producer_id=8))) == 2
