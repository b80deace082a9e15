"""Reading a dump: its records decoded and staged by bucket, its copies, and whether it is of the same log."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from coordinator_replay.log.dump import Dump, DumpFile
from coordinator_replay.log.dump_format import Format
from coordinator_replay.pipeline.ledger import History, Run, below, between
from coordinator_replay.pipeline.read import same_log
from coordinator_replay.pipeline.read.anchors import Comparison
from coordinator_replay.pipeline.read.audited import UnreadFiles, unread_files
from coordinator_replay.pipeline.read.copies import DumpCopy, export_copies, gaps_of, passed_over, segment_copies
from coordinator_replay.pipeline.read.decode import DecodedFile, FileShare, Skip, decode_files, decode_rows
from coordinator_replay.pipeline.read.extents import Extent
from coordinator_replay.pipeline.read.tally import Ranges, Tally
from coordinator_replay.pipeline.stage import Stages, together

_MARKERS_UNSEEN = (
    "the input is an export through a consumer: transaction markers, producer ids and batches are not in it, so "
    "whether a transactional commit was committed is unproven"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What earlier runs know of the log.

    Attributes:
        history: what they have read.
        logs: what is kept of each log partition to compare the next dump with.
        complete: half-open ranges of offsets of which none is missing, by log partition.
        is_read_again: whether records that they have read are read again.
    """

    history: History
    logs: Mapping[int, same_log.EarlierLog]
    complete: Ranges
    is_read_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What has been read of a dump.

    Attributes:
        decoded: the files of the dump, decoded, in its order.
        tally: counts of all their records.
        copies: the copies of log partitions that the dump has.
        history: what earlier runs have read and the log has not lost since.
        logs: what is kept of each log partition to compare the next dump with.
        lost_from: the first offset that was lost, for log partitions that were truncated.
        gaps: ranges that no file covers: log partition, from, to (not included).
        extents: what the files of the dump cover.
        notes: sentences about it for the user.
    """

    decoded: Sequence[DecodedFile]
    tally: Tally
    copies: Sequence[DumpCopy]
    history: History
    logs: Mapping[int, same_log.EarlierLog]
    lost_from: Mapping[int, int] = field(default_factory=dict)
    gaps: Sequence[tuple[int, int, int]] = ()
    extents: Sequence[Extent] = ()
    notes: Sequence[str] = ()

    def record(self, run: Run) -> None:
        """Write into the ledger's row what was read."""
        run.notes += self.notes
        run.reach(self.tally)
        run.lost_from = dict(self.lost_from)
        run.gaps = list(self.gaps)
        run.cover(self.extents, self.history.ends)
        run.log_end = max(filter(None, (self.tally.end(), self.history.log_end)), default=None)


def read_dump(stages: Stages, dump: Dump, earlier: Earlier, *, folder: str, buckets: int) -> Reading:
    """Read and decode what earlier runs have not read.

    Args:
        stages: runs the stages.
        dump: the dump.
        earlier: what earlier runs know of the log.
        folder: where staged files go.
        buckets: how many buckets there are.

    Raises:
        InputError: the dump is not of the log that earlier runs have read.
    """
    read = _read_segments if dump.format is Format.SEGMENTS else _read_rows
    reading = read(_Decoding(stages, folder, buckets), dump, earlier)
    return replace(reading, notes=[*dump.notes, *reading.notes])


@dataclass(frozen=True, slots=True)
class _Decoding:
    """The stage that decodes."""

    stages: Stages
    folder: str
    buckets: int

    def files(
        self,
        files: Sequence[DumpFile],
        skip: Skip,
        earlier: Earlier,
        comparison: same_log.LogComparison,
        metadata: Mapping[str, str] = MappingProxyType({}),
    ) -> list[DecodedFile]:
        """Read and decode segments, but for batches that lie in some ranges."""
        ranges, logs = earlier.history.ranges, earlier.logs
        shares = [
            FileShare(
                file=file,
                skip=skip.get(file.log_partition, ()),
                audited={file.log_partition: ranges.get(file.log_partition, ())},
                anchors=logs[file.log_partition].anchors if file.log_partition in logs else (),
                limit=comparison.limit(file),
                metadata=metadata.get(file.uri),
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
    """Read an export through a consumer."""
    decoded = decoding.rows(dump, earlier)
    comparison = _compare_logs(decoding.stages, dump, decoded, earlier, [])
    tally = _tally(decoded)
    return Reading(
        decoded=decoded,
        tally=tally,
        copies=export_copies(tally, earlier.history.ends),
        history=earlier.history,
        logs=_logs_after(earlier, decoded, comparison),
        notes=[_MARKERS_UNSEEN, *comparison.notes, *_notes(decoded)],
    )


def _read_segments(decoding: _Decoding, dump: Dump, earlier: Earlier) -> Reading:
    """Read segments; twice where the log has diverged from what earlier runs have read."""
    unread, decoded = _decode_unread(decoding, dump, earlier, same_log.LogComparison())
    comparison = _compare_logs(decoding.stages, dump, decoded, earlier, unread.unopened)
    if comparison.is_branched:
        lost_from = comparison.lost_from
        history = History(earlier.history.runs, lost_from)
        earlier = replace(earlier, history=history, complete=below(earlier.complete, lost_from))
        unread, decoded = _decode_unread(decoding, dump, earlier, comparison)
    ends = earlier.history.ends
    logs = _logs_after(earlier, decoded, comparison)
    opened = [extent for decoded_part in decoded for extent in decoded_part.extents]
    extents = [*opened, *(extent for _, extent in unread.unopened)]
    covered = defaultdict[int, list[tuple[int, int]]](list)
    for opened_extent in extents:
        covered[opened_extent.log_partition].append((opened_extent.first_offset, opened_extent.last_offset + 1))
    copies = [copy.below(comparison.limit(copy.files[0])) for copy in segment_copies(dump, extents, ends)]
    # Of copies whose own records show what is still alive, or was lost since, what was passed over is read, too.
    again = list(passed_over(copies, ends, earlier.complete))
    for copy, skip in again:
        decoded += decoding.files(copy.files, skip, replace(earlier, logs=logs), comparison)
    sources = {copy.source for copy, _ in again}
    copies = [copy.as_read_whole() if copy.source in sources else copy for copy in copies]
    notes = [*comparison.notes, *_notes(decoded)]
    if (unopened := unread.note(opened)) is not None:
        notes.append(unopened if any(decoded_part.files for decoded_part in decoded) else f"nothing new: {unopened}")
    return Reading(
        decoded=decoded,
        tally=_tally(decoded),
        copies=copies,
        history=earlier.history,
        logs=logs,
        lost_from=comparison.lost_from,
        gaps=gaps_of(copies, between(covered)),
        extents=extents,
        notes=notes,
    )


def _decode_unread(
    decoding: _Decoding, dump: Dump, earlier: Earlier, comparison: same_log.LogComparison
) -> tuple[UnreadFiles, list[DecodedFile]]:
    """Decode what no earlier run has read of the segments of a dump."""
    # Exports don't show what is missing between their records, and lack some kinds of them.
    audited = {} if earlier.is_read_again else earlier.history.segment_ranges
    unread = unread_files(dump.segments, audited)
    metadata = same_log.metadata_files(dump, unread.files)
    return unread, decoding.files(unread.files, unread.skip, earlier, comparison, metadata)


def _compare_logs(
    stages: Stages,
    dump: Dump,
    decoded: Sequence[DecodedFile],
    earlier: Earlier,
    unopened: Sequence[tuple[DumpFile, Extent]],
) -> same_log.LogComparison:
    """Compare the dump with what earlier runs have kept."""

    def look(shares: Sequence[same_log.LookUp]) -> list[list[Comparison]]:
        name = "look up records of earlier audits"
        return stages.run_on_files(name, shares, same_log.look_up, lambda share: share.file.size)

    parts = [part for decoded_part in decoded for part in decoded_part.parts]
    return same_log.compare_logs(dump, parts, earlier.logs, unopened, look)


def _logs_after(
    earlier: Earlier, decoded: Sequence[DecodedFile], comparison: same_log.LogComparison
) -> dict[int, same_log.EarlierLog]:
    """Return records to compare the next dump with."""
    parts = [part for decoded_part in decoded for part in decoded_part.parts]
    newer = same_log.logs_after(earlier.logs, [decoded_part.anchors for decoded_part in decoded], parts, comparison)
    return {**earlier.logs, **newer}


def _tally(decoded: Sequence[DecodedFile]) -> Tally:
    tally = Tally()
    for decoded_part in decoded:
        tally.merge(decoded_part.tally)
    return tally


def _notes(decoded: Sequence[DecodedFile]) -> list[str]:
    return [note for decoded_part in decoded for note in decoded_part.notes]
