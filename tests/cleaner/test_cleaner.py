"""The model of the log cleaner: what it leaves is what Kafka's may leave, and what our reader reads back."""

from pathlib import Path
from random import Random

import pytest

from tests.cleaner.batches import checked, read_batches
from tests.cleaner.broker_log import BrokerLog, surviving_records
from tests.cleaner.recorded_log import RecordedPartition, recorded_log
from tests.cleaner.rounds import Round, clean
from tests.samples import NAMES, Sample

WHOLE = [name for name in NAMES if name != "compacted"]
"""Samples of which nothing was compacted away before."""


def read(files):
    return [batch for name in sorted(files) for batch in read_batches(files[name])]


def written(name, roll, seed=0):
    """The log partitions of a sample, rolled at random."""
    for one in recorded_log(Sample(name).segments).partitions.values():
        one.write(len(one.batches), Random(seed), roll=roll)
        one.log.roll()
        yield one


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_read_is_what_the_files_have(name):
    life = recorded_log(Sample(name).segments)
    for partition, one in life.partitions.items():
        data = b"".join(file.read_bytes() for file in sorted(Path(Sample(name).segments, partition).glob("*.log")))
        assert b"".join(batch.raw for batch in one.batches) == data


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", WHOLE)
def test_after_random_rounds_the_last_record_of_each_key_is_there_and_nothing_was_changed(name, seed):
    random = Random(f"{name} {seed}")
    for one in recorded_log(Sample(name).segments).partitions.values():
        one.write_randomly(len(one.batches), random)
        before, after = surviving_records(one.batches), surviving_records(list(one.log.batches))
        assert after.items() <= before.items()
        uncleanable = one.log.first_uncleanable_offset
        assert {offset for offset in before if offset >= uncleanable} <= set(after)
        aborted = aborted_offsets(one)
        latest = {key: offset for offset, (key, _, _) in before.items() if offset not in aborted}
        for key, offset in latest.items():
            is_tombstone = before[offset][1] is None
            is_control = one_is_control(one, offset)
            left = [place for place, (found, _, _) in after.items() if found == key and place not in aborted]
            assert is_control or offset in left or (is_tombstone and not left)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", WHOLE)
def test_what_is_written_is_read_back(name, seed):
    random = Random(f"{name} {seed}")
    for one in recorded_log(Sample(name).segments).partitions.values():
        one.write_randomly(len(one.batches), random)
        back = read(one.log.files())
        assert back == list(one.log.batches)
        assert all(checked(batch.raw) for batch in back if batch.magic == 2)


def test_a_round_leaves_the_last_record_of_each_key_and_the_bounds_of_thinned_batches():
    for one in written("group-lifecycles", 0.1):
        bounds = {(batch.base_offset, batch.last_offset) for batch in one.batches}
        assert clean(one.log, Round(now_ms=one.log.now_ms))
        assert one.log.checkpoint == one.log.end_offset
        assert {(batch.base_offset, batch.last_offset) for batch in one.log.batches} <= bounds
        keys = [record.key for batch in one.log.batches if not batch.is_control for record in batch.records]
        assert len(keys) == len(set(keys)) < sum(len(batch.records) for batch in one.batches)
        assert list(one.log.batches)[-1].last_offset == one.log.end_offset - 1


def test_tombstones_stay_for_their_retention_and_go_then():
    for one in written("group-lifecycles", 0.1):
        clean(one.log, Round(now_ms=one.log.now_ms, delete_retention_ms=1000))
        marked = [batch for batch in one.log.batches if batch.delete_horizon_ms is not None]
        assert marked and all(any(record.value is None for record in batch.records) for batch in marked)
        now = max(batch.delete_horizon_ms or 0 for batch in marked)
        for moment, are_left in ((now - 1, True), (now, False)):
            again = one.log.copy()
            again.checkpoint = 0
            clean(again, Round(now_ms=moment))
            left = [record for batch in again.batches for record in batch.records if record.value is None]
            assert bool(left) is are_left


def test_aborted_records_go_at_once_and_their_markers_once_none_are_left():
    one = next(one for one in written("transactions", 0) if one.log.aborted)
    assert one.log.last_stable_offset < one.log.end_offset  # one transaction was left open
    unstable = next(place for place, batch in enumerate(one.batches) if batch.base_offset == one.log.last_stable_offset)
    life = RecordedPartition(one.batches[:unstable])
    life.write(unstable, Random(0), roll=0)
    life.log.roll()
    aborted = aborted_offsets(life)
    assert aborted
    now = life.log.now_ms
    forgotten = frozenset(life.log.producers)
    clean(life.log, Round(now_ms=now, delete_retention_ms=10, forgotten_producers=forgotten))
    assert not aborted & set(surviving_records(list(life.log.batches)))
    for wait in (1, 12, 24):  # the marker's horizon is set by the round that meets no batch of its transaction
        life.log.checkpoint = 0
        clean(life.log, Round(now_ms=now + wait, delete_retention_ms=10, forgotten_producers=forgotten))
    last = life.log.end_offset - 1
    assert not [batch for batch in life.log.batches if batch.is_abort and batch.last_offset != last]


def test_nothing_from_the_last_stable_offset_on_is_touched():
    one = next(one for one in written("transactions", 0.3) if one.log.last_stable_offset < one.log.end_offset)
    before = surviving_records(one.batches)
    stable = one.log.last_stable_offset
    clean(one.log, Round(now_ms=one.log.now_ms, delete_retention_ms=0))
    after = surviving_records(list(one.log.batches))
    assert {offset for offset in before if offset >= stable} <= set(after)
    assert one.log.checkpoint <= stable


def test_a_full_map_ends_a_round_in_mid_segment_and_the_next_goes_on_from_there():
    one = next(iter(written("group-lifecycles", 0)))
    assert clean(one.log, Round(now_ms=one.log.now_ms, map_slots=20))
    middle = one.log.checkpoint
    assert 0 < middle < one.log.end_offset
    kept = surviving_records(list(one.log.batches))
    assert {offset for offset in surviving_records(one.batches) if offset >= middle} <= set(kept)
    assert clean(one.log, Round(now_ms=one.log.now_ms, map_slots=60))
    assert one.log.checkpoint > middle


def test_a_stopped_round_leaves_no_checkpoint_but_what_it_cleaned():
    one = next(one for one in written("group-lifecycles", 0.1) if len(one.log.segments) > 4)
    before = one.log.copy()
    assert clean(one.log, Round(now_ms=one.log.now_ms, segment_bytes=1, stop_after=2))
    assert one.log.checkpoint == 0
    assert one.log.segments[2:] == before.segments[2:]
    assert one.log.segments[:2] != before.segments[:2]


def test_an_active_segment_alone_is_never_cleaned():
    log = BrokerLog()
    for batch in next(iter(written("group-lifecycles", 0))).batches:
        log.append(batch)
    assert not clean(log, Round(now_ms=log.now_ms))


def aborted_offsets(one):
    """Offsets of the records of aborted transactions."""
    whole = BrokerLog()
    for batch in one.batches:
        whole.append(batch)
    return {
        record.offset
        for transaction in whole.aborted
        for batch in one.batches
        if batch.producer_id == transaction.producer_id and not batch.is_control
        if transaction.first_offset <= batch.base_offset < transaction.last_offset
        for record in batch.records
    }


def one_is_control(one, offset):
    return any(batch.is_control and batch.base_offset <= offset <= batch.last_offset for batch in one.batches)
