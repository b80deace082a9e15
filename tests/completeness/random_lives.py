"""Small random lives with transactions, which a simulated coordinator writes, and dumps of them that were cleaned."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

from coordinator_replay.simulation.simulated_log import write_log
from scripts.world.life import GROUP, Life
from tests.cleaner.recorded_log import RecordedLog, RecordedPartition, recorded_log
from tests.simulation.coordinator.watched_life import WatchedLife

GROUPS = (GROUP, "bank", "mirror")
"""The group that has members, and groups that have offsets alone."""
_TOPICS = ("orders", "payments", "clicks")
_PRODUCERS = (7, 8)
_SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 20_000,
}

_GROUP, _PRODUCER = st.sampled_from(GROUPS), st.sampled_from(_PRODUCERS)
_PLACE = st.tuples(st.sampled_from(_TOPICS), st.integers(0, 1))

Step = tuple[Any, ...]

_OF_MEMBERS = st.one_of(
    st.tuples(st.just("join"), st.sampled_from([1, 1000])),
    st.tuples(
        st.sampled_from(["leave", "restart", "static_restart", "upgrade", "downgrade", "crash", "subscribe"]),
        st.sampled_from([1, 1000]),
    ),
    st.just(("commit",)),
    st.just(("time", 1000)),
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

NIGHTS = st.lists(st.floats(0.2, 0.9), max_size=2).map(lambda shares: [*sorted(shares), 1.0])
"""Which share of the life each dump has; the last one has all of it."""


def write_life(folder: Path, kind: str, seed: int, steps: Iterable[Step]) -> RecordedLog | None:
    """Live a life step by step and write its log.

    Args:
        folder: where to; ``segments`` in it becomes the dump, ``topics.csv`` names the topics.
        kind: of the members.
        seed: of what the steps leave open.
        steps: of ``STEPS``.

    Returns:
        The life, nothing of it lived yet; None where nothing was written.
    """
    life = WatchedLife(kind, seed, _SETTINGS)
    while len(life.partitions()) < len(_TOPICS):
        life.topic_created()
    for number, (name, *details) in enumerate(steps):
        if name in _ACTS:
            # What a group does in the millisecond in which it was deleted counts as one operation with that.
            while life.truth and life.truth[-1].at_ms == life.now_ms:
                life.pass_time(1)
            _ACTS[name](life, number, *details)
            life.pass_time(1)
        else:
            getattr(life, name)()
            life.pass_time(*details)
    if not life.results:
        return None
    write_log(folder, life.results, life.topics)
    return recorded_log(folder / "segments")


def dumps_of(folder: Path, life: RecordedLog, nights: Sequence[float], seed: int) -> list[Path]:
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


def _live(partition: RecordedPartition, until: int, random: Random) -> None:
    """Write up to the ``until``-th batch: small segments, so that the cleaner has work in a short log, too."""
    roll = random.choice([0.2, 0.4, 0.6])
    for step in (random.randint(partition.at, max(partition.at, until)), until):
        partition.write(step, random, roll=roll)
        if random.random() < 0.5:
            partition.log.roll()
        for _ in range(random.randint(0, 2)):
            partition.clean_randomly(random)


def _place(life: Life, place: tuple[str, int], **fields: Any) -> dict[str, Any]:
    """A partition in the form of a request; its number is that of a partition that the topic has."""
    topic, number = place
    return {"name": topic, "partitions": [{"partitionIndex": number % life.partitions()[topic], **fields}]}


def _store(life: Life, number: int, group: str, place: tuple[str, int]) -> None:
    life.ask("OffsetCommit", {"groupId": group, "topics": [_place(life, place, committedOffset=number)]})


def _wait(life: Life, number: int, group: str, producer: int, places: Sequence[tuple[str, int]]) -> None:
    topics = [_place(life, place, committedOffset=number) for place in places]
    body = {"groupId": group, "producerId": producer, "producerEpoch": 0, "topics": topics}
    life.ask("TxnOffsetCommit", {"transactionalId": f"t{producer}", **body})


def _end(life: Life, _: int, producer: int, committed: bool) -> None:
    life.end_transaction(producer, committed=committed)


def _remove(life: Life, _: int, group: str, place: tuple[str, int]) -> None:
    life.ask("OffsetDelete", {"groupId": group, "topics": [_place(life, place)]})


def _delete(life: Life, _: int, group: str) -> None:
    life.ask("DeleteGroups", {"groupsNames": [group]})


def _commit(life: WatchedLife, _: int) -> None:
    owners = [one for one in life.on if one.owned]
    if owners:
        life.commit(life.random.choice(owners))


def _time(life: Life, _: int, milliseconds: int) -> None:
    life.pass_time(milliseconds - 1)


_ACTS: dict[str, Callable[..., None]] = {
    "store": _store,
    "wait": _wait,
    "end": _end,
    "remove": _remove,
    "delete": _delete,
    "commit": _commit,
    "time": _time,
}
