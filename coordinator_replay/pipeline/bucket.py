"""The stage *bucket*: it writes the records of a bucket, and derives rows about groups and committed offsets from them.

It needs only the bucket's new records and the bucket's rows in the tables, because Kafka keeps a group's records,
commits and transaction markers in one log partition.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from coordinator_replay.completeness.copies import CopyOffsets, copy_of, without
from coordinator_replay.pipeline.bucket_files import BucketFiles, Place, TableWriter
from coordinator_replay.pipeline.bucket_share import BucketShare
from coordinator_replay.pipeline.deduplicate import Deduplicated, Deduplication, OffsetsByCopy, offsets_by_copy
from coordinator_replay.pipeline.group_moves import GroupMoves
from coordinator_replay.pipeline.groups.group_step import GroupStep, groups_not_to_continue
from coordinator_replay.pipeline.groups.replay import ReplayContext
from coordinator_replay.pipeline.log_partitions import PartitionStep
from coordinator_replay.pipeline.offsets.offset_step import OffsetContext, OffsetStep
from coordinator_replay.pipeline.rebalance_pauses import PauseStep
from coordinator_replay.pipeline.stored_copies import COPIES, completeness, read_copies


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketContext:
    """Values of a run that the work on each bucket needs.

    Attributes:
        place: the folders for the rows that are written.
        replay: values that the replay of each group needs.
        offsets: values that deriving the offsets needs.
        derives: whether to write derived rows. If False, only records are written.
        has_logs: whether a later stage adds lines of brokers' logs to the rebalances.
    """

    place: Place
    replay: ReplayContext
    offsets: OffsetContext
    derives: bool = True
    has_logs: bool = False


@dataclass(slots=True)
class BucketResult:
    """Result of the work on a bucket.

    Attributes:
        files: the files to add and to remove, and staged files for later stages.
        deduplicated: the counts of the bucket's records.
    """

    files: BucketFiles
    deduplicated: Deduplicated


def _partitions(
    share: BucketShare, run_id: str, files: BucketFiles, offsets: OffsetsByCopy, positions: Mapping[int, int]
) -> PartitionStep:
    """Return the step that finds the ranges of log offsets without a missing record, by log partition of a bucket.

    If an election truncated a log partition, also replace the rows of ``log_copies``.

    Args:
        share: the bucket.
        run_id: the run.
        files: the bucket's files.
        offsets: the log offsets of records in the copies that this run reads.
        positions: number of log offsets that hold a record, by log partition.
    """
    new = [
        copy_of(run_id, copy.bounds, offsets.get((copy.bounds.log_partition, copy.source), CopyOffsets()))
        for copy in share.copies
        if copy.has_news(share.ends.get(copy.bounds.log_partition))
    ]
    earlier = read_copies(file.uri for file in files.old(COPIES))
    if share.lost_from:
        files.remove(COPIES)
        new = [*without(earlier, share.lost_from), *new]
        earlier = {}
    return PartitionStep(share, files, completeness(earlier, new), positions)


def reasons_to_rebuild(share: BucketShare, names: Mapping[str, str], renamed: Collection[str]) -> list[str]:
    """Return the reasons why a bucket can't continue from its tables; an empty list if it can.

    Args:
        share: the bucket. Its staged records must come after the records in its tables.
        names: topic name by id.
        renamed: ids of topics whose names are new or have changed since the last run.
    """
    files = BucketFiles(share.bucket, share.is_rebuild, share.files)
    reasons = groups_not_to_continue(files, names, renamed)
    if share.copies:
        step = _partitions(share, "", files, offsets_by_copy(share.staged), {})
        reasons += [
            f"log partition {partition}: other ranges of its history are complete now" for partition in step.changed()
        ]
    return reasons


def run_bucket(share: BucketShare, context: BucketContext) -> BucketResult:
    """Write the new records of a bucket, replay its groups, and derive its offsets.

    If ``context.derives`` is False, only write the records and the rows about log partitions.

    Args:
        share: the bucket.
        context: values of the run that are the same for each bucket.
    """
    files = BucketFiles(share.bucket, share.is_rebuild, share.files)
    writer = TableWriter(context.place, share.bucket)
    deduplicated, offsets = Deduplication(share, files).run(writer)
    files.take(writer.close())
    result = BucketResult(files, deduplicated)
    partitions = _partitions(share, context.replay.run_id, files, offsets, deduplicated.positions)
    writer = TableWriter(context.place, share.bucket)
    partitions.write(writer)
    files.take(writer.close())
    if not context.derives:
        return result
    moves = GroupMoves(share.moves)
    groups = GroupStep(files, context.replay, partitions, moves)
    writer = TableWriter(context.place, share.bucket)
    if share.is_rebuild:
        groups.rebuild(writer)
    else:
        groups.resume(writer)
    files.take(writer.close())
    writer = TableWriter(context.place, share.bucket)
    pauses = PauseStep(files, partitions.reached_ms(), partitions.exact_spans())
    OffsetStep(share, files, context.offsets, partitions, pauses.pauses, moves).run(writer)
    pauses.write(writer, awaits_logs=context.has_logs)
    files.take(writer.close())
    return result
