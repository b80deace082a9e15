"""When nobody owned a partition although the group wanted it.

A topic that no member subscribes to any more is not without an owner: the group has left it, as the saved query
``abandoned-topics`` says. Nor is a partition of a group that was deleted, or whose
last member left and never came back.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from coordinator_replay.query.life import GroupLife, OwnedInterval
from coordinator_replay.times import LATEST_MS, milliseconds

Interval = tuple[int, int]
"""From then on, before then, in milliseconds since 1970."""

_ALWAYS = -1
_FOREVER = LATEST_MS + 1


def gaps_between(holdings: Iterable[OwnedInterval], end_ms: int) -> Iterator[tuple[int, int, OwnedInterval]]:
    """Stretches in which nobody owned a partition, each with the ownership before it; the last may reach the end.

    Args:
        holdings: of one partition; several may hold at the same time.
        end_ms: where the page ends.
    """
    until: int | None = None
    last: OwnedInterval | None = None
    for holding in sorted(holdings, key=lambda one: _ALWAYS if one.from_ms is None else one.from_ms):
        if last is not None and until is not None and holding.from_ms is not None and holding.from_ms > until:
            yield until, holding.from_ms, last
        if last is None or (until is not None and (holding.to_ms is None or holding.to_ms > until)):
            last, until = holding, holding.to_ms
    if last is not None and until is not None and until < end_ms:
        yield until, end_ms, last


def without(intervals: Iterable[Interval], holes: Iterable[Interval]) -> list[Interval]:
    """What is left of intervals outside of others."""
    left = list(intervals)
    for begin, end in holes:
        cut = []
        for since, until in left:
            if since < begin:
                cut.append((since, min(until, begin)))
            if until > end:
                cut.append((max(since, end), until))
        left = [(since, until) for since, until in cut if since < until]
    return left


class WantedTimes:
    """When a group wanted the partitions of a topic: while a member subscribed to it, or nobody was a member.

    Where the log does not prove the state of the group, it has no such times.

    Args:
        life: the group's.
    """

    def __init__(self, life: GroupLife) -> None:
        self._subscriptions: dict[str | None, list[Interval]] = {}
        for one in life.subscriptions:
            self._subscriptions.setdefault(one.topic, []).append(_interval(one.since, one.until))
        # Where the log does not prove the group, who owned what is not on record.
        self._over = [
            _interval(band.since, band.until)
            for band in life.states
            if band.state == "Dead" or not band.is_exact or (band.state == "Empty" and band is life.states[-1])
        ]
        self._left: dict[str, list[Interval]] = {}

    def _left_alone(self, topic: str) -> list[Interval]:
        """When the group had members, and none of them subscribed to the topic; and when the group was over."""
        if topic not in self._left:
            with_members = self._subscriptions.get("", [])
            to_any_topic = self._subscriptions.get(None, [])
            to_this_one = self._subscriptions.get(topic, [])
            self._left[topic] = [*without(with_members, [*to_any_topic, *to_this_one]), *self._over]
        return self._left[topic]

    def gaps(
        self, topic: str, holdings: Iterable[OwnedInterval], end_ms: int
    ) -> Iterator[tuple[int, int, OwnedInterval]]:
        """As ``gaps_between``, without the time in which the group did not want the topic."""
        for since, until, holding in gaps_between(holdings, end_ms):
            for begin, stop in without([(since, until)], self._left_alone(topic)):
                yield begin, stop, holding


def _interval(since: datetime | None, until: datetime | None) -> Interval:
    return _ALWAYS if since is None else milliseconds(since), _FOREVER if until is None else milliseconds(until)
