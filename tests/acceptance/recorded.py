"""What was recorded beside the dumps: answers of the brokers, what was done to clients, and Kafka's own decoding."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.acceptance.test_checkpoints import moment, quiet
from tests.samples import Sample, lines

CLOCK = timedelta(milliseconds=1500)
"""The journal notes a commit when the client was told of it; the coordinator took it up to this long before."""

Rows = list[dict[str, Any]]


def at(time: str | int) -> datetime:
    """A time of an answer, or milliseconds of the journal."""
    return datetime.fromtimestamp(time / 1000, UTC) if isinstance(time, int) else datetime.fromisoformat(time)


def journal(name: str, **wanted: object) -> Rows:
    """What was done to the clients, as far as it has these values."""
    return [
        entry
        for entry in lines(Sample(name).folder / "journal.jsonl")
        if all(entry.get(key) == value for key, value in wanted.items())
    ]


def broker_log(name: str) -> Rows:
    """What the coordinator logged."""
    return lines(Sample(name).folder / "broker-log.jsonl")


def answered(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each quiet checkpoint: its time as it is typed, and what the broker answered of each group."""
    for checkpoint in quiet(name):
        yield moment(name, checkpoint).isoformat(), {group["groupId"]: group for group in checkpoint["groups"]}


def last_answer(name: str) -> dict[str, Any]:
    """What the broker answered of each group at the last quiet checkpoint."""
    return list(answered(name))[-1][1]


def decoded(name: str, kind: str | None = None) -> Rows:
    """Records as Kafka's own classes decoded them, control records left out."""
    return [record for record in Sample(name).decoded if "kind" in record and kind in (None, record["kind"])]
