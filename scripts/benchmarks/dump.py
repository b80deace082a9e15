"""A large dump made by rule: the same numbers give the same bytes, and the mix is that of a busy cluster.

About 95 % offset commits; groups by Zipf's law, so that a few commit most; classic and KIP-848 records in between;
batches of 1 to 50 records, most of them small, as the coordinator's linger makes them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coordinator_replay.log.bulk_writer import write_batches
from coordinator_replay.records.scalar import encode_key, encode_value

_BEGIN_MS = 1_795_000_000_000
_GROUP_SHARE = 0.05
_PARTITIONS_PER_TOPIC = 12
_SEGMENT_RECORDS = 1_000_000

Matrix = npt.NDArray[np.uint8]


def _topic_id(number: int) -> bytes:
    return np.random.default_rng(number).bytes(16)


def _binary(rows: list[bytes]) -> pa.BinaryArray:
    return pa.array(rows, pa.binary())


def _fixed(matrix: Matrix) -> pa.BinaryArray:
    """The rows of a matrix of bytes as an Arrow array."""
    n, width = matrix.shape
    offsets = np.arange(0, n * width + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix))]
    )


def _put(matrix: Matrix, at: int, numbers: npt.NDArray[np.int64], size: int) -> None:
    matrix[:, at : at + size] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - size :]


def _commit_values(
    rng: np.random.Generator, times: npt.NDArray[np.int64], topics: npt.NDArray[np.int64]
) -> pa.BinaryArray:
    """Values of version 4 with a topic id, made by overwriting the numbers of one that the encoder made."""
    fields = {"offset": 0, "leaderEpoch": 0, "metadata": "", "commitTimestamp": 0, "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}
    model = np.frombuffer(encode_value("OffsetCommit", 4, fields), np.uint8)
    matrix = np.tile(model, (len(times), 1))
    _put(matrix, 2, rng.integers(0, 1 << 40, len(times)), 8)
    _put(matrix, 10, rng.integers(0, 20, len(times)), 4)
    _put(matrix, 15, times, 8)
    ids = np.frombuffer(b"".join(_topic_id(n) for n in range(int(topics.max()) + 1)), np.uint8).reshape(-1, 16)
    matrix[:, -16:] = ids[topics]
    return _fixed(matrix)


def _group_records(rng: np.random.Generator, groups: int) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """A pool of classic and KIP-848 records to draw from."""
    keys, values = [], []

    def add(kind: str, key: dict[str, Any], version: int, value: dict[str, Any] | None) -> None:
        keys.append(encode_key(kind, key))
        values.append(None if value is None else encode_value(kind, version, value))

    for _ in range(2000):
        group = f"team-{int(rng.zipf(1.3)) % groups:06d}"
        member = f"consumer-{group}-{rng.bytes(8).hex()}"
        partitions = [{"topicId": "uqFdjh6KQvSpEvtRKhLUcw", "partitions": list(range(int(rng.integers(0, 12))))}]
        epoch = int(rng.integers(1, 500))
        key = {"groupId": group, "memberId": member}
        current = {"memberEpoch": epoch, "previousMemberEpoch": epoch - 1, "state": 0}
        current |= {"assignedPartitions": partitions, "partitionsPendingRevocation": []}
        add("ConsumerGroupCurrentMemberAssignment", key, 0, current)
        add("ConsumerGroupTargetAssignmentMember", key, 0, {"topicPartitions": partitions})
        add("ConsumerGroupMetadata", {"groupId": group}, 0, {"epoch": epoch, "metadataHash": epoch * 7919})
        add("ConsumerGroupTargetAssignmentMetadata", {"groupId": group}, 0, {"assignmentEpoch": epoch})
        about = {"instanceId": None, "rackId": None, "clientId": f"client-{group}", "clientHost": "/10.0.0.9"}
        about |= {"subscribedTopicNames": ["orders", "payments"], "subscribedTopicRegex": "", "serverAssignor": None}
        add(
            "ConsumerGroupMemberMetadata",
            key,
            0,
            {**about, "rebalanceTimeoutMs": 300_000, "classicMemberMetadata": None},
        )
        add("ConsumerGroupCurrentMemberAssignment", key, 0, None)
        add("GroupMetadata", {"group": f"classic-{group}"}, 3, _classic(rng, member, epoch))
    return _binary(keys), _binary(values)


def _classic(rng: np.random.Generator, member: str, generation: int) -> dict[str, Any]:
    subscription, assignment = (
        "AAMAAAABAAtzaG9wLm9yZGVycwAAAAAAAAAA/////wAA",
        "AAAAAAABAAtzaG9wLm9yZGVycwAAAAEAAAAAAAAAAA==",
    )
    one = {"groupInstanceId": None, "clientId": "c", "clientHost": "/10.0.0.9", "rebalanceTimeout": 300_000}
    one |= {"sessionTimeout": 45_000, "subscription": subscription, "assignment": assignment}
    members = [{"memberId": f"{member}-{n}", **one} for n in range(int(rng.integers(1, 6)))]
    head = {"protocolType": "consumer", "generation": generation, "protocol": "range", "leader": members[0]["memberId"]}
    return {**head, "currentStateTimestamp": _BEGIN_MS, "members": members}


def _commit_keys(
    rng: np.random.Generator, groups: int
) -> tuple[pa.BinaryArray, npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Distinct keys, the topic each is about, and how often each is drawn."""
    keys, topics, weights = [], [], []
    for group in range(groups):
        topic = int(rng.integers(0, 200))
        for partition in range(int(rng.integers(1, _PARTITIONS_PER_TOPIC + 1))):
            key = {"group": f"team-{group:06d}", "topic": f"orders.region-{topic:03d}", "partition": partition}
            keys.append(encode_key("OffsetCommit", key))
            topics.append(topic)
            weights.append(1 / (group + 1) ** 1.05)
    chance = np.array(weights)
    return _binary(keys), np.array(topics), chance / chance.sum()


def _batch_sizes(rng: np.random.Generator, records: int) -> npt.NDArray[np.int64]:
    """Sizes from 1 to 50, about 8 on average, that add up to the records."""
    sizes = np.minimum(rng.geometric(1 / 8, records), 50)
    ends = np.cumsum(sizes)
    whole = int(np.searchsorted(ends, records))
    sizes = sizes[: whole + 1]
    sizes[-1] -= int(ends[whole]) - records
    return sizes


def _segment(rng: np.random.Generator, records: int, base_offset: int, pools: Any) -> bytes:
    commit_keys, topics, chance, group_keys, group_values = pools
    times = _BEGIN_MS + np.sort(rng.integers(0, 86_400_000, records))
    is_group = rng.random(records) < _GROUP_SHARE
    n_groups = int(is_group.sum())
    drawn = rng.choice(len(commit_keys), records - n_groups, p=chance)
    record = rng.integers(0, len(group_keys), n_groups)
    keys = pa.concat_arrays([commit_keys.take(pa.array(drawn)), group_keys.take(pa.array(record))])
    values = pa.concat_arrays(
        [_commit_values(rng, times[~is_group], topics[drawn]), group_values.take(pa.array(record))]
    )
    place = np.empty(records, np.int64)
    place[~is_group] = np.arange(records - n_groups)
    place[is_group] = records - n_groups + np.arange(n_groups)
    order = pa.array(place)
    return write_batches(
        keys.take(order), values.take(order), times, _batch_sizes(rng, records), base_offset=base_offset, leader_epoch=3
    )


def make_dump(folder: Path, *, records: int, partitions: int = 2, groups: int = 3000, seed: int = 7) -> Path:
    """Make the dump unless it is there; segments of at most a million records, some 100 MiB.

    Returns:
        The folder, which holds a folder for each partition of the topic.
    """
    facts = {"records": records, "partitions": partitions, "groups": groups, "seed": seed, "form": 1}
    note = folder / "made-by.json"
    if note.exists() and json.loads(note.read_text()) == facts:
        return folder
    rng = np.random.default_rng(seed)
    pools = (*_commit_keys(rng, groups), *_group_records(rng, groups))
    for partition in range(partitions):
        wanted = records // partitions + (partition < records % partitions)
        place = folder / f"__consumer_offsets-{partition}"
        place.mkdir(parents=True, exist_ok=True)
        for base in range(0, wanted, _SEGMENT_RECORDS):
            size = min(_SEGMENT_RECORDS, wanted - base)
            (place / f"{base:020d}.log").write_bytes(_segment(rng, size, base, pools))
    note.write_text(json.dumps(facts))
    return folder
