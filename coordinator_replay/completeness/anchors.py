"""Anchors: single records of a log partition by which a later audit recognises that a dump is of the same log.

Two clusters have the same offsets, so offsets alone prove nothing. An anchor is what the cleaner never changes of a
record: its offset, its timestamp, its key and value. The cleaner rewrites batches, so an anchor has nothing of the
batch but the leader epoch, which stays (``org.apache.kafka.storage.internals.log.Cleaner``).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

MOST = 16
"""How many anchors of a log partition are kept."""

NEWEST = (0, 8, 64, 512, 4096, 32768)
"""How far below the newest record those lie that bound the place where a truncated log parts from the earlier one."""
OLDEST = 2
LIVE = 8
_NO_EPOCH = -1


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
        """Return whether two anchors at one offset are of one record; a time that one of them lacks does not count."""
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
    """Return so many of some places, evenly."""
    if len(places) <= most:
        return list(places)
    return [places[len(places) * number // most] for number in range(most)]
