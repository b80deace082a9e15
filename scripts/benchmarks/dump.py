"""A large dump made by rule: the same arguments give the same bytes. The mix of records is like a busy cluster's.

* About 95 % of the records are offset commits. Their offsets grow with time.
* Groups follow Zipf's law, so that a few groups commit most.
* Classic and KIP-848 groups wrote the other records.
* Batches have 1 to 50 records. Most are small, as the coordinator's linger makes them.
* A tenth of the committed partitions are given up at some time. Retention is shorter than the log, and removes their
  offsets.
* Some batches of commits are transactions. A marker ends each of them.
* Some groups end.

All of this happens in one day.
"""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.bulk_writer import write_batches
from benchmarks.lives import Lives, Topic
from coordinator_replay.records.plain import encode_key, encode_value

_BEGIN_MS = 1_795_000_000_000
_DAY_MS = 86_400_000
_GROUP_SHARE = 0.05
_PARTITIONS_PER_TOPIC = 12
_SEGMENT_RECORDS = 1_000_000
_MORTAL_SHARE = 0.1
_RETENTION_MS = _DAY_MS // 20

_TRANSACTION_SHARE = 0.03
"""Share of transactions among the batches that have only commits."""
_COMMITTED_SHARE = 0.95
_PRODUCERS = 40
_ABORT_MARKER, _COMMIT_MARKER = (pa.scalar(bytes([0, 0, 0, kind]), pa.binary()) for kind in (0, 1))
_MARKER_VALUE = pa.scalar(bytes(6), pa.binary())
"""Version 0 and the epoch of the transaction coordinator."""

Numbers = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.uint8]


def _topic_id(number: int) -> bytes:
    return np.random.default_rng(number).bytes(16)


def _binary(rows: Sequence[bytes | None]) -> pa.BinaryArray:
    return pa.array(rows, pa.binary())


def _fixed(matrix: Matrix) -> pa.BinaryArray:
    """Return the rows of a matrix of bytes as an Arrow array."""
    n, width = matrix.shape
    offsets = np.arange(0, n * width + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix))]
    )


def _put(matrix: Matrix, at: int, numbers: npt.NDArray[np.int64], size: int) -> None:
    matrix[:, at : at + size] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - size :]


def _commit_values(
    rng: np.random.Generator, times: npt.NDArray[np.int64], drawn: npt.NDArray[np.int64], topics: npt.NDArray[np.int64]
) -> pa.BinaryArray:
    """Return values of version 4 with a topic id: copies of one encoded value, with other numbers."""
    fields = {"offset": 0, "leaderEpoch": 0, "metadata": "", "commitTimestamp": 0, "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}
    model = np.frombuffer(encode_value("OffsetCommit", 4, fields), np.uint8)
    matrix = np.tile(model, (len(times), 1))
    _put(matrix, 2, (times - _BEGIN_MS) * (1 + drawn % 50), 8)
    _put(matrix, 10, rng.integers(0, 20, len(times)), 4)
    _put(matrix, 15, times, 8)
    ids = np.frombuffer(b"".join(_topic_id(n) for n in range(int(topics.max()) + 1)), np.uint8).reshape(-1, 16)
    matrix[:, -16:] = ids[topics]
    return _fixed(matrix)


def _chances(count: int) -> npt.NDArray[np.float64]:
    weights = 1 / np.arange(1, count + 1) ** 1.05
    chances: npt.NDArray[np.float64] = weights / weights.sum()
    return chances


class _Pools:
    """The pools from which records of one log partition are drawn: keys of commits, and the lives of its groups."""

    def __init__(self, rng: np.random.Generator, groups: range) -> None:
        keys, topics, weights, read = [], [], list[float](), []
        for group, chance in zip(groups, _chances(len(groups)), strict=True):
            topic, partitions = int(rng.integers(0, 200)), int(rng.integers(1, _PARTITIONS_PER_TOPIC + 1))
            topic_id = base64.urlsafe_b64encode(_topic_id(topic)).decode().rstrip("=")
            read.append(Topic(f"orders.region-{topic:03d}", topic_id, partitions))
            for partition in range(partitions):
                key = {"group": _name(group), "topic": read[-1].name, "partition": partition}
                keys.append(encode_key("OffsetCommit", key))
                topics.append(topic)
                weights.append(chance)
        self.keys = _binary(keys)
        self.topics = np.array(topics)
        self.chances = np.array(weights) / sum(weights)
        # When each key is committed for the last time; retention removes it later.
        self.dies_ms = np.full(len(keys), np.iinfo(np.int64).max)
        mortal = rng.random(len(keys)) < _MORTAL_SHARE
        self.dies_ms[mortal] = _BEGIN_MS + rng.integers(_DAY_MS // 20, _DAY_MS, mortal.sum())
        self.immortal = int(np.flatnonzero(~mortal)[0])
        self.first_group_keys = read[0].partitions
        self.lives = Lives(rng, [_name(group) for group in groups], read, _chances(len(groups)))

    def favour_first_group(self, share: float) -> None:
        """Let the first group have a share of all commits."""
        own = np.arange(len(self.chances)) < self.first_group_keys
        self.chances[own] *= share / self.chances[own].sum()
        self.chances[~own] *= (1 - share) / self.chances[~own].sum()


def _name(group: int) -> str:
    return f"team-{group:06d}"


def _batch_sizes(rng: np.random.Generator, records: int) -> npt.NDArray[np.int64]:
    """Return batch sizes from 1 to 50, about 8 on average, that add up to the number of records."""
    sizes = np.minimum(rng.geometric(1 / 8, records), 50)
    ends = np.cumsum(sizes)
    whole = int(np.searchsorted(ends, records))
    sizes = sizes[: whole + 1]
    sizes[-1] -= int(ends[whole]) - records
    return sizes


class _Batches(NamedTuple):
    """The batches of a segment: number of records, producer id, and whether the batch is a control batch."""

    sizes: Numbers
    producer_ids: Numbers
    are_control: npt.NDArray[np.bool_]


def _with_transactions(rng: np.random.Generator, sizes: Numbers, are_commits: npt.NDArray[np.bool_]) -> _Batches:
    """Make transactions of some batches that hold commits only: the last record of each becomes its marker."""
    ends = np.cumsum(sizes)
    commits = np.concatenate([[0], np.cumsum(are_commits)])
    only_commits = commits[ends] - commits[ends - sizes] == sizes
    chosen = np.flatnonzero(only_commits & (sizes > 1) & (rng.random(len(sizes)) < _TRANSACTION_SHARE))
    producers = np.full(len(sizes), -1)
    producers[chosen] = rng.integers(1000, 1000 + _PRODUCERS, len(chosen))
    shorter = sizes.copy()
    shorter[chosen] -= 1
    control = np.insert(np.zeros(len(sizes), np.bool_), chosen + 1, values=True)
    return _Batches(np.insert(shorter, chosen + 1, 1), np.insert(producers, chosen + 1, producers[chosen]), control)


def _segment(rng: np.random.Generator, records: int, base_offset: int, partition_records: int, pools: _Pools) -> bytes:
    begin, end = (_DAY_MS * offset // partition_records for offset in (base_offset, base_offset + records))
    operations = pools.lives.take(round(records * _GROUP_SHARE))
    lived = [pair for operation in operations for pair in operation]
    n_commits = records - len(lived)
    # What is appended at once: a commit, or the records of an operation on a group.
    sizes = np.ones(n_commits + len(operations), np.int64)
    is_operation = np.zeros(len(sizes), np.bool_)
    is_operation[rng.choice(len(sizes), len(operations), replace=False)] = True
    sizes[is_operation] = [len(operation) for operation in operations]
    times = np.repeat(_BEGIN_MS + np.sort(rng.integers(begin, end, len(sizes))), sizes)
    is_group = np.repeat(is_operation, sizes)
    drawn = rng.choice(len(pools.keys), n_commits, p=pools.chances)
    drawn[pools.dies_ms[drawn] < times[~is_group]] = pools.immortal
    removed = _removals(pools, times[~is_group], _BEGIN_MS + begin, _BEGIN_MS + end)
    drawn[removed[0]] = removed[1]
    keys = pa.concat_arrays([pools.keys.take(pa.array(drawn)), _binary([key for key, _ in lived])])
    commits = _commit_values(rng, times[~is_group], drawn, pools.topics[drawn])
    is_removed = np.zeros(n_commits, np.bool_)
    is_removed[removed[0]] = True
    commits = pc.if_else(pa.array(is_removed), None, commits)
    values = pa.concat_arrays([commits, _binary([value for _, value in lived])])
    place = np.empty(records, np.int64)
    place[~is_group] = np.arange(n_commits)
    place[is_group] = n_commits + np.arange(len(lived))
    order = pa.array(place)
    may_be_marker = place < n_commits
    may_be_marker[may_be_marker] = ~is_removed
    batches = _with_transactions(rng, _batch_sizes(rng, records), may_be_marker)
    is_marker = pa.array(np.repeat(batches.are_control, batches.sizes))
    is_commit = pa.array(np.repeat(rng.random(len(batches.sizes)) < _COMMITTED_SHARE, batches.sizes))
    return write_batches(
        pc.if_else(is_marker, pc.if_else(is_commit, _COMMIT_MARKER, _ABORT_MARKER), keys.take(order)),
        pc.if_else(is_marker, _MARKER_VALUE, values.take(order)),
        times,
        batches.sizes,
        base_offset=base_offset,
        leader_epoch=3,
        producer_ids=batches.producer_ids,
        are_control=batches.are_control,
    )


def _removals(
    pools: _Pools, times: npt.NDArray[np.int64], begin: int, end: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the positions of commits that become tombstones of retention in a time range, and the tombstones' keys."""
    due = pools.dies_ms[pools.dies_ms < np.iinfo(np.int64).max] + _RETENTION_MS
    keys = np.flatnonzero(pools.dies_ms < np.iinfo(np.int64).max)
    mine = (due >= begin) & (due < end)
    places = np.searchsorted(times, due[mine])
    places, first = np.unique(places[places < len(times)], return_index=True)
    return places, keys[mine][: len(keys)][first]


def _sizes(records: int, partitions: int, *, has_hot_group: bool) -> list[int]:
    """Return the number of records of each log partition.

    A hot group adds half of all records to its log partition.
    """
    even = (records // 2 if has_hot_group else records) // partitions
    return [records - even * (partitions - 1), *[even] * (partitions - 1)]


def make_dump(
    folder: Path,
    *,
    records: int,
    partitions: int = 2,
    groups: int = 3000,
    seed: int = 7,
    has_hot_group: bool = False,
    segment_records: int = _SEGMENT_RECORDS,
) -> Path:
    """Make a dump, unless the folder has this dump already. A segment of a million records has about 100 MiB.

    Args:
        folder: the folder of the dump.
        records: number of records.
        partitions: number of log partitions.
        groups: number of groups, which are spread over the log partitions.
        seed: seed of the random numbers.
        has_hot_group: whether one group has half of all commits.
        segment_records: largest number of records of a segment.

    Returns:
        The folder, which has a folder for each log partition.
    """
    facts = {"records": records, "partitions": partitions, "groups": groups, "seed": seed, "form": 7}
    facts["has_hot_group"] = has_hot_group
    if segment_records != _SEGMENT_RECORDS:
        facts["segment_records"] = segment_records
    note = folder / "made-by.json"
    if note.exists() and json.loads(note.read_text()) == facts:
        return folder
    rng = np.random.default_rng(seed)
    for partition, wanted in enumerate(_sizes(records, partitions, has_hot_group=has_hot_group)):
        # A group lives in one log partition.
        pools = _Pools(rng, range(partition, groups, partitions))
        if has_hot_group and partition == 0:
            pools.favour_first_group(records / 2 / wanted)
        place = folder / f"__consumer_offsets-{partition}"
        place.mkdir(parents=True, exist_ok=True)
        for base in range(0, wanted, segment_records):
            size = min(segment_records, wanted - base)
            (place / f"{base:020d}.log").write_bytes(_segment(rng, size, base, wanted, pools))
    note.write_text(json.dumps(facts))
    return folder
