"""Anchors: which records are chosen, and that they are found again in any copy that still has them."""

import io
import random
from pathlib import Path

import pyarrow as pa
import pytest

from coordinator_replay.completeness.anchors import MOST, Anchor, choose
from coordinator_replay.log.dump import DumpFile
from coordinator_replay.log.reading import gather_records, read_file
from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.log.segment import read_segment
from coordinator_replay.pipeline.read.anchors import candidates, compare, record_hash
from coordinator_replay.times import moment_of_ms
from tests.log.writer import LogEntry, write_batch
from tests.samples import NAMES, Sample


def records_of(*batches: bytes, log_partition: int = 3) -> pa.RecordBatch:
    parts = read_segment(io.BytesIO(b"".join(batches)), source="s", log_partition=log_partition)
    return pa.concat_batches([part.records for part in parts])


def batch(base, keys, *, at=1_000, epoch=0, value=b"v", **options):
    entries = [LogEntry(key=key, value=value, timestamp_ms=at + number) for number, key in enumerate(keys)]
    return write_batch(entries, base_offset=base, leader_epoch=epoch, **options)


def anchor(offset, *, epoch=0, is_live=False, text="h"):
    return Anchor(offset, moment_of_ms(offset), text, epoch, is_live)


def sample_records(name):
    for path in sorted(Path(Sample(name).segments).rglob("*.log")):
        partition = int(path.parent.name.rsplit("-", 1)[1])
        for records in gather_records(read_file(DumpFile(str(path), partition, path.stat().st_size))):
            yield partition, records


def anchors_of(name):
    found = {}
    for _, records in sample_records(name):
        for partition, anchors in candidates(records):
            found[partition] = choose([*found.get(partition, ()), *anchors])
    return found


def test_few_anchors_are_all_kept_each_offset_once():
    found = [anchor(5), anchor(3), anchor(5, epoch=2), anchor(3, is_live=True)]
    assert choose(found) == [anchor(3, is_live=True), anchor(5, epoch=2)]


def test_of_many_anchors_the_newest_the_oldest_and_live_ones_are_kept():
    every = [anchor(offset, is_live=offset % 1000 == 500) for offset in range(100_000)]
    offsets = [one.log_offset for one in choose(every)]
    assert len(offsets) == MOST
    assert {0, 1, 99_999 - 32_768, 99_999 - 4096, 99_999 - 512, 99_999 - 64, 99_999 - 8, 99_999} <= set(offsets)
    assert sum(offset % 1000 == 500 for offset in offsets) == 8
    assert offsets == sorted(offsets)


def test_a_choice_of_choices_is_spread_as_well_as_one_of_all():
    every = [anchor(offset) for offset in range(10_000)]
    chosen = []
    for start in range(0, 10_000, 500):
        chosen = choose([*chosen, *every[start : start + 500]])
    offsets = [one.log_offset for one in chosen]
    assert len(offsets) == MOST
    assert offsets[:2] == [0, 1]
    assert offsets[-1] == 9_999
    assert any(9_999 - 600 <= offset <= 9_999 - 64 for offset in offsets)
    assert any(2_000 <= offset <= 6_000 for offset in offsets)


def test_records_whose_key_does_not_come_again_are_live():
    keys = [b"rare", *[b"often"] * 5000, b"gone"]
    values = [b"v"] * 5001 + [None]
    entries = [LogEntry(key=key, value=value, timestamp_ms=1) for key, value in zip(keys, values, strict=True)]
    [(partition, found)] = candidates(records_of(write_batch(entries, base_offset=0)))
    live = [one.log_offset for one in found if one.is_live]
    assert partition == 3
    assert live == [0, 5000]


def test_an_anchor_carries_what_the_cleaner_never_changes():
    [(_, [found])] = candidates(records_of(batch(7, [b"k"], at=123, epoch=4)))
    assert found == Anchor(7, moment_of_ms(123), record_hash(b"k", b"v"), 4, True)
    cleaned = records_of(batch(7, [b"k"], at=123, epoch=4, delete_horizon_ms=999_999, codec="gzip"))
    [(_, [again])] = candidates(cleaned)
    assert again == found


def test_control_records_and_damage_are_no_anchors():
    marker = write_batch([LogEntry(key=b"\0\0\0\1", value=b"\0" * 6)], base_offset=0, is_control=True)
    damaged = bytearray(batch(1, [b"k"]))
    damaged[-1] ^= 1
    records = records_of(marker, bytes(damaged), batch(2, [b"k"]))
    assert records.column("error_class").null_count < records.num_rows
    [(_, found)] = candidates(records)
    assert [one.log_offset for one in found] == [2]


def test_a_time_that_one_side_lacks_does_not_count():
    assert anchor(1).is_same(anchor(1)._replace(log_timestamp=None, leader_epoch=None))
    assert not anchor(1).is_same(anchor(1)._replace(log_timestamp=moment_of_ms(5)))
    assert not anchor(1).is_same(anchor(1, text="i"))


@pytest.mark.parametrize("name", NAMES)
def test_every_anchor_of_a_log_is_found_in_it(name):
    anchors = anchors_of(name)
    compared = [one for _, records in sample_records(name) for one in compare(records, anchors)]
    assert compared
    assert all(one.is_same for one in compared)
    places = {(partition, one.log_offset) for partition, of_partition in anchors.items() for one in of_partition}
    assert {(one.log_partition, one.anchor.log_offset) for one in compared} == places


@pytest.mark.parametrize("name", NAMES)
def test_of_a_thinned_copy_those_that_are_left_are_found_and_no_other_one(name):
    anchors, chance = anchors_of(name), random.Random(name)
    found = set()
    left = set()
    for _, records in sample_records(name):
        kept = records.take(pa.array(sorted(chance.sample(range(records.num_rows), records.num_rows // 3)), pa.int64()))
        left |= set(zip(*(kept.column(one).to_pylist() for one in ("log_partition", "log_offset")), strict=True))
        for one in compare(kept, anchors):
            assert one.is_same
            found.add((one.log_partition, one.anchor.log_offset))
    places = {(partition, one.log_offset) for partition, of_partition in anchors.items() for one in of_partition}
    assert found == places & left


def test_records_of_other_log_partitions_are_not_compared():
    records = records_of(batch(0, [b"a", b"b"]))
    assert compare(records, {4: [anchor(0), anchor(1)]}) == []
    assert compare(records, {}) == []
    assert compare(pa.RecordBatch.from_pylist([], schema=LOG_RECORD), {3: [anchor(0)]}) == []
    assert [one.is_same for one in compare(records, {3: [anchor(1)]})] == [False]
