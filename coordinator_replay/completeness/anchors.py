"""Anchors: single records of a log partition by which a later audit recognises the same log.

Logs of two clusters have the same offsets, so offsets alone prove nothing. An anchor has the parts of a record that the
cleaner never changes: its offset, its timestamp, a hash of its key and value. The cleaner rewrites batches and keeps
only their leader epoch (``org.apache.kafka.storage.internals.log.Cleaner``). So an anchor has only the leader epoch of
its record's batch.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

MOST = 16
"""Number of anchors that are kept for each log partition."""

NEWEST = (0, 8, 64, 512, 4096, 32768)
"""Distances from the newest record at which anchors are kept, to bound the offset at which a truncated log diverged."""
OLDEST = 2
LIVE = 8
_NO_EPOCH = -1


class Anchor(NamedTuple):
    """Facts about a record, by which a later audit recognises the same log.

    Attributes:
        log_timestamp: timestamp of the record; None if the record has none.
        hash: hash of key and value, in hexadecimal digits.
        leader_epoch: leader epoch of the record's batch; None if the input does not have leader epochs.
        is_live: whether the next compaction is likely to keep the record. This field is not stored for later runs.
    """

    log_offset: int
    log_timestamp: datetime | None
    hash: str
    leader_epoch: int | None
    is_live: bool = False

    def is_same(self, other: "Anchor") -> bool:
        """Return whether two anchors at the same log offset describe the same record.

        Times are compared only if both anchors have one.
        """
        times = {self.log_timestamp, other.log_timestamp} - {None}
        return self.hash == other.hash and len(times) < 2

    def row(self) -> dict[str, Any]:
        """Return the anchor as an entry of ``log_partitions.anchors``."""
        row = self._asdict()
        del row["is_live"]
        return row

    @property
    def when(self) -> str:
        """Return the time of the record as text, to be used in a sentence."""
        at = self.log_timestamp
        return "an unknown time" if at is None else f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


class Comparison(NamedTuple):
    """A record that an earlier run kept, and the dump's record at the same log offset.

    Attributes:
        anchor: facts about the record that an earlier run kept.
        other: the same facts about the dump's record.
    """

    log_partition: int
    anchor: Anchor
    other: Anchor

    @property
    def is_same(self) -> bool:
        """Return whether the dump still has the record that an earlier run kept for comparison."""
        return self.anchor.is_same(self.other)


def choose(anchors: Iterable[Anchor], most: int = MOST) -> list[Anchor]:
    """Choose anchors of one log partition.

    If there are too many candidates, choose some of the newest, the two oldest, and some that are likely to outlive
    the next compaction. Then choose others, evenly spread, until there are ``most`` anchors.

    Args:
        anchors: the candidates. If several are at the same log offset, the one with the highest leader epoch counts.
        most: largest number of anchors to keep.

    Returns:
        The chosen anchors, ordered by log offset.
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
    near_end = np.searchsorted(offsets, offsets[-1] - np.array(NEWEST), "right") - 1
    chosen = {*near_end[near_end >= 0].tolist(), *range(OLDEST)}
    live = [place for place, anchor in enumerate(every) if anchor.is_live and place not in chosen]
    chosen.update(spread(live, LIVE))
    rest = [place for place in range(len(every)) if place not in chosen]
    chosen.update(spread(rest, most - len(chosen)))
    return [every[place] for place in sorted(chosen)]


def _epoch(anchor: Anchor) -> int:
    return _NO_EPOCH if anchor.leader_epoch is None else anchor.leader_epoch


def spread(places: Sequence[int], most: int) -> list[int]:
    """Return ``most`` evenly spread elements of ``places``, or all elements if there are fewer."""
    if len(places) <= most:
        return list(places)
    return [places[len(places) * number // most] for number in range(most)]
