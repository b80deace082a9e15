"""Deployments that replaced static members one after the other, as far as join phases show them.

A static member under the classic protocol sends nothing when it is closed: a join phase waits until its session is
over. Who has joined in a phase and is closed before it ends counts as there, and is removed one session after the end.
If the leader is one of them, nobody assigns partitions: nothing is written, and that session later the generation after
the next one is. So a generation number that is left out, or members that are removed one session after a long phase,
show that they were not all closed at its beginning.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from coordinator_replay.simulation.what_if.script import Visit, Window

GAP_MS = 1_000
"""How long after a member was closed the one in its place is taken to join."""

Place = tuple[list[Visit], int]
"""A visit: those of a client, and its place among them."""


@dataclass(kw_only=True)
class RecordedPhase:
    """The join phase before a classic generation on record.

    Attributes:
        done_ms: its end.
        left_out: generations before it that nobody assigned partitions in.
        session_ms: session timeout of the static members removed in it.
        removed: the last visits of these; the leader's is the last one.
        has_leader: whether the leader is among them.
        arrived: visits that began in it.
    """

    done_ms: int
    left_out: int
    session_ms: int = 0
    removed: list[Place] = field(default_factory=list)
    has_leader: bool = False
    arrived: list[Place] = field(default_factory=list)

    def remove(self, place: Place, *, is_leader: bool) -> None:
        """A static member is removed in it.

        Args:
            place: its last visit.
            is_leader: whether it has led the generation before.
        """
        self.removed.insert(len(self.removed) if is_leader else 0, place)
        self.has_leader |= is_leader

    def is_after(self, before: "RecordedPhase", heartbeat_ms: int) -> bool:
        """Return whether its members had been closed before the end of the phase before it, which was a long one."""
        over_ms = self.done_ms - before.done_ms - self.session_ms
        return bool(self.removed and before.removed) and over_ms <= heartbeat_ms


def unseen(phases: Iterable[RecordedPhase], start_ms: int, end_ms: int) -> float:
    """The share of a time range in which join phases waited for static members: who came and went left no record.

    Args:
        phases: of a group.
        start_ms: from then on.
        end_ms: until then, not included.
    """
    waited = [phase for phase in phases if phase.removed and start_ms <= phase.done_ms < end_ms]
    waited_ms = sum((phase.left_out + 1) * phase.session_ms for phase in waited)
    return min(waited_ms / (end_ms - start_ms), 1.0)


def roll_out(phases: Sequence[RecordedPhase], heartbeat_ms: int) -> int:
    """Note when members may have been closed and replaced one after the other, where phases show that they were.

    Args:
        phases: of a group, in order.
        heartbeat_ms: the interval of its members.

    Returns:
        How many members were replaced so.
    """
    count, is_rest = 0, False
    for phase, following in zip_longest(phases, phases[1:]):
        rest: list[Place] = []
        if following is not None and following.is_after(phase, heartbeat_ms):
            # A leader that was closed would not have assigned partitions.
            rest = following.removed[:-1] if following.has_leader else following.removed
        windows = _windows(phase, [] if is_rest else phase.removed, rest, GAP_MS + heartbeat_ms)
        is_rest = bool(rest)
        count += len(windows)
        for (visits, number), window in windows:
            visits[number] = replace(visits[number], window=window)
        last_ms = phase.done_ms - 1
        for (visits, number), (_, window) in zip(phase.arrived, windows, strict=False):
            earliest_ms, latest_ms = (min(at_ms + GAP_MS, last_ms) for at_ms in window[:2])
            if number < len(visits):  # Else another client continues it.
                arrival = window._replace(earliest_ms=earliest_ms, latest_ms=latest_ms)
                visits[number] = replace(visits[number], arrival=arrival)
    return count


def _windows(
    phase: RecordedPhase, own: Sequence[Place], rest: Sequence[Place], joined_ms: int
) -> list[tuple[Place, Window]]:
    """When each member of a deployment may have been closed: soon after the first one, or spread over the whole time.

    Args:
        phase: whose generation has the members in their place.
        own: members removed in it.
        rest: those that are removed one session later.
        joined_ms: how long after the first one was closed the others had joined.
    """
    if not own or not (phase.left_out or rest):
        return []
    begin_ms = phase.done_ms - (phase.left_out + 1) * phase.session_ms
    end_ms = begin_ms + phase.left_out * phase.session_ms
    steps = max(len(own) - (not rest), 1)
    windows = []
    for number, place in enumerate(own):
        latest_ms = begin_ms + (end_ms - begin_ms) * number // steps
        earliest_ms = min(begin_ms + joined_ms, latest_ms) if number else begin_ms
        # It was still going on when the phase that was left out was over.
        windows.append((place, Window(latest_ms if rest else earliest_ms, latest_ms, rollout_ms=begin_ms)))
    for number, place in enumerate(rest, 1):
        latest_ms = end_ms + phase.session_ms * number // (len(rest) + 1)
        windows.append((place, Window(min(end_ms + joined_ms, latest_ms), latest_ms, rollout_ms=begin_ms)))
    return windows
