"""The ``__cluster_metadata`` log: records about topics, and about leaders of ``__consumer_offsets``."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator_replay.analysis.coordinator_changes import LeaderChange
from coordinator_replay.errors import InputError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.io_metrics import IoMetrics, count
from coordinator_replay.log.dump import DumpFile, list_files, recognise
from coordinator_replay.log.dump_format import Format
from coordinator_replay.log.segment import read_segment
from coordinator_replay.records.cluster_metadata import decode_metadata
from coordinator_replay.times import milliseconds

OFFSETS_TOPIC = "__consumer_offsets"

_SNAPSHOT = ".checkpoint"
_NAME = re.compile(r"(\d{20})[.-]")
_RECOVERING = 1


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record about a topic or one of its partitions in the ``__cluster_metadata`` log.

    Attributes:
        log_offset: log offset of the record; for a record of a snapshot, the record's position in the snapshot.
        leader: id of the broker that leads the partition; -1 for no leader. None if the record does not name the
            leader.
        leader_epoch: leader epoch of the partition; None if the record does not name it.
        is_unclean: whether the leader was elected although it was not in sync.
    """

    kind: str
    topic_id: str
    topic: str | None
    partition: int | None
    at_ms: int | None
    log_offset: int = 0
    leader: int | None = None
    leader_epoch: int | None = None
    is_unclean: bool = False


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """The records about topics in a file of the ``__cluster_metadata`` log.

    Attributes:
        base_offset: the file's first log offset; for a snapshot, the first log offset that the snapshot does not
            contain.
        end_offset: the log offset after the file's last record.
    """

    base_offset: int
    end_offset: int
    is_snapshot: bool
    records: Sequence[TopicRecord] = field(default_factory=list)


def metadata_files(path: str) -> list[DumpFile]:
    """Return the files of a dump of the ``__cluster_metadata`` log.

    Raises:
        InputError: the dump has no such log.
    """
    names = (".log", _SNAPSHOT)
    files = [file for file in list_files(path) if file.uri.endswith(names) and recognise(file.uri) is Format.SEGMENTS]
    if not files:
        raise InputError(f"{path}: no segment of the __cluster_metadata log here")
    return files


def read_metadata(file: DumpFile) -> MetadataFile:
    """Read the records about topics in a file of the ``__cluster_metadata`` log. This is a stage of the run."""
    records: list[TopicRecord] = []
    is_snapshot = file.uri.endswith(_SNAPSHOT)
    name = _NAME.match(file.uri.rpartition("/")[2])
    base, end = int(name[1]) if name else 0, 0
    filesystem, path = open_filesystem(file.uri)
    with filesystem.open_input_stream(path, compression=None) as stream:
        for part in read_segment(stream, source=file.uri, log_partition=0):
            offsets = [offset for offset in part.records.column("log_offset").to_pylist() if offset is not None]
            count(IoMetrics(records_read=part.records.num_rows))
            end = max([end, *(offset + 1 for offset in offsets)])
            good = part.records.filter(part.records.column("control_type").is_null())
            columns = (good.column(name).to_pylist() for name in ("value", "log_timestamp", "log_offset"))
            records += (record for row in zip(*columns, strict=True) if (record := _record(*row)) is not None)
        count(IoMetrics(files_read=1, bytes_read=file.size))
    return MetadataFile(base, base if is_snapshot else end, is_snapshot, records)


def _record(value: bytes | None, at: Any, log_offset: int | None) -> TopicRecord | None:
    record = None if value is None else decode_metadata(value)
    if record is None or "topicId" not in record.fields or log_offset is None:
        return None
    fields: Mapping[str, Any] = record.fields
    if record.kind == "PartitionChangeRecord" and "leader" not in fields:
        return None
    return TopicRecord(
        kind=record.kind,
        topic_id=fields["topicId"],
        topic=fields.get("name"),
        partition=fields.get("partitionId"),
        at_ms=None if at is None else milliseconds(at),
        log_offset=log_offset,
        leader=fields.get("leader"),
        leader_epoch=fields.get("leaderEpoch"),
        is_unclean=fields.get("leaderRecoveryState") == _RECOVERING,
    )


def leader_changes(files: Iterable[MetadataFile]) -> Iterator[LeaderChange]:
    """Yield the changes of leaders of partitions of ``__consumer_offsets``.

    If a record names a leader without a leader epoch, the leader epoch is one more than before
    (``PartitionRegistration.merge``).

    Args:
        files: files of the ``__cluster_metadata`` log, in any order.
    """
    in_order = sorted(files, key=lambda file: (file.base_offset, file.end_offset))
    topics = [
        (record.log_offset, record.topic_id)
        for file in in_order
        for record in file.records
        if record.topic == OFFSETS_TOPIC
    ]
    # A topic that was created again has another id, and its epochs begin again.
    topic_id = max(topics, default=(0, None))[1]
    snapshots = [file for file in in_order if file.is_snapshot]
    epochs: dict[int, int] = {}
    reached = 0
    for file in in_order:
        if file.is_snapshot:
            continue
        if file.base_offset > reached:
            # Records before this file are missing, so the epochs counted so far can't be continued.
            yield from _from_snapshots(snapshots, file.base_offset, topic_id, epochs)
            epochs.clear()
        for record in file.records:
            yield from _from_snapshots(snapshots, record.log_offset + 1, topic_id, epochs)
            if record.topic_id == topic_id and record.log_offset >= reached:
                yield from _change(record, epochs, record.at_ms)
        reached = max(reached, file.end_offset)
    yield from _from_snapshots(snapshots, None, topic_id, epochs)


def _from_snapshots(
    snapshots: list[MetadataFile], before: int | None, topic_id: str | None, epochs: dict[int, int]
) -> Iterator[LeaderChange]:
    """Yield the leaders of partitions in snapshots of the metadata log, if the leader epoch is not yet known.

    Args:
        snapshots: the snapshots, oldest first. Snapshots that were used are removed from the list.
        before: use only snapshots that end before this log offset; None to use all.
        topic_id: id of the topic of the partitions.
        epochs: the known leader epoch of each partition. The function adds epochs.
    """
    while snapshots and (before is None or snapshots[0].base_offset < before):
        for record in snapshots.pop(0).records:
            if record.topic_id == topic_id and record.partition not in epochs:
                yield from _change(record, epochs, None)


def _change(record: TopicRecord, epochs: dict[int, int], at_ms: int | None) -> Iterator[LeaderChange]:
    """Yield the change of a partition's leader that a record shows, if any.

    Args:
        record: the record.
        epochs: the leader epoch by partition. The function updates it.
        at_ms: the time of the record.
    """
    if record.partition is None or record.leader is None:
        return
    before = epochs.get(record.partition)
    epoch = record.leader_epoch if record.leader_epoch is not None else None if before is None else before + 1
    if epoch is not None and epoch != before:
        epochs[record.partition] = epoch
        yield LeaderChange(record.partition, epoch, record.leader, at_ms, record.is_unclean)
