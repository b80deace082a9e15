"""The lost tail: where the logs of two copies diverged, even if the cleaner removed the records that show it.

A leader that is elected without the newest records writes other records at their offsets. The cleaner may remove these
other records. Then the two copies do not differ at any offset that both have, so a comparison offset by offset finds
nothing.

The order in which the cleaner removes records can still show that the logs diverged. The cleaner removes an older
record of a key in the same round as a newer one, or earlier. Partial rounds, full offset maps, tombstones and ``.swap``
files do not change this order.

Assume that all files of the first copy were copied at one moment. The first copy has a record q of a key. The second
copy has a later record r of the same key, and the first copy lacks r. The cleaner would have removed q before r. So the
first copy never had r, or the transaction of r was aborted (``Cleaner.buildOffsetMap`` skips records of aborted
transactions). ``divergence`` follows these rules:

- Upper bound: if r is not transactional, the logs diverged at or below r. If r is transactional and the second copy has
  its COMMIT marker at an offset m, they diverged at or below m. The lowest such offset counts.
- Lower bound: two logs with the same record at an offset are the same below this offset (KIP-101). This also holds for
  two logs with records of the same leader epoch at an offset. The highest such offset counts.
- An entry of ``leader-epoch-checkpoint`` has the offset at which a leader epoch starts. Records of lower epochs at or
  after this offset are lost. The entry proves nothing about records below: the offset is too high if a follower fetched
  a cleaned log.
- After the divergence, each log is a branch. The branch with the higher leader epoch counts. If one of the epochs is
  not known, it is not known which branch counts.
- Both copies may have the same record, or a record of the same leader epoch, at or after r. Then the files of the first
  copy do not come from one moment: they were copied one after the other, or a follower fetched during a cleaning.

No record is certainly lost if the files of the first copy do not come from one moment, or if it is not known which
branch counts. Missing offsets of this copy then prove nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from coordinator_replay.columns import NONE, Bools, Numbers
from coordinator_replay.completeness.copies import Copy
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.log.coverage import EpochStart

NO_EPOCH = -1
"""A leader epoch below all others."""


class Loser(StrEnum):
    """The records that don't count after a divergence: the copy's records or the others. NONE if this is not known."""

    OTHERS = "OTHERS"
    COPY = "COPY"
    NONE = "NONE"


class Divergence(NamedTuple):
    """A divergence between a copy and other records of its log partition.

    Attributes:
        copy: the copy; None for the records of earlier runs.
        other: the copy with the other records; None for the records of earlier runs.
        from_offset: the records of both are the same below this log offset.
        until_offset: the highest log offset at which the difference can begin.
        loser: the side whose records don't count from ``from_offset`` on: COPY for ``copy``, OTHERS for ``other``. NONE
            if this is not known.
        leader_epoch: leader epoch of the records that count; NO_EPOCH if it is not known which records count.
    """

    log_partition: int
    copy: str | None
    other: str | None
    from_offset: int
    until_offset: int
    loser: Loser
    leader_epoch: int


class EpochBounds(NamedTuple):
    """Lower and upper bound of a leader epoch.

    The bounds are equal if the epoch is known.
    """

    lowest: int = NO_EPOCH
    highest: int = LARGEST_INT64

    @classmethod
    def of(cls, leader_epoch: int | None) -> "EpochBounds":
        """Return the bounds of a leader epoch.

        For None, return bounds that include every epoch.
        """
        return cls() if leader_epoch is None else cls(leader_epoch, leader_epoch)


@dataclass(frozen=True, slots=True)
class LogRecords:
    """Records of a log partition, ordered by log offset.

    Attributes:
        keys: a hash of each record's key.
        contents: a hash of each record's value.
        times: each record's timestamp; NONE if it has none.
        decided: the log offset from which each record counts. For a record in a transaction, this is the log offset of
            the COMMIT marker. It is LARGEST_INT64 if the record does not count, or if nobody knows whether it counts.
        lowest_epochs: the lowest possible leader epoch at ``decided``, or at the record itself if ``decided`` is
            LARGEST_INT64.
        highest_epochs: the highest possible leader epoch at the same log offset.
    """

    offsets: Numbers
    keys: Numbers
    contents: Numbers
    times: Numbers
    decided: Numbers
    lowest_epochs: Numbers
    highest_epochs: Numbers


@dataclass(frozen=True, slots=True)
class SegmentCopy:
    """A copy of segments that is compared with other records.

    Attributes:
        name: name of the copy; None for the records of earlier runs.
        copy: the ranges of log offsets that the copy has.
        records: decoded records of the copy.
        leader_epoch: bounds of the leader epoch at the end of the copy.
        is_moment: whether the files of the copy show the log at one point in time. False if they were copied one after
            the other while the log changed.
        starts: the log offsets at which leader epochs begin in the copy.
        checkpoint: leader epochs and their first log offsets, from ``leader-epoch-checkpoint``.
    """

    name: str | None
    copy: Copy
    records: LogRecords
    leader_epoch: EpochBounds
    is_moment: bool = True
    starts: Sequence[EpochStart] = ()
    checkpoint: Sequence[tuple[int, int]] = ()

    def last_offset_of(self, leader_epoch: int, below: int = LARGEST_INT64) -> int:
        """Return the last log offset below ``below`` whose record is certainly of this leader epoch.

        Return -1 if there is none.
        """
        records = self.records
        is_of_epoch = (records.lowest_epochs == leader_epoch) & (records.highest_epochs == leader_epoch)
        is_of_epoch &= records.decided == records.offsets
        ends = [following.after for start, following in zip(self.starts, self.starts[1:], strict=False)
                if start.leader_epoch == leader_epoch]  # fmt: skip
        offsets = [*records.offsets[is_of_epoch & (records.offsets < below)][-1:].tolist(), *ends]
        return max((offset for offset in offsets if offset < below), default=-1)


class _Match(NamedTuple):
    """The result of comparing other records with a copy; each array has an entry for each of the other records.

    Attributes:
        are_same: whether the copy has the same record.
        are_replaced: whether the copy has a different record at the record's offset.
        are_lacking: whether the copy covers the record's offset and has no record there.
    """

    are_same: Bools
    are_replaced: Bools
    are_lacking: Bools


def divergence(copy: SegmentCopy, others: LogRecords, other: str | None) -> Divergence | None:
    """Return where the log of a copy diverged from the log of other records.

    Return None if nothing shows a divergence.

    Args:
        copy: a copy of segments.
        others: records of the same log partition.
        other: the copy with these records; None for the records of earlier runs.
    """
    match = _matched(copy, others)
    shows = np.where(match.are_replaced, others.offsets, others.decided)
    shows[~(match.are_replaced | _outlived(copy, others, match)) | (not copy.is_moment)] = LARGEST_INT64
    first = int(shows.argmin()) if len(shows) else 0
    until = int(shows[first]) if len(shows) else LARGEST_INT64
    epoch = (
        EpochBounds(int(others.lowest_epochs[first]), int(others.highest_epochs[first]))
        if until < LARGEST_INT64
        else None
    )
    noted = _noted(copy, others)
    if noted is not None and noted[1] <= until:
        until, epoch = noted[1], EpochBounds(NO_EPOCH, noted[0] - 1)
    if epoch is None:
        return None
    common = int(others.offsets[match.are_same].max(initial=-1))
    if _is_torn(copy, common, until, epoch):
        return Divergence(copy.copy.bounds.log_partition, copy.name, other, until, until, Loser.NONE, NO_EPOCH)
    if epoch.lowest == epoch.highest:
        common = max(common, copy.last_offset_of(epoch.lowest, until))
    loser, counting = losing(copy.leader_epoch, epoch)
    return Divergence(copy.copy.bounds.log_partition, copy.name, other, common + 1, until, loser, counting)


def last_epoch(copy: Copy, records: LogRecords, named: int) -> EpochBounds:
    """Return bounds of the leader epoch at the end of a copy.

    Args:
        copy: the copy to look at.
        records: decoded records of the copy.
        named: the highest leader epoch in the copy's headers and in its ``leader-epoch-checkpoint``; NO_EPOCH if they
            have none.
    """
    lowest = max(named, int(records.lowest_epochs.max(initial=NO_EPOCH)))
    # After the last record, another leader may have written records that the cleaner has removed since.
    is_at_end = len(records.offsets) > 0 and int(records.offsets[-1]) == copy.bounds.end - 1
    highest = int(records.highest_epochs[-1]) if is_at_end else LARGEST_INT64
    return EpochBounds(lowest, max(lowest, highest))


def losing(copy: EpochBounds, others: EpochBounds) -> tuple[Loser, int]:
    """Decide whose records don't count after a divergence: those of the copy, or the other records.

    The records with the lower leader epoch don't count. If the bounds do not show which epoch is lower, return
    ``Loser.NONE``.

    Args:
        copy: bounds of the copy's leader epoch.
        others: bounds of the other records' leader epoch.

    Returns:
        Whose records don't count, and the leader epoch of the records that count. The epoch is NO_EPOCH if it is not
        known.
    """
    if copy.lowest > others.highest:
        return Loser.OTHERS, copy.lowest
    if copy.highest < others.lowest:
        return Loser.COPY, others.lowest
    return Loser.NONE, NO_EPOCH


def _is_torn(copy: SegmentCopy, common: int, until: int, epoch: EpochBounds) -> bool:
    """Return whether it is proven that the files of a copy were copied at several moments.

    The answer is True if the copy has a record of the other log at log offset ``until`` or later.

    Args:
        copy: the copy.
        common: the highest log offset at which both logs have the same record.
        until: the highest log offset at which the difference between the two logs can begin.
        epoch: bounds of the other log's leader epoch.
    """
    if common >= until:
        return True
    return epoch.lowest == epoch.highest and copy.last_offset_of(epoch.lowest) >= until


def _matched(copy: SegmentCopy, others: LogRecords) -> _Match:
    own = copy.records
    if not len(own.offsets):
        at, is_there = np.zeros(len(others.offsets), np.int64), np.zeros(len(others.offsets), np.bool_)
        no_rows = np.zeros(len(others.offsets), np.bool_)
        return _Match(is_there, no_rows, _covered(copy, others.offsets))
    at = np.minimum(np.searchsorted(own.offsets, others.offsets), len(own.offsets) - 1)
    is_there = own.offsets[at] == others.offsets
    have_times = (own.times[at] != NONE) & (others.times != NONE)
    is_record = (own.keys[at] == others.keys) & ((own.times[at] == others.times) | ~have_times)
    is_same = is_there & is_record & (own.contents[at] == others.contents)
    return _Match(is_same, is_there & ~is_record, _covered(copy, others.offsets) & ~copy.copy.has(others.offsets))


def _covered(copy: SegmentCopy, offsets: Numbers) -> Bools:
    bounds = copy.copy.bounds
    are_covered: Bools = (offsets >= bounds.covered_from) & (offsets < bounds.end)
    return are_covered


def _outlived(copy: SegmentCopy, others: LogRecords, match: _Match) -> Bools:
    """Return, for each record of ``others``, whether the copy lacks the record but has an older record of its key.

    The older record must be the same in the copy and in ``others``. If the copy has a gap between the two records,
    return False: the copy may have had the later record in the gap.

    Args:
        copy: the copy.
        others: the other records of the log partition.
        match: the comparison of ``others`` with the copy.
    """
    order = np.lexsort((others.offsets, others.keys))
    keys, offsets = others.keys[order], others.offsets[order]
    places = np.arange(len(order))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = keys[1:] != keys[:-1]
    begins = np.maximum.accumulate(np.where(is_first, places, 0))
    last_same = np.maximum.accumulate(np.where(match.are_same[order], places, -1))
    [rows] = np.nonzero((last_same >= begins) & match.are_lacking[order])
    rows = rows[~copy.copy.have_gap_between(offsets[last_same[rows]], offsets[rows])]
    outlived = np.zeros(len(order), np.bool_)
    outlived[order[rows]] = True
    return outlived


def _noted(copy: SegmentCopy, others: LogRecords) -> tuple[int, int] | None:
    """Return the first entry of ``leader-epoch-checkpoint`` that proves that records of ``others`` are lost.

    The entry has a leader epoch, and the log offset at which this epoch starts. Return None if there is no such entry.
    """
    for epoch, start in sorted(copy.checkpoint, key=lambda entry: entry[1]):
        if ((others.offsets >= start) & (others.highest_epochs < epoch)).any():
            return epoch, start
    return None
