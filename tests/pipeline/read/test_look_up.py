"""Look-ups in a dump: anchors in files that were not opened, and the files beside segments."""

from coordinator_replay.completeness.same_log import EarlierLog, LogCopy
from coordinator_replay.log.dump import DumpFile
from coordinator_replay.pipeline.read.extents import Extent
from coordinator_replay.pipeline.read.look_up import LookUp, around, compare_logs, look_up, read_epochs, read_topic_id
from tests.completeness.test_same_log import FOLDER, anchor, other, same
from tests.log.writer import LogEntry, write_batch


def compared(found, unopened, look):
    earlier = {3: EarlierLog([anchor(10), anchor(50), anchor(90)], end_offset=100)}
    return compare_logs([LogCopy(FOLDER, 3, found)], earlier, unopened, look)


def test_log_partitions_that_no_run_has_read_are_not_judged():
    assert compare_logs([LogCopy(FOLDER, 4, [])], {}, [], lambda _: []).notes == []


def named(base, following):
    return DumpFile(f"{FOLDER}/{base:020d}.log", 3, 1), Extent(3, base, following - 1, 1)


def test_files_are_opened_only_while_nothing_is_decided_those_with_the_newest_anchors_first():
    unopened = [named(0, 20), named(20, 40), named(40, 80)]
    opened = []

    def look(shares, answer=same):
        opened.append([(share.file.uri[-7:-4], [one.log_offset for one in share.anchors]) for share in shares])
        return [[answer(one.log_offset) for one in share.anchors] for share in shares]

    compared([same(90)], unopened, look)
    assert opened == [[], []]
    opened.clear()
    compared([], unopened, look)
    assert opened == [[("040", [50])], []]
    opened.clear()
    found = compared([other(90, epoch=6)], unopened, look)
    assert opened == [[], [("040", [50]), ("000", [10])]]
    assert found.lost_from == {3: 51}


def test_records_are_looked_up_without_reading_others(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    bad = bytearray(write_batch([LogEntry(key=b"k", value=b"v")], base_offset=5))
    bad[-1] ^= 1
    whole = [write_batch([LogEntry(key=b"k", value=b"%d" % at)], base_offset=at, leader_epoch=2) for at in (0, 9)]
    path.write_bytes(whole[0] + bytes(bad) + whole[1])
    found = look_up(LookUp(DumpFile(str(path), 3, path.stat().st_size), [anchor(9)]))
    assert [(one.other.log_offset, one.other.leader_epoch, one.is_same) for one in found] == [(9, 2, False)]


def test_ranges_around_offsets():
    assert around([(0, 9), (20, 29)], [0, 5, 12, 29]) == [(1, 4), (6, 9), (20, 28)]
    assert around([(3, 3)], [3]) == []
    assert around([(3, 4)], []) == [(3, 4)]


def test_files_of_a_broker_are_read_as_it_writes_them(tmp_path):
    metadata, epochs = tmp_path / "partition.metadata", tmp_path / "leader-epoch-checkpoint"
    metadata.write_text("version: 0\ntopic_id: YXzjvsbNQEulP6YyrxkAnA\n")
    epochs.write_text("0\n2\n0 0\n3 17\n")
    assert read_topic_id(str(metadata)) == "YXzjvsbNQEulP6YyrxkAnA"
    assert read_epochs(str(epochs)) == [(0, 0), (3, 17)]
    for missing in (tmp_path / "none", tmp_path):
        assert read_topic_id(str(missing)) is None
        assert read_epochs(str(missing)) == []
