"""The times in which a partition had no owner, as pictures show them.

The table ``partition_ownership`` has these times in its column ``unowned``. The table lacks them for a classic group
that gave a partition to another member in a rebalance, because a join phase leaves no record. Then this module takes
the time from the end of one ownership to the start of the next. The true time may be longer.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from coordinator_replay.report.life import OwnedInterval

_ALWAYS = -1


class Gap(NamedTuple):
    """A time in which nobody owned a partition, in milliseconds since 1970.

    Attributes:
        since_ms: time from which nobody owned the partition.
        until_ms: time at which the partition got an owner, or the end of the picture's time range.
        before: the ownership that ended when the gap began.
        is_lower_bound: whether the gap lasted longer than from ``since_ms`` to ``until_ms``. How much longer is not on
            record.
    """

    since_ms: int
    until_ms: int
    before: OwnedInterval
    is_lower_bound: bool


def gaps_of(holdings: Iterable[OwnedInterval], end_ms: int) -> Iterator[Gap]:
    """Yield the times in which a partition had no owner.

    Args:
        holdings: ownerships of one partition. Two of them may overlap in time.
        end_ms: end of the picture's time range, in milliseconds since 1970. If the partition still has no owner, the
            last gap ends at this time.
    """
    last: OwnedInterval | None = None
    for holding in sorted(holdings, key=lambda holding: _ALWAYS if holding.from_ms is None else holding.from_ms):
        if last is not None and last.to_ms is not None:
            if holding.from_ms is not None and holding.from_ms > last.to_ms:
                yield from _between(last, holding, end_ms)
            elif holding.to_ms is not None and holding.to_ms <= last.to_ms:
                continue
        if last is None or last.to_ms is not None:
            last = holding
    if last is not None:
        yield from _between(last, None, end_ms)


def _between(before: OwnedInterval, after: OwnedInterval | None, end_ms: int) -> Iterator[Gap]:
    if before.unowned is not None:
        for since_ms, until_ms in before.unowned:
            last_ms = end_ms if until_ms is None else min(until_ms, end_ms)
            if last_ms > since_ms:
                yield Gap(since_ms, last_ms, before, False)
        return
    is_proven = after is not None and before.is_exact and after.is_exact
    if is_proven and before.to_ms is not None and after is not None and after.from_ms is not None:
        yield Gap(before.to_ms, after.from_ms, before, True)
