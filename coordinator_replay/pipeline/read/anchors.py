"""Anchors: single records of a log partition by which a later audit recognises that a dump is of the same log.

Offsets alone don't say so: two clusters have the same ones. An anchor is what the cleaner never changes of a record:
its offset, its timestamp, its key and value. Batches are rewritten by the cleaner, so nothing of them is in an anchor
but the leader epoch, which stays (``org.apache.kafka.storage.internals.log.Cleaner``).
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.columns import Numbers, as_bools, numbers_of

MOST = 16
"""How many anchors of a log partition are kept."""

_NEWEST = (0, 8, 64, 512, 4096, 32768)
"""How far below the newest record those lie that bound the place where a truncated log parts from the earlier one."""
_OLDEST = 2
_LIVE = 8
_LIVE_WINDOW = 8192
"""In so many records of a batch it is looked for those whose key does not come again."""
_NO_NUMBER = -1


class Anchor(NamedTuple):
    """One record.

    Attributes:
        log_timestamp: None where it has none.
        hash: of key and value, in hexadecimal digits.
        leader_epoch: of its batch; None where the input doesn't say.
        is_live: whether it is likely to outlive the next compaction: nothing newer of its key was near, or it has
            outlived one; not kept from run to run.
    """

    log_offset: int
    log_timestamp: datetime | None
    hash: str
    leader_epoch: int | None
    is_live: bool = False

    def is_same(self, other: "Anchor") -> bool:
        """Return whether two anchors at one offset are of one record; a time that one of them lacks doesn't count."""
        times = {self.log_timestamp, other.log_timestamp} - {None}
        return self.hash == other.hash and len(times) < 2

    def row(self) -> dict[str, Any]:
        """Return the anchor as ``log_partitions.anchors`` has it."""
        row = self._asdict()
        del row["is_live"]
        return row

    @property
    def when(self) -> str:
        """Return its time for a sentence."""
        at = self.log_timestamp
        return "an unknown time" if at is None else f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


class Comparison(NamedTuple):
    """A record of a dump at the offset of an anchor.

    Attributes:
        anchor: what an earlier run has kept.
        other: the same of the dump's record.
    """

    log_partition: int
    anchor: Anchor
    other: Anchor

    @property
    def is_same(self) -> bool:
        """Return whether both are one record."""
        return self.anchor.is_same(self.other)


def record_hash(key: bytes | None, value: bytes | None) -> str:
    """Return the hash of a record's key and value; null is another thing than no bytes.

    >>> record_hash(b"k", None), record_hash(b"k", b"")
    ('577c57769ccf9a9d', '6d7ac64c1578d975')
    """
    made = hashlib.blake2b(digest_size=8)
    for part in (key, value):
        made.update((_NO_NUMBER if part is None else len(part)).to_bytes(8, "big", signed=True))
        made.update(part or b"")
    return made.hexdigest()


def choose(anchors: Iterable[Anchor], most: int = MOST) -> list[Anchor]:
    """Choose anchors of one log partition: some of the newest, the oldest, and of those that may be there for long.

    Args:
        anchors: what there is to choose from; of several at one offset that of the highest leader epoch counts.
        most: how many are kept at most.

    Returns:
        by offset.
    """
    best: dict[int, Anchor] = {}
    for anchor in anchors:
        other = best.setdefault(anchor.log_offset, anchor)
        if (_epoch(anchor), anchor.is_live) > (_epoch(other), other.is_live):
            best[anchor.log_offset] = anchor
    every = [best[offset] for offset in sorted(best)]
    if len(every) <= most:
        return every
    offsets = np.array([anchor.log_offset for anchor in every])
    near_end = np.searchsorted(offsets, offsets[-1] - np.array(_NEWEST), "right") - 1
    chosen = {*near_end[near_end >= 0].tolist(), *range(_OLDEST)}
    live = [place for place, anchor in enumerate(every) if anchor.is_live and place not in chosen]
    chosen.update(_spread(live, _LIVE))
    rest = [place for place in range(len(every)) if place not in chosen]
    chosen.update(_spread(rest, most - len(chosen)))
    return [every[place] for place in sorted(chosen)]


def _epoch(anchor: Anchor) -> int:
    return _NO_NUMBER if anchor.leader_epoch is None else anchor.leader_epoch


def _spread(places: Sequence[int], most: int) -> list[int]:
    """Return a number of some places, evenly spread."""
    if len(places) <= most:
        return list(places)
    return [places[len(places) * number // most] for number in range(most)]


def candidates(records: pa.RecordBatch) -> Iterator[tuple[int, list[Anchor]]]:
    """Yield records of a batch that may become anchors, by log partition: never more than a handful of each.

    Damage can't be looked up again, and exports have no control records.

    Args:
        records: in ``LOG_RECORD``, of each log partition mostly in the order of offsets.
    """
    partitions = numbers_of(records.column("log_partition"), _NO_NUMBER)
    is_record = records.column("error_class").is_null().to_numpy(zero_copy_only=False)
    is_record &= records.column("control_type").is_null().to_numpy(zero_copy_only=False)
    is_record &= (partitions >= 0) & (numbers_of(records.column("log_offset"), _NO_NUMBER) >= 0)
    for partition in sorted(pc.unique(pa.array(partitions[is_record])).to_pylist()):
        [rows] = np.nonzero(is_record & (partitions == partition))
        chosen = np.unique(np.concatenate([rows[:_OLDEST], _near_end(rows), rows[_spread(range(len(rows)), MOST)]]))
        live = _live(records, rows[-_LIVE_WINDOW:])
        anchors = [*_anchors(records, chosen), *_anchors(records, live, is_live=True)]
        yield partition, choose(anchors)


def _near_end(rows: Numbers) -> Numbers:
    places = len(rows) - 1 - np.array(_NEWEST)
    chosen: Numbers = rows[places[places >= 0]]
    return chosen


def _live(records: pa.RecordBatch, rows: Numbers) -> Numbers:
    """Return some of those rows whose key has no later one among them, and a value."""
    taken = pa.array(rows)
    keys = pc.dictionary_encode(records.column("key").take(taken))
    codes = numbers_of(keys.indices, _NO_NUMBER)
    _, from_end = np.unique(codes[::-1], return_index=True)
    last = np.sort(len(rows) - 1 - from_end)
    is_alive = as_bools(records.column("value").take(taken).is_valid()) & (codes >= 0)
    chosen: Numbers = rows[_spread(last[is_alive[last]].tolist(), _LIVE)]
    return chosen


def _anchors(records: pa.RecordBatch, rows: Numbers, *, is_live: bool = False) -> list[Anchor]:
    taken = pa.array(rows)
    names = ("log_offset", "log_timestamp", "leader_epoch", "key", "value")
    offsets, times, epochs, keys, values = (records.column(name).take(taken).to_pylist() for name in names)
    hashes = map(record_hash, keys, values)
    return [Anchor(*values, is_live) for values in zip(offsets, times, hashes, epochs, strict=True)]


def compare(records: pa.RecordBatch, anchors: Mapping[int, Sequence[Anchor]]) -> list[Comparison]:
    """Compare the records of a batch with anchors.

    Args:
        records: in ``LOG_RECORD``.
        anchors: by log partition.
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
