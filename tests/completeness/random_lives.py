"""Small random lives with transactions, which a simulated coordinator writes, and dumps of them that were cleaned."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

from coordinator_replay.simulation.coordinator import Batch, Config, Coordinator, MarkerWritten, Request, Result
from coordinator_replay.simulation.simulated_log import write_log
from tests.cleaner.lives import Life, PartitionLife, recorded_life
from tests.simulation.coordinator.lives import MAKERS, TOPICS, Step, do
from tests.simulation.coordinator.simulated_consumers import Fleet

MEMBERS_GROUP = "g"
"""The group that has members; the others have offsets alone."""
GROUPS = (MEMBERS_GROUP, "bank", "mirror")
_PRODUCERS = (7, 8)
_RETENTION_MS = 60_000
_BEGIN_MS = 1_795_000_000_000
_CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.retention.minutes": _RETENTION_MS // 60_000,
    "offsets.retention.check.interval.ms": 20_000,
}

_PLACES = [(topic.name, partition) for topic in TOPICS for partition in range(min(topic.partitions, 2))]
_GROUP, _PRODUCER, _PLACE = st.sampled_from(GROUPS), st.sampled_from(_PRODUCERS), st.sampled_from(_PLACES)

_OF_MEMBERS = st.one_of(
    st.tuples(
        st.just("start"),
        st.sampled_from([("foo",), ("foo", "bar"), ("bar", "one")]),
        st.sampled_from([None, None, "i1"]),
        st.booleans(),
    ),
    st.tuples(st.sampled_from(["leave", "act", "restart", "migrate", "commit", "crash"]), st.integers(0, 3)),
    st.just(("round",)),
)
_OF_OFFSETS = st.one_of(
    st.tuples(st.just("store"), _GROUP, _PLACE),
    st.tuples(st.just("wait"), _GROUP, _PRODUCER, st.lists(_PLACE, min_size=1, max_size=2, unique=True)),
    st.tuples(st.just("end"), _PRODUCER, st.booleans()),
    st.tuples(st.just("remove"), _GROUP, _PLACE),
    st.tuples(st.just("delete"), _GROUP),
)
_TIME = st.tuples(st.just("time"), st.sampled_from([1, 1, 500, 3000, 11_000, 61_000, 90_000]))

STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(_OF_MEMBERS, _OF_OFFSETS, _OF_OFFSETS, _TIME), min_size=30, max_size=80
)
"""What happens in a life; in one of two steps to offsets."""

KINDS = st.sampled_from(sorted(MAKERS))
"""Which protocol and assignor the members have."""

NIGHTS = st.lists(st.floats(0.2, 0.9), max_size=2).map(lambda shares: [*sorted(shares), 1.0])
"""Which share of the life each dump has; the last one has all of it."""


class _Recorded(Coordinator):
    """A coordinator whose batches and control records are kept."""

    def __init__(self) -> None:
        self.written: list[Batch | MarkerWritten] = []
        super().__init__(Config(_CONFIG), TOPICS, now_ms=_BEGIN_MS)

    def _taken(self) -> list[Result]:
        results = super()._taken()
        self.written += [one for one in results if isinstance(one, Batch | MarkerWritten)]
        return results


def write_life(folder: Path, kind: str, steps: Iterable[Step]) -> Life | None:
    """Live a life step by step and write its log.

    Args:
        folder: where to; ``whole`` in it becomes the dump, ``topics.csv`` names the topics.
        kind: of the members.
        steps: of ``STEPS``.

    Returns:
        The life, nothing of it lived yet; None where nothing was written.
    """
    coordinator = _Recorded()
    fleet = Fleet(coordinator, MEMBERS_GROUP)
    for number, step in enumerate(steps):
        act = _ACTS.get(step[0])
        if act is None:
            do(fleet, number, step, MAKERS[kind])
        else:
            act(coordinator, number, *step[1:])
            # What a group does in the millisecond in which it was deleted counts as one operation with that.
            fleet.advance(1)
    if not coordinator.written:
        return None
    write_log(folder, coordinator.written, TOPICS)
    return recorded_life(folder / "segments")


def dumps_of(folder: Path, life: Life, nights: Sequence[float], seed: int) -> list[Path]:
    """Dumps of a life, taken while the cleaner works.

    Args:
        folder: where to.
        life: nothing of it lived yet.
        nights: which share of it each has.
        seed: of the cleaner's rounds and of what lies beside the segments.
    """
    random, dumps = Random(seed), []
    for night, share in enumerate(nights):
        for one in life.partitions.values():
            _live(one, round(share * len(one.batches)), random)
        dumps.append(life.dump(folder / f"dump-{night}", random))
    return dumps


def _live(partition: PartitionLife, until: int, random: Random) -> None:
    """Write up to the ``until``-th batch: small segments, so that the cleaner has work in a short log, too."""
    roll = random.choice([0.2, 0.4, 0.6])
    for step in (random.randint(partition.at, max(partition.at, until)), until):
        partition.write(step, random, roll=roll)
        if random.random() < 0.5:
            partition.log.roll()
        for _ in range(random.randint(0, 2)):
            partition.clean_randomly(random)


def _committed(place: tuple[str, int], offset: int) -> dict[str, Any]:
    topic, partition = place
    return {"name": topic, "partitions": [{"partitionIndex": partition, "committedOffset": offset}]}


def _handle(coordinator: Coordinator, api: str, body: dict[str, Any]) -> None:
    coordinator.handle(Request(api, body), coordinator.now_ms)


def _store(coordinator: Coordinator, number: int, group: str, place: tuple[str, int]) -> None:
    _handle(coordinator, "OffsetCommit", {"groupId": group, "topics": [_committed(place, number)]})


def _wait(coordinator: Coordinator, number: int, group: str, producer: int, places: Sequence[tuple[str, int]]) -> None:
    topics = [_committed(place, number) for place in places]
    body = {"groupId": group, "producerId": producer, "producerEpoch": 0, "topics": topics}
    _handle(coordinator, "TxnOffsetCommit", {"transactionalId": f"t{producer}", **body})


def _end(coordinator: Coordinator, _: int, producer: int, committed: bool) -> None:
    coordinator.end_transaction(producer, 0, committed=committed, at_ms=coordinator.now_ms)


def _remove(coordinator: Coordinator, _: int, group: str, place: tuple[str, int]) -> None:
    topic, partition = place
    topics = [{"name": topic, "partitions": [{"partitionIndex": partition}]}]
    _handle(coordinator, "OffsetDelete", {"groupId": group, "topics": topics})


def _delete(coordinator: Coordinator, _: int, group: str) -> None:
    _handle(coordinator, "DeleteGroups", {"groupsNames": [group]})


_ACTS: dict[str, Callable[..., None]] = {
    "store": _store,
    "wait": _wait,
    "end": _end,
    "remove": _remove,
    "delete": _delete,
}
