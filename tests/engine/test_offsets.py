"""Committed offsets, record by record: plain, transactional, skipped, aborted, removed."""

from typing import Any

import pytest

from coordinator_replay.engine.model import Marker, Record
from coordinator_replay.engine.offsets import Offsets
from coordinator_replay.engine.replay import StateReplay
from tests.engine.described import describe

KEY = ("x", 0)


def commit(
    log_offset: int, value: int | None, producer_id: int = -1, partition: int = 0, log_partition: int = 0
) -> Record:
    fields: dict[str, Any] | None = None
    if value is not None:
        fields = {"offset": value, "leaderEpoch": -1, "metadata": "", "commitTimestamp": log_offset}
    key = {"group": "orders", "topic": "x", "partition": partition}
    return Record("OffsetCommit", key, fields, log_partition, log_offset, log_offset, producer_id=producer_id)


def marker(log_offset: int, *, committed: bool, producer_id: int = 7, log_partition: int = 0) -> Marker:
    return Marker(producer_id, committed, log_partition, log_offset, log_offset)


def stored(*entries: Record | Marker) -> int | None:
    offsets = Offsets()
    for entry in entries:
        if isinstance(entry, Marker):
            offsets.apply_marker(entry)
        else:
            offsets.apply(entry)
    found = offsets.stored.get(KEY)
    return found.committed_offset if found is not None else None


def test_a_plain_commit_counts_at_once_and_the_newest_wins() -> None:
    assert stored(commit(0, 5), commit(1, 3)) == 3


def test_a_transactional_commit_counts_from_its_marker() -> None:
    assert stored(commit(0, 5), commit(1, 9, 7)) == 5
    assert stored(commit(0, 5), commit(1, 9, 7), marker(2, committed=True)) == 9


def test_an_aborted_commit_never_counts() -> None:
    assert stored(commit(0, 5), commit(1, 9, 7), marker(2, committed=False)) == 5


def test_a_plain_commit_made_after_the_pending_one_wins_over_its_marker() -> None:
    assert stored(commit(0, 9, 7), commit(1, 5), marker(2, committed=True)) == 5


def test_a_marker_of_another_producer_or_partition_decides_nothing() -> None:
    assert stored(commit(0, 9, 7), marker(1, committed=True, producer_id=8)) is None
    assert stored(commit(0, 9, 7), marker(1, committed=True, log_partition=3)) is None


def test_a_later_pending_commit_of_the_same_producer_replaces_the_earlier() -> None:
    assert stored(commit(0, 1, 7), commit(1, 2, 7), marker(2, committed=True)) == 2


@pytest.mark.parametrize("producer_id", [-1, 7, 8])
def test_a_tombstone_takes_stored_and_pending_offsets_of_all_producers(producer_id: int) -> None:
    tombstone = commit(3, None, producer_id)
    assert stored(commit(0, 1), commit(1, 2, 7), commit(2, 3, 8), tombstone, marker(4, committed=True)) is None


def test_nothing_is_left_of_offsets_that_were_settled_and_removed() -> None:
    offsets = Offsets()
    offsets.apply(commit(0, 5))
    offsets.apply(commit(1, 9, 7))
    offsets.apply(commit(2, 6))
    assert offsets.pending
    offsets.apply_marker(marker(3, committed=True))
    assert not offsets.pending
    offsets.apply(commit(4, None))
    assert not offsets


def test_a_partition_is_unstable_while_a_transaction_on_it_is_open() -> None:
    offsets = Offsets()
    offsets.apply(commit(0, 9, 7))
    assert offsets.unstable == {KEY}
    offsets.apply_marker(marker(1, committed=False))
    assert offsets.unstable == frozenset()


def test_a_commit_for_a_group_nobody_knows_makes_a_simple_group_that_outlives_its_offsets() -> None:
    replay = StateReplay("orders")
    replay.apply(commit(0, 5))
    replay.apply(commit(1, None))
    group = describe(replay)
    assert group is not None
    assert (group.is_simple, group.state, group.protocol_type) == (True, "Empty", None)


def test_the_tombstone_of_a_group_leaves_its_offsets() -> None:
    replay = StateReplay("orders")
    replay.apply(commit(0, 5))
    replay.apply(Record("GroupMetadata", {"group": "orders"}, None, 0, 1, 1))
    assert describe(replay) is None
    assert replay.offsets.stored[KEY].committed_offset == 5
