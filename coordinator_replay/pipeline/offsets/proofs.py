"""Proofs about the committed offsets in a bucket's log partitions: from which log offsets on no record is missing."""

from coordinator_replay.completeness.offsets import OffsetProofs
from coordinator_replay.pipeline.log_partitions import PartitionStep


def offset_proofs(step: PartitionStep, *, with_times: bool) -> OffsetProofs:
    """Return the log offsets from which the committed offsets of a bucket's log partitions are proven.

    Args:
        step: the log partitions.
        with_times: whether to add the times at which the ranges without a missing record begin.
    """
    ranges = {partition: step.completeness.ranges[partition] for partition in step.completeness.open_partitions()}
    if not ranges or not with_times:
        return OffsetProofs(ranges)
    around = step.times()
    times: dict[tuple[int, int], int | None] = {}
    for partition, of_partition in ranges.items():
        for span in of_partition:
            begins, complete = around[partition, span.begins_at], around[partition, span.from_offset]
            times[partition, span.begins_at] = begins.before_us
            times.setdefault((partition, span.from_offset), complete.at_us or complete.before_us)
    return OffsetProofs(ranges, times)
