"""Anchors: records that a run keeps, so that a later run can check whether its dump comes from the same log.

This module chooses the records, and compares them with the records of a later dump. See ``completeness.anchors``.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.columns import Numbers, as_bools, numbers_of
from coordinator_replay.completeness.anchors import LIVE, MOST, NEWEST, OLDEST, Anchor, Comparison, choose, spread

_LIVE_WINDOW = 8192
"""Number of records at the end of a batch that are searched for keys without a later record."""
_NO_NUMBER = -1


def record_hash(key: bytes | None, value: bytes | None) -> str:
    """Return the hash of a record's key and value.

    Null and empty bytes have different hashes.

    >>> record_hash(b"k", None), record_hash(b"k", b"")
    ('577c57769ccf9a9d', '6d7ac64c1578d975')
    """
    made = hashlib.blake2b(digest_size=8)
    for part in (key, value):
        made.update((_NO_NUMBER if part is None else len(part)).to_bytes(8, "big", signed=True))
        made.update(part or b"")
    return made.hexdigest()


def candidates(records: pa.RecordBatch) -> Iterator[tuple[int, list[Anchor]]]:
    """Yield a few records of each log partition. A later run looks for them in its dump to recognise the log.

    Damaged records and control records are not chosen.

    Args:
        records: records in ``LOG_RECORD``. Within a log partition, most records are in the order of log offsets.
    """
    partitions = numbers_of(records.column("log_partition"), _NO_NUMBER)
    is_record = records.column("error_class").is_null().to_numpy(zero_copy_only=False)
    is_record &= records.column("control_type").is_null().to_numpy(zero_copy_only=False)
    is_record &= (partitions >= 0) & (numbers_of(records.column("log_offset"), _NO_NUMBER) >= 0)
    for partition in sorted(pc.unique(pa.array(partitions[is_record])).to_pylist()):
        [rows] = np.nonzero(is_record & (partitions == partition))
        chosen = np.unique(np.concatenate([rows[:OLDEST], _near_end(rows), rows[spread(range(len(rows)), MOST)]]))
        live = _live(records, rows[-_LIVE_WINDOW:])
        anchors = [*_anchors(records, chosen), *_anchors(records, live, is_live=True)]
        yield partition, choose(anchors)


def _near_end(rows: Numbers) -> Numbers:
    places = len(rows) - 1 - np.array(NEWEST)
    chosen: Numbers = rows[places[places >= 0]]
    return chosen


def _live(records: pa.RecordBatch, rows: Numbers) -> Numbers:
    """Return at most ``LIVE`` rows, each with the last record of a key. No row has a tombstone.

    Args:
        records: the records of a batch.
        rows: indexes of the rows to look at.
    """
    taken = pa.array(rows)
    keys = pc.dictionary_encode(records.column("key").take(taken))
    codes = numbers_of(keys.indices, _NO_NUMBER)
    _, from_end = np.unique(codes[::-1], return_index=True)
    last = np.sort(len(rows) - 1 - from_end)
    is_alive = as_bools(records.column("value").take(taken).is_valid()) & (codes >= 0)
    chosen: Numbers = rows[spread(last[is_alive[last]].tolist(), LIVE)]
    return chosen


def _anchors(records: pa.RecordBatch, rows: Numbers, *, is_live: bool = False) -> list[Anchor]:
    taken = pa.array(rows)
    names = ("log_offset", "log_timestamp", "leader_epoch", "key", "value")
    offsets, times, epochs, keys, values = (records.column(name).take(taken).to_pylist() for name in names)
    hashes = map(record_hash, keys, values)
    return [Anchor(*values, is_live) for values in zip(offsets, times, hashes, epochs, strict=True)]


def compare(records: pa.RecordBatch, anchors: Mapping[int, Sequence[Anchor]]) -> list[Comparison]:
    """Compare records with the records that earlier runs kept at the same positions (anchors).

    Leave out damaged records.

    Args:
        records: records in ``LOG_RECORD``.
        anchors: the anchors, by log partition.
    """
    wanted = np.unique([anchor.log_offset for of_partition in anchors.values() for anchor in of_partition])
    offsets = numbers_of(records.column("log_offset"), _NO_NUMBER)
    if not len(wanted) or not len(offsets) or offsets.max() < wanted[0] or offsets.min() > wanted[-1]:
        return []
    is_wanted = wanted[np.minimum(np.searchsorted(wanted, offsets), len(wanted) - 1)] == offsets
    is_wanted &= records.column("error_class").is_null().to_numpy(zero_copy_only=False)
    [rows] = np.nonzero(is_wanted)
    places = zip(
        numbers_of(records.column("log_partition"), _NO_NUMBER)[rows].tolist(), offsets[rows].tolist(), strict=True
    )
    by_place = {
        (partition, anchor.log_offset): anchor for partition, of_partition in anchors.items() for anchor in of_partition
    }
    compared = [(row, *place) for row, place in zip(rows.tolist(), places, strict=True) if place in by_place]
    others = _anchors(records, np.array([row for row, _, _ in compared], np.int64))
    return [
        Comparison(partition, by_place[partition, offset], other)
        for (_, partition, offset), other in zip(compared, others, strict=True)
    ]
