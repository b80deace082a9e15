"""What the coordinator's own metrics would have shown of one group, minute by minute.

Of each minute in which something happened to the group come its counts, under the group's type and state at the end
of the minute, and where these have changed, one group less here and one more there. Summed over all groups this is
``group_metrics``. A group of which the log has offsets only is a classic one, Empty from its first offset on; it is
gone when its last offset is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from coordinator_replay.analysis.findings.thresholds import MINUTE_MS

METRICS = "group_minutes"
COUNTERS = ("rebalance_count", "offset_commits", "expired_offsets", "deleted_offsets")

_ADDED = ("delta", *COUNTERS)
_MOST_SUMS = 100_000
_SIMPLE = ("classic", "Empty")
_DEAD = "Dead"

Kind = tuple[str, str]


class Minutes:
    """The fold over what happened to one group, in the order of time."""

    __slots__ = ("at", "counts", "ended_ms", "first_commit_ms", "is_held", "now", "told")

    def __init__(self) -> None:
        self.at: int | None = None
        self.counts: dict[str, int] = {}
        self.now: Kind | None = None
        self.told: Kind | None = None
        self.first_commit_ms: int | None = None
        self.ended_ms: int | None = None
        self.is_held = False

    def take(self, happening: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Take the next thing that happened; yields what a minute that is over comes to."""
        minute = happening["at"] // MINUTE_MS
        if minute != self.at:
            yield from self._end()
            self.at = minute
        if "state" in happening:
            self.now = (happening["group_type"], happening["state"])
            return
        if "commits" in happening:
            if self.first_commit_ms is None:
                self.first_commit_ms = happening["at"]
            self._count("offset_commits", happening["commits"])
        elif "rebalance_id" in happening:
            self._count("rebalance_count", int(happening["is_over"]))
        else:
            expired = happening["ended_by"] == "EXPIRED"
            self._count("expired_offsets" if expired else "deleted_offsets", happening["offsets"])

    def hold(self, offsets: Mapping[str, Any]) -> None:
        """Take what the history of one partition comes to: whether the group still has an offset."""
        self.is_held = self.is_held or bool(offsets["is_held"])
        ended_ms = offsets["ended_at"]
        if ended_ms is not None and (self.ended_ms is None or ended_ms > self.ended_ms):
            self.ended_ms = ended_ms

    def finish(self) -> Iterator[dict[str, Any]]:
        """The last minute, and the life of a group that only had offsets."""
        yield from self._end()
        if self.now is None and self.first_commit_ms is not None:
            yield _row(self.first_commit_ms // MINUTE_MS, _SIMPLE, delta=1)
            if not self.is_held and self.ended_ms is not None:
                yield _row(self.ended_ms // MINUTE_MS, _SIMPLE, delta=-1)

    def _count(self, name: str, amount: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + amount

    def _end(self) -> Iterator[dict[str, Any]]:
        if self.at is None:
            return
        if self.now is not None and self.now != self.told:
            if self.told is not None and self.told[1] != _DEAD:
                yield _row(self.at, self.told, delta=-1)
            if self.now[1] != _DEAD:
                yield _row(self.at, self.now, delta=1)
            self.told = self.now
        yield _row(self.at, self.now or _SIMPLE, **self.counts)
        self.counts = {}


class Sums:
    """Minutes of many groups, added up as far as memory allows: what leaves is to be added up once more."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[tuple[int, str, str], list[int]] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Take a minute of a group."""
        key = row["bucket"], row["group_type"], row["state"]
        known = self.counts.get(key)
        if known is None:
            known = self.counts[key] = [0] * len(_ADDED)
        for place, name in enumerate(_ADDED):
            known[place] += row[name]

    @property
    def is_full(self) -> bool:
        """Whether it is time to take the sums."""
        return len(self.counts) >= _MOST_SUMS

    def take(self) -> Iterator[dict[str, Any]]:
        """The sums so far."""
        counts, self.counts = self.counts, {}
        for (bucket, group_type, state), numbers in counts.items():
            told = {"bucket": bucket, "group_type": group_type, "state": state}
            yield {**told, **dict(zip(_ADDED, numbers, strict=True))}


def _row(minute: int, kind: Kind, *, delta: int = 0, **counts: int) -> dict[str, Any]:
    return {
        "bucket": minute * MINUTE_MS,
        "group_type": kind[0],
        "state": kind[1],
        "delta": delta,
        **{name: counts.get(name, 0) for name in COUNTERS},
    }
