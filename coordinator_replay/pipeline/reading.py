"""Reading a dump: its records are decoded and staged by bucket.

The copies of the dump are compared with each other and with the log that earlier runs have read.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from coordinator_replay.completeness.anchors import Comparison
from coordinator_replay.completeness.same_log import (
    EarlierLog,
    LogComparison,
    LogCopy,
    logs_after,
    may_have_diverged,
    merged,
)
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.log.dump import LEADER_EPOCHS, PARTITION_METADATA, Dump, DumpFile
from coordinator_replay.log.dump_format import Format
from coordinator_replay.pipeline.compared_copies import CopiesShare, compare_copies, share_of
from coordinator_replay.pipeline.ledger import History, Run, below, between
from coordinator_replay.pipeline.read.audited import UnreadFiles, unread_files
from coordinator_replay.pipeline.read.copies import DumpCopy, export_copies, gaps_of, passed_over, segment_copies
from coordinator_replay.pipeline.read.decode import DecodedFile, FileShare, Skip, copy_name, decode_files, decode_rows
from coordinator_replay.pipeline.read.extents import Extent
from coordinator_replay.pipeline.read.look_up import LookUp, companions, compare_logs, folder_of, look_up
from coordinator_replay.pipeline.read.tally import Ranges, Tally
from coordinator_replay.pipeline.stage import Stages, together
from coordinator_replay.store.layout import bucket_of
from coordinator_replay.store.snapshot import TableFile

_MARKERS_UNSEEN = (
    "the input is an export through a consumer: transaction markers, producer ids and batches are not in it, so "
    "whether a transactional commit was committed is unproven"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Facts about the log that earlier runs have stored.

    Attributes:
        history: the ranges of log offsets that earlier runs have read.
        logs: facts about the log by log partition, with which the dump of this run is compared.
        complete: ranges of log offsets without a missing record, by log partition, as tuples of first log offset and
            end (not included).
        tables: files of all tables that have buckets.
        is_read_again: whether this run also reads records that earlier runs have read.
    """

    history: History
    logs: Mapping[int, EarlierLog]
    complete: Ranges
    tables: Sequence[TableFile] = ()
    is_read_again: bool = False

    def without(self, lost_from: Mapping[int, int]) -> "Earlier":
        """Return these facts without the log offsets that an election has truncated."""
        history = History(self.history.runs, lost_from)
        logs = {
            partition: log.below(lost_from[partition]) if partition in lost_from else log
            for partition, log in self.logs.items()
        }
        return replace(self, history=history, logs=logs, complete=below(self.complete, lost_from))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Result of reading a dump.

    Attributes:
        decoded: the decoded files of the dump, in the dump's order.
        tally: counts of all records in these files.
        copies: the copies of log partitions that the dump has.
        history: the log offsets that earlier runs have read, without log offsets that an election has truncated.
        logs: facts about the log by log partition. The next run compares its dump with them.
        lost_from: the first log offset that an election has truncated, by log partition.
        gaps: ranges of log offsets that no file covers, as tuples of log partition, first log offset, end (not
            included).
        extents: the log offsets that the files of the dump cover.
        notes: sentences about the dump for the user.
    """

    decoded: Sequence[DecodedFile]
    tally: Tally
    copies: Sequence[DumpCopy]
    history: History
    logs: Mapping[int, EarlierLog]
    lost_from: Mapping[int, int] = field(default_factory=dict)
    gaps: Sequence[tuple[int, int, int]] = ()
    extents: Sequence[Extent] = ()
    notes: Sequence[str] = ()

    def record(self, run: Run) -> None:
        """Write the facts about the read dump into the run's row of the ledger."""
        run.notes += self.notes
        run.reach(self.tally)
        run.lost_from = dict(self.lost_from)
        run.gaps = list(self.gaps)
        run.cover(self.extents, self.history.ends)
        run.log_end = max(filter(None, (self.tally.end(), self.history.log_end)), default=None)


def read_dump(stages: Stages, dump: Dump, earlier: Earlier, *, folder: str, buckets: int) -> Reading:
    """Read and decode the parts of a dump that earlier runs have not read.

    Args:
        stages: runs the stages.
        dump: the dump.
        earlier: facts about the log that earlier runs have stored.
        folder: the folder of staged files.
        buckets: number of buckets.

    Raises:
        InputError: the dump is not of the log that earlier runs have read.
    """
    read = _read_segments if dump.format is Format.SEGMENTS else _read_rows
    reading = read(_Decoding(stages, folder, buckets), dump, earlier)
    return replace(reading, notes=[*dump.notes, *reading.notes])


@dataclass(frozen=True, slots=True)
class _Decoding:
    """A runner of the stage *decode*, which decodes segments or the rows of an export."""

    stages: Stages
    folder: str
    buckets: int

    def files(
        self,
        files: Sequence[DumpFile],
        skip: Skip,
        earlier: Earlier,
        comparison: LogComparison,
        dump: Dump,
    ) -> list[DecodedFile]:
        """Read and decode segments, without batches that lie in the ranges to skip."""
        ranges, logs = earlier.history.ranges, earlier.logs
        metadata, checkpoints = (companions(dump, files, name) for name in (PARTITION_METADATA, LEADER_EPOCHS))
        shares = [
            FileShare(
                file=file,
                skip=skip.get(file.log_partition, ()),
                audited={file.log_partition: ranges.get(file.log_partition, ())},
                anchors=logs[file.log_partition].anchors if file.log_partition in logs else (),
                limit=comparison.limit(_names(file), file.log_partition),
                metadata=metadata.get(file.uri),
                checkpoint=checkpoints.get(file.uri),
            )
            for file in files
        ]
        tasks = together(shares, lambda share: share.file.size)
        stage = partial(decode_files, folder=self.folder, buckets=self.buckets)
        return self.stages.run_on_files(
            "decode segments", tasks, stage, lambda task: sum(share.file.size for share in task)
        )

    def rows(self, dump: Dump, earlier: Earlier) -> list[DecodedFile]:
        """Decode the rows of an export."""
        stage = partial(
            decode_rows,
            folder=self.folder,
            buckets=self.buckets,
            audited=dict(earlier.history.ranges),
            anchors={partition: log.anchors for partition, log in earlier.logs.items()},
        )
        return self.stages.run_on_rows("decode records", dump, stage)


def _read_rows(decoding: _Decoding, dump: Dump, earlier: Earlier) -> Reading:
    """Read an export that a consumer made."""
    decoded = decoding.rows(dump, earlier)
    comparison = _compare_logs(decoding.stages, _parts_of(decoded), earlier, [])
    tally = _tally(decoded)
    return Reading(
        decoded=decoded,
        tally=tally,
        copies=export_copies(tally, earlier.history.ends),
        history=earlier.history,
        logs=_logs_after(earlier, decoded, comparison),
        notes=[_MARKERS_UNSEEN, *comparison.notes, *_notes(decoded)],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SegmentsRead:
    """Segments that were read, without records that an election has truncated.

    Attributes:
        unread: the parts of the segments that no earlier run has read.
        decoded: the decoded files of the dump.
        comparison: result of the comparison of the dump's log with the log of earlier runs.
        earlier: facts about the log that earlier runs have stored, without log offsets that an election has truncated.
        extents: the log offsets that the files cover.
        copies: the copies of log partitions.
        logs: facts about the log by log partition. The next run compares its dump with them.
    """

    unread: UnreadFiles
    decoded: Sequence[DecodedFile]
    comparison: LogComparison
    earlier: Earlier
    extents: Sequence[Extent]
    copies: Sequence[DumpCopy]
    logs: Mapping[int, EarlierLog]

    def reading(self) -> Reading:
        """Return the result of reading the dump."""
        covered = defaultdict[int, list[tuple[int, int]]](list)
        for extent in self.extents:
            covered[extent.log_partition].append((extent.first_offset, extent.last_offset + 1))
        notes = [*self.comparison.notes, *_notes(self.decoded)]
        unopened = self.unread.note([extent for file in self.decoded for extent in file.extents])
        if unopened is not None:
            notes.append(unopened if any(file.files for file in self.decoded) else f"nothing new: {unopened}")
        return Reading(
            decoded=self.decoded,
            tally=_tally(self.decoded),
            copies=self.copies,
            history=self.earlier.history,
            logs=self.logs,
            lost_from=self.comparison.lost_from,
            gaps=gaps_of(self.copies, between(covered)),
            extents=self.extents,
            notes=notes,
        )


def _read_segments(decoding: _Decoding, dump: Dump, earlier: Earlier) -> Reading:
    """Read the segments of a dump, without records that an election has truncated.

    To find such records, compare the copies with each other and with the records of earlier runs. If they diverge, read
    the segments again.
    """
    unread, decoded = _decode_unread(decoding, dump, earlier, LogComparison())
    heads = _parts_of(decoded)
    comparison = _compare_logs(decoding.stages, heads, earlier, unread.unopened)
    read = _read_copies(decoding, dump, earlier, comparison, None if comparison.is_branched else (unread, decoded))
    divergences = [
        found
        for of_partition in decoding.stages.run(
            "compare copies",
            list(_copies_shares(decoding, dump, read, heads)),
            compare_copies,
            lambda share: share.size,
        )
        for found in of_partition
    ]
    if divergences:
        comparison = comparison.with_divergences(divergences, earlier.logs)
        read = _read_copies(decoding, dump, earlier, comparison, None)
    return read.reading()


def _read_copies(
    decoding: _Decoding,
    dump: Dump,
    earlier: Earlier,
    comparison: LogComparison,
    first: tuple[UnreadFiles, list[DecodedFile]] | None,
) -> _SegmentsRead:
    """Read log offsets that no earlier run has read, and log offsets that must be read again.

    A dump may have several copies of a log partition. This function reads all of them.

    Args:
        decoding: the stage that decodes.
        dump: the dump.
        earlier: facts about the log that earlier runs have stored.
        comparison: result of the comparison of logs. It names the records that an election has truncated.
        first: parts that are decoded already; None to decode all parts.
    """
    earlier = earlier.without(comparison.lost_from) if comparison.is_branched else earlier
    unread, decoded = first or _decode_unread(decoding, dump, earlier, comparison)
    ends = earlier.history.ends
    logs = _logs_after(earlier, decoded, comparison)
    opened = [extent for file in decoded for extent in file.extents]
    extents = [*opened, *(extent for _, extent in unread.unopened)]
    copies = [
        copy.below(comparison.limit(_names(copy.files[0]), copy.bounds.log_partition))
        for copy in segment_copies(dump, extents, ends)
    ]
    copies = [
        copy.as_gaps() if (copy.source, copy.bounds.log_partition) in comparison.open else copy for copy in copies
    ]
    # The skipped parts of some copies are read as well, because they must show which keys are alive or which records
    # were lost.
    again = list(passed_over(copies, ends, earlier.complete))
    decoded = decoded + [
        file
        for copy, skip in again
        for file in decoding.files(copy.files, skip, replace(earlier, logs=logs), comparison, dump)
    ]
    sources = {copy.source for copy, _ in again}
    return _SegmentsRead(
        unread=unread,
        decoded=decoded,
        comparison=comparison,
        earlier=earlier,
        extents=extents,
        copies=[copy.as_read_whole() if copy.source in sources else copy for copy in copies],
        logs=logs,
    )


def _copies_shares(
    decoding: _Decoding, dump: Dump, read: _SegmentsRead, heads: Sequence[LogCopy]
) -> Iterator[CopiesShare]:
    """Yield the inputs to compare the copies of a log partition, if these copies may come from different leaders.

    First read the parts of these copies that were skipped.

    Args:
        decoding: decodes files.
        dump: the dump.
        read: the segments of the dump, as far as they were read.
        heads: facts from the batch headers of each copy.
    """
    earlier = read.earlier
    copies = defaultdict[int, list[DumpCopy]](list)
    for copy in read.copies:
        copies[copy.bounds.log_partition].append(copy)
    own = {partition: {head.folder: head for head in heads if head.log_partition == partition} for partition in copies}
    suspects = [
        partition
        for partition, of_partition in copies.items()
        if may_have_diverged([_head(copy, own[partition]) for copy in of_partition], earlier.logs.get(partition))
    ]
    passed = [copy for partition in suspects for copy in copies[partition] if copy.skipped]
    skip = {partition: [(earlier.history.ends.get(partition, 0), LARGEST_INT64)] for partition in suspects}
    files = [file for copy in passed for file in copy.files]
    more = decoding.files(files, skip, earlier, read.comparison, dump) if files else []
    for partition in suspects:
        bucket = bucket_of(partition, decoding.buckets)
        yield share_of(
            partition,
            [copy.as_read_whole() if copy.skipped else copy for copy in copies[partition]],
            own[partition],
            [file for decoded in [*read.decoded, *more] for file in decoded.files if file.bucket == bucket],
            [file for file in earlier.tables if file.bucket == bucket],
            earlier.logs.get(partition),
        )


def _head(copy: DumpCopy, heads: Mapping[str, LogCopy]) -> LogCopy:
    """Return the facts that the batch headers of a copy show.

    Leave out the leader epochs if the last batch of the copy was not read.

    Args:
        copy: the copy of a log partition.
        heads: these facts by source of the copy.
    """
    head = heads.get(copy.source, LogCopy(copy.source, copy.bounds.log_partition))
    return head if copy.has_last_batch else replace(head, epochs=[])


def _parts_of(decoded: Sequence[DecodedFile]) -> list[LogCopy]:
    """Return facts about each copy of a log partition, merged from the facts about its files.

    The facts come from batch headers, and from comparisons with records of earlier runs.
    """
    return merged(part for file in decoded for part in file.parts)


def _names(file: DumpFile) -> tuple[str, str]:
    """Return the name of the copy that a file belongs to, and the folder of the file."""
    return copy_name(file), folder_of(file)


def _decode_unread(
    decoding: _Decoding, dump: Dump, earlier: Earlier, comparison: LogComparison
) -> tuple[UnreadFiles, list[DecodedFile]]:
    """Decode the parts of a dump's segments that no earlier run has read. Return these parts and the decoded files."""
    # Ranges from exports count as unread: exports don't show which records are missing, and lack some kinds of records.
    audited = {} if earlier.is_read_again else earlier.history.segment_ranges
    unread = unread_files(dump.segments, audited)
    return unread, decoding.files(unread.files, unread.skip, earlier, comparison, dump)


def _compare_logs(
    stages: Stages,
    copies: Sequence[LogCopy],
    earlier: Earlier,
    unopened: Sequence[tuple[DumpFile, Extent]],
) -> LogComparison:
    """Return whether the dump comes from the same log as the records of earlier runs, see ``compare_logs``."""

    def look(shares: Sequence[LookUp]) -> list[list[Comparison]]:
        name = "look up records of earlier audits"
        return stages.run_on_files(name, shares, look_up, lambda share: share.file.size)

    return compare_logs(copies, earlier.logs, unopened, look)


def _logs_after(earlier: Earlier, decoded: Sequence[DecodedFile], comparison: LogComparison) -> dict[int, EarlierLog]:
    """Return the facts about each log partition with which the next run compares its dump."""
    parts = [part for file in decoded for part in file.parts]
    newer = logs_after(earlier.logs, [file.anchors for file in decoded], parts, comparison)
    return {**earlier.logs, **newer}


def _tally(decoded: Sequence[DecodedFile]) -> Tally:
    tally = Tally()
    for file in decoded:
        tally.merge(file.tally)
    return tally


def _notes(decoded: Sequence[DecodedFile]) -> list[str]:
    return [note for file in decoded for note in file.notes]
