"""Rows of the replay of groups: the engine alone, many small groups, and large groups.

The records of small groups are made by rule. In each turn, a member joins a KIP-848 group and leaves it a minute later.
A turn has ten records, in the order in which the coordinator writes them.
"""

import json
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measured import Measured, Setting, seconds
from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.engine.model import Record
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.garbage import few_collections

_BEGIN_MS = 1_795_000_000_000
TOPIC = "orders"
TOPIC_ID = "uqFdjh6KQvSpEvtRKhLUcw"
_TURN = 10
_ROW_GROUP = 50_000
"""Rows of a row group, as in the tables. Only one task could read a single row group of all rows."""
_GROUPS = 100_000
_FIRST_GROUPS = 4_000
_ENGINE_TURNS = 10_000
_WANTED_A_SECOND = 50_000
_WANTED_SECONDS = 25
_BUCKETS = 10

_MEMBER: dict[str, Any] = {
    "instanceId": None,
    "rackId": None,
    "clientId": "client",
    "clientHost": "/10.0.0.9",
    "subscribedTopicNames": [TOPIC],
    "subscribedTopicRegex": "",
    "serverAssignor": None,
    "rebalanceTimeoutMs": 300_000,
    "classicMemberMetadata": None,
}
"""Value of the record of a member of a KIP-848 group."""

Told = tuple[int, str, dict[str, Any], dict[str, Any] | None]


@cache
def _values(epoch: int) -> tuple[tuple[str, bool, dict[str, Any] | None], ...]:
    """Return the records of a turn: the kind, whether the key names a member, and the value of each."""
    owned = [{"topicId": TOPIC_ID, "partitions": [0, 1, 2]}]
    current = {"memberEpoch": epoch, "previousMemberEpoch": 0, "state": 0, "assignedPartitions": owned}
    return (
        ("ConsumerGroupMemberMetadata", True, _MEMBER),
        ("ConsumerGroupMetadata", False, {"epoch": epoch, "metadataHash": 7919}),
        ("ConsumerGroupTargetAssignmentMember", True, {"topicPartitions": owned}),
        ("ConsumerGroupTargetAssignmentMetadata", False, {"assignmentEpoch": epoch}),
        ("ConsumerGroupCurrentMemberAssignment", True, {**current, "partitionsPendingRevocation": []}),
        ("ConsumerGroupCurrentMemberAssignment", True, None),
        ("ConsumerGroupTargetAssignmentMember", True, None),
        ("ConsumerGroupMemberMetadata", True, None),
        ("ConsumerGroupMetadata", False, {"epoch": epoch + 1, "metadataHash": 7919}),
        ("ConsumerGroupTargetAssignmentMetadata", False, {"assignmentEpoch": epoch + 1}),
    )


def _life(group_id: str, turns: int) -> Iterator[Told]:
    """Yield the time, kind, key and value of each record of a group."""
    for turn in range(turns):
        member = f"member-{turn:06d}"
        for place, (kind, names_member, value) in enumerate(_values(2 * turn + 1)):
            key = {"groupId": group_id} | ({"memberId": member} if names_member else {})
            yield _BEGIN_MS + 120_000 * turn + (60_000 if place >= _TURN // 2 else 0), kind, key, value


def _group_records(lives: Iterator[tuple[str, int]], path: Path) -> None:
    """Write the records of groups in the columns of ``group_records`` that the replay reads.

    Args:
        lives: id and number of turns of each group.
        path: the Parquet file to write.
    """
    columns: dict[str, list[object]] = {name: [] for name in ("group_id", "at_ms", "kind", "key_json", "value_json")}
    for group_id, turns in lives:
        for told in _life(group_id, turns):
            texts = (None if part is None else json.dumps(part) for part in told[2:])
            for column, cell in zip(columns.values(), (group_id, *told[:2], *texts), strict=True):
                column.append(cell)
    n = len(columns["group_id"])
    rows = pa.table(
        {
            "group_id": columns["group_id"],
            "log_partition": pa.array([0] * n, pa.int32()),
            "log_offset": pa.array(range(n), pa.int64()),
            "log_timestamp": pa.array(columns["at_ms"], pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
            "kind": columns["kind"],
            "key_json": columns["key_json"],
            "value_json": columns["value_json"],
            "value_version": pa.array([0] * n, pa.int16()),
            "missing_before": pa.array([0] * n, pa.int64()),
            "record_bytes": pa.array([200] * n, pa.int32()),
            "is_tombstone": pa.array([value is None for value in columns["value_json"]]),
        }
    )
    pq.write_table(rows, path, row_group_size=_ROW_GROUP)


def _replay_share(path: str, place: Any, context: Any) -> int:
    """Sort and replay records and write all rows, as the audit's bucket stage does, and return the number of files."""
    from coordinator_replay.pipeline.bucket_files import TableWriter
    from coordinator_replay.pipeline.groups.group_step import write_rows
    from coordinator_replay.pipeline.groups.input_rows import RECORDS, group_records, records_in_order
    from coordinator_replay.pipeline.groups.replay import replay_groups
    from coordinator_replay.store.scan import read_paths

    writer = TableWriter(place, 0)
    with group_records(read_paths([path], RECORDS.names)) as records, few_collections():
        write_rows(replay_groups(records_in_order(records), context), writer)
    return len(writer.close())


def _bytes(path: str) -> int:
    return Path(path).stat().st_size


def many_groups(*, few: bool = False) -> Iterator[tuple[str, int]]:
    """Return groups of one turn each. With ``few``, return few groups, for a first job that starts everything."""
    return ((f"group-{n:06d}", 1) for n in range(_FIRST_GROUPS if few else _GROUPS))


def fold_seconds(setting: Setting, name: str, lives: Iterator[tuple[str, int]]) -> float:
    """Return the seconds that the bucket stage takes to replay groups.

    The records stay in files ``<name>-<bucket>.parquet``.
    """
    from coordinator_replay.pipeline.bucket_files import Place
    from coordinator_replay.pipeline.groups.replay import ReplayContext
    from coordinator_replay.pipeline.stage import SparkStages

    buckets: list[list[tuple[str, int]]] = [[] for _ in range(_BUCKETS)]
    for number, life in enumerate(lives):
        buckets[number % _BUCKETS].append(life)
    paths = [setting.work / f"{name}-{number}.parquet" for number in range(_BUCKETS)]
    for path, mine in zip(paths, buckets, strict=True):
        _group_records(iter(mine), path)
    place = Place(warehouse=str(setting.work / f"{name}-tables"), cluster="benchmark", folder=str(setting.work))
    context = ReplayContext(cluster="benchmark", topic_names={TOPIC_ID: TOPIC})
    stage = partial(_replay_share, place=place, context=context)
    shares = [str(path) for path in paths]
    stages = SparkStages(setting.spark)
    return seconds(lambda: stages.run("replay groups", shares, stage, lambda path: Path(path).stat().st_size))


def engine(setting: Setting) -> Measured:
    """Measure the engine on one core, against parsing the JSON of the same records."""
    records = [
        Record(
            kind=kind, key=key, value=value, partition=0, offset=offset, timestamp_ms=at_ms, missing_before=0,
            value_version=None if value is None else 0,
        )
        for offset, (at_ms, kind, key, value) in enumerate(_life("group", _ENGINE_TURNS))
    ]  # fmt: skip
    texts = [json.dumps(part) for record in records for part in (record.key, record.value)]

    def ours() -> None:
        replay = StateReplay("group")
        for record in records:
            replay.apply(record)

    a = min(seconds(ours) for _ in range(setting.repeat))
    b = min(seconds(lambda: [json.loads(text) for text in texts]) for _ in range(setting.repeat))
    rate = len(records) / a
    return Measured(
        name="engine",
        ours=f"engine: {rate:,.0f} records/s on one core",
        baseline="json.loads of the same records",
        ours_seconds=a,
        baseline_seconds=b,
        ratio=a / b,
        wanted=f">= {_WANTED_A_SECOND:,} records/s",
        holds=rate >= _WANTED_A_SECOND,
    )


def groups(setting: Setting) -> Measured:
    """Measure the bucket stage over many groups of ten records each, against the time that it may take."""
    # Start-up does not count: the first job of a JVM and its workers takes some ten seconds more.
    fold_seconds(setting, "first", many_groups(few=True))
    a = fold_seconds(setting, "even", many_groups())
    return Measured(
        name="groups",
        ours=f"replay of {_GROUPS:,} groups of {_TURN} records: {_GROUPS / a:,.0f} groups/s",
        baseline="the time there is for it",
        ours_seconds=a,
        baseline_seconds=_WANTED_SECONDS,
        ratio=a / _WANTED_SECONDS,
        wanted=f"<= {_WANTED_SECONDS} s",
        holds=a <= _WANTED_SECONDS,
    )


_LARGE_MEMBERS, _LARGE_PARTITIONS, _LARGE_REBALANCES, _LARGE_EPOCHS = 1_000, 20_000, 100, 1_000


def _generation(number: int, owners: list[int]) -> Record:
    """Return the record of a classic generation.

    Args:
        number: number of the generation.
        owners: number of the member that owns each partition.
    """
    owned: list[list[int]] = [[] for _ in range(_LARGE_MEMBERS)]
    for partition, owner in enumerate(owners):
        owned[owner].append(partition)
    about = {"groupInstanceId": None, "clientId": "client", "clientHost": "/10.0.0.9", "rebalanceTimeout": 300_000}
    about |= {"sessionTimeout": 45_000, "subscription": "AAEAAA==", "assignment": "AAEAAA=="}
    members = [
        {
            "memberId": f"member-{member:06d}",
            **about,
            "subscriptionFields": {"version": 1, "topics": [TOPIC]},
            "assignmentFields": {"assignedPartitions": [{"topic": TOPIC, "partitions": partitions}]},
        }
        for member, partitions in enumerate(owned)
    ]
    at_ms = _BEGIN_MS + 60_000 * number
    value = {"protocolType": "consumer", "generation": number, "protocol": "sticky", "leader": "member-000000"}
    value |= {"currentStateTimestamp": at_ms - 100, "members": members}
    return Record("GroupMetadata", {"group": "large"}, value, 0, number, at_ms)


def _moved(number: int, owners: list[int]) -> None:
    """Give a tenth of the partitions to the next member; each rebalance moves other partitions."""
    share = _LARGE_PARTITIONS // 10
    for step in range(share):
        partition = (number * share + step) % _LARGE_PARTITIONS
        owners[partition] = (owners[partition] + 1) % _LARGE_MEMBERS


def _halves(name: str, kind: str, took: list[float]) -> Measured:
    """Return a row that compares the last half of the rebalances with the first half."""
    half = len(took) // 2
    a, b = sum(took[half:]), sum(took[:half])
    return Measured(
        name=name,
        ours=f"{kind} group, {_LARGE_MEMBERS:,} members, {_LARGE_PARTITIONS:,} partitions: its last {half} rebalances",
        baseline="the first half",
        ours_seconds=a,
        baseline_seconds=b,
        ratio=a / b,
        wanted="<= 1.2 x the first half",
        holds=a / b <= 1.2,
    )


def large_group(setting: Setting) -> Measured:
    """Measure a classic group in which a tenth of many partitions changes hands at each rebalance."""
    life, took = GroupReplay("benchmark", "large"), list[float]()
    owners = [partition % _LARGE_MEMBERS for partition in range(_LARGE_PARTITIONS)]
    with few_collections():
        for number in range(1, _LARGE_REBALANCES + 1):
            record = _generation(number, owners)
            took.append(seconds(partial(life.feed, record)))
            _moved(number, owners)
    return _halves("large-group", "classic", took)


def _owned(owners: list[int]) -> list[set[int]]:
    owned: list[set[int]] = [set() for _ in range(_LARGE_MEMBERS)]
    for partition, owner in enumerate(owners):
        owned[owner].add(partition)
    return owned


def _topic_partitions(partitions: set[int]) -> list[dict[str, Any]]:
    return [{"topicId": TOPIC_ID, "partitions": sorted(partitions)}] if partitions else []


def _epoch(
    epoch: int, before: list[set[int]], after: list[set[int]]
) -> Iterator[tuple[str, int | None, dict[str, Any]]]:
    """Yield kind, member and value of the records of a KIP-848 rebalance, in the order in which they are written."""
    members = range(_LARGE_MEMBERS)
    if epoch == 1:
        yield from (("ConsumerGroupMemberMetadata", member, _MEMBER) for member in members)
    yield "ConsumerGroupMetadata", None, {"epoch": epoch, "metadataHash": 7919 + epoch}
    for member in members:
        if before[member] != after[member]:
            yield "ConsumerGroupTargetAssignmentMember", member, {"topicPartitions": _topic_partitions(after[member])}
    yield "ConsumerGroupTargetAssignmentMetadata", None, {"assignmentEpoch": epoch}
    for member in members:
        kept, lost = before[member] & after[member], before[member] - after[member]
        if lost:
            told = {"memberEpoch": epoch - 1, "previousMemberEpoch": max(epoch - 2, 0), "state": 1}
            told |= {
                "assignedPartitions": _topic_partitions(kept),
                "partitionsPendingRevocation": _topic_partitions(lost),
            }
            yield "ConsumerGroupCurrentMemberAssignment", member, told
    for member in members:
        told = {"memberEpoch": epoch, "previousMemberEpoch": epoch - 1, "state": 0, "partitionsPendingRevocation": []}
        told |= {"assignedPartitions": _topic_partitions(after[member])}
        yield "ConsumerGroupCurrentMemberAssignment", member, told


def large_modern_group(setting: Setting) -> Measured:
    """Measure a KIP-848 group in which a tenth of many partitions changes hands at each of 1,000 epochs."""
    life, took = GroupReplay("benchmark", "large"), list[float]()
    owners = [partition % _LARGE_MEMBERS for partition in range(_LARGE_PARTITIONS)]
    before, offset = [set[int]() for _ in range(_LARGE_MEMBERS)], 0
    with few_collections():
        for epoch in range(1, int(_LARGE_EPOCHS * setting.part) + 1):
            after = _owned(owners)
            records = []
            for kind, member, value in _epoch(epoch, before, after):
                key = {"groupId": "large"} | ({} if member is None else {"memberId": f"member-{member:06d}"})
                records.append(Record(kind, key, value, 0, offset, _BEGIN_MS + 60_000 * epoch))
                offset += 1
            took.append(seconds(partial(_feed_all, life, records)))
            before = after
            _moved(epoch, owners)
    return _halves("size-consumer-group", "consumer", took)


def _feed_all(life: GroupReplay, records: list[Record]) -> None:
    for record in records:
        life.feed(record)
