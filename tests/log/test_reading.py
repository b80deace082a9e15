"""Records of a file in batches that are bounded by rows and by bytes."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.log import reading
from coordinator_replay.log.reading import bounded, gather_records
from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.log.segment import SegmentPart

texts = st.one_of(st.none(), st.binary(max_size=30))
lists_of_records = st.lists(st.tuples(texts, texts), max_size=40)


def records(pairs, first=0):
    rows = [{"log_offset": first + place, "key": key, "value": value} for place, (key, value) in enumerate(pairs)]
    return pa.RecordBatch.from_pylist(rows, schema=LOG_RECORD)


def size(batch):
    return sum(len(value or b"") for name in ("key", "value") for value in batch.column(name).to_pylist())


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(reading, "BATCH_BYTES", 64)
    monkeypatch.setattr(reading, "BATCH_ROWS", 8)


@given(pairs=lists_of_records)
def test_slices_are_bounded_and_together_the_batch(pairs):
    batch = records(pairs)
    slices = list(bounded(batch))
    assert pa.Table.from_batches(slices, LOG_RECORD) == pa.Table.from_batches([batch], LOG_RECORD)
    assert all(one.num_rows == 1 or size(one) <= 64 for one in slices if one.num_rows)


@given(parts=st.lists(lists_of_records, max_size=8))
def test_parts_are_gathered_in_order_and_no_batch_grows_far_beyond_a_bound(parts):
    given_parts = [SegmentPart(records=records(pairs, 100 * place)) for place, pairs in enumerate(parts)]
    batches = list(gather_records(given_parts))
    found = [offset for batch in batches for offset in batch.column("log_offset").to_pylist()]
    assert found == [offset for part in given_parts for offset in part.records.column("log_offset").to_pylist()]
    # What brings a batch over a bound is a slice that is within it, or one record.
    assert all(size(batch) < 64 + 64 for batch in batches)
