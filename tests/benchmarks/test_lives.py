"""The groups that the benchmark makes up live as real ones do: a log that contradicts itself would measure findings."""

from pathlib import Path

import numpy as np
import pytest

from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import GroupState, Record
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.records.blobs import open_blobs
from coordinator_replay.records.plain import decode_record

GROUPS = [f"team-{number}" for number in range(6)]
TOPIC = ("orders.region-000", "AAAAAAAAAAAAAAAAAAAAAQ")


@pytest.fixture
def operations(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    from benchmarks.lives import Lives, Topic

    rng = np.random.default_rng(11)
    topics = [Topic(*TOPIC, partitions) for partitions in (1, 2, 3, 5, 8, 12)]
    return Lives(rng, GROUPS, topics, np.full(len(GROUPS), 1 / len(GROUPS))).take(6_000)


def records_of(operations):
    """The records of each group, an operation a millisecond."""
    offset = 0
    for at_ms, operation in enumerate(operations):
        for key, value in operation:
            told = decode_record(key, value)
            opened = open_blobs(told.kind, told.value)
            version = told.value_version
            yield Record(told.kind, told.key, opened, 0, offset, at_ms, 0, version)
            offset += 1


def group_of(record):
    return record.key.get("groupId") or record.key["group"]


def test_what_they_write_never_contradicts_itself(operations):
    replays: dict[str, StateReplay] = {}
    events = []
    for record in records_of(operations):
        group = group_of(record)
        events += replays.setdefault(group, StateReplay(group)).apply(record)
    kinds = {event.kind for event in events}
    assert EventKind.INVARIANT_BROKEN not in kinds
    assert {EventKind.MEMBER_JOINED, EventKind.MEMBER_LEFT, EventKind.REBALANCE_COMPLETED} <= kinds
    assert {event.to_state for event in events} >= {GroupState.STABLE, GroupState.RECONCILING}
    assert [event for event in events if not event.is_exact][:3] == []
    ended = {group for group, replay in replays.items() if replay.state is GroupState.DEAD}
    assert len(ended) > 5
    assert set(replays) - ended == set(GROUPS)


def test_their_rebalances_have_a_known_reason_and_end(operations):
    lives: dict[str, GroupReplay] = {}
    rows = []
    for record in records_of(operations):
        group = group_of(record)
        life = lives.setdefault(group, GroupReplay("c", group, {TOPIC[1]: TOPIC[0]}))
        rows += [row for name, row in life.feed(record) if name == "rebalances"]
    assert len(rows) > 100
    assert {row["cause"] for row in rows} <= {"GROUP_CREATED", "MEMBER_JOIN", "MEMBER_LEAVE", "MEMBER_RESTART"}
    assert all(row["completed_at"] is not None for row in rows)
