"""Which files need not be opened, and what is said of what was passed over."""

from coordinator_replay.log.dump import DumpFile
from coordinator_replay.pipeline.ledger import Run, unread
from coordinator_replay.pipeline.read.audited import unread_files
from coordinator_replay.pipeline.read.extents import Extent


def dump(*bases, partition=3):
    return [DumpFile(f"/d/__consumer_offsets-{partition}/{base:020d}.log", partition, 500_000) for base in bases]


def opened(found):
    return [int(file.uri[-24:-4]) for file in found.files]


def test_files_that_audited_ranges_cover_whole_are_not_opened():
    files = dump(0, 100, 200, 300)
    assert opened(unread_files(files, {3: [(0, 250)]})) == [200, 300]
    assert opened(unread_files(files, {3: [(0, 300)]})) == [300]
    assert opened(unread_files(files, {3: [(1, 150), (150, 199)]})) == [0, 100, 200, 300]
    assert opened(unread_files(files, {4: [(0, 300)]})) == [0, 100, 200, 300]
    assert opened(unread_files(files, {})) == [0, 100, 200, 300]


def test_a_gap_of_earlier_runs_is_looked_into():
    assert opened(unread_files(dump(0, 100, 200, 300), {3: [(0, 120), (130, 300)]})) == [100, 300]


def test_a_run_covers_what_it_passed_over_so_that_no_gap_is_seen_there():
    """The first record of the new stretch is gone, by compaction: the file says that it begins there all the same."""
    earlier = {3: [(0, 200)]}
    task = unread_files(dump(0, 100, 200), earlier)
    new = Extent(log_partition=3, first_offset=200, last_offset=240, records=30)
    extents = [new, *(extent for _, extent in task.unopened)]
    run = Run.begin("c", [], {})
    run.from_offsets, run.to_offsets = {3: 204}, {3: 239}
    run.cover(extents, {3: 200})
    assert (run.from_offsets, run.to_offsets) == ({3: 0}, {3: 239})
    assert unread(earlier, run) == []
    assert task.note([new]).startswith("2 files of 1,000,000 bytes not opened: ")


def test_a_run_does_not_claim_what_lies_behind_what_it_passed_over():
    hopped = Extent(log_partition=3, first_offset=0, last_offset=240, records=150, skipped=150)
    run = Run.begin("c", [], {})
    run.cover([hopped], {3: 200})
    assert (run.from_offsets, run.to_offsets) == ({3: 0}, {3: 200})
