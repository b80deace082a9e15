"""Whether a dump is of the log that earlier runs have read: the decision on what was compared."""

import pytest

from coordinator_replay.errors import InputError
from coordinator_replay.log.coverage import EpochStart
from coordinator_replay.log.dump import Dump, DumpFile
from coordinator_replay.log.dump_format import Format
from coordinator_replay.pipeline.read.anchors import Anchor, Comparison
from coordinator_replay.pipeline.read.extents import Extent
from coordinator_replay.pipeline.read.same_log import (
    EarlierLog,
    LogCopy,
    LookUp,
    around,
    compare_logs,
    logs_after,
    look_up,
    read_epochs,
    read_topic_id,
)
from coordinator_replay.times import moment_of_ms
from tests.log.writer import LogEntry, write_batch

FOLDER = "/d/__consumer_offsets-3"


def anchor(offset, epoch=5, text="ours"):
    return Anchor(offset, moment_of_ms(offset), text, epoch)


def same(offset):
    return Comparison(3, anchor(offset), anchor(offset))


def other(offset, epoch=None, earlier=5):
    return Comparison(3, anchor(offset, earlier), anchor(offset, epoch, "theirs"))


def judged(compared, *, epochs=(), anchors=(10, 50, 90), topic_ids=(None, None), companions=(), unopened=(), look=None):
    dump = Dump(Format.SEGMENTS, companions=frozenset(companions))
    earlier = {3: EarlierLog([anchor(offset) for offset in anchors], topic_ids[0], end_offset=100)}
    parts = [LogCopy(folder, 3, found, topic_ids[1], epochs) for folder, found in compared.items()]
    return compare_logs(dump, parts, earlier, unopened, look or (lambda shares: [[] for _ in shares]))


def test_a_dump_with_the_newest_anchor_is_of_the_same_log():
    found = judged({FOLDER: [same(50), same(90)]})
    assert not found.is_branched
    assert found.notes == []


def test_a_dump_with_other_records_only_is_refused_with_place_times_and_way_out():
    with pytest.raises(InputError) as refused:
        judged({FOLDER: [other(50), other(90)]})
    for part in (FOLDER, "offset 50 of log partition 3", "1970-01-01T00:00:00.050Z", "--cluster NAME", "was written"):
        assert part in str(refused.value)


def test_a_dump_without_any_anchor_goes_on_with_a_note():
    found = judged({FOLDER: []})
    assert not found.is_branched
    assert found.unknown == [3]
    assert "log partition 3: the dump has none of the records" in found.notes[0]


def test_log_partitions_that_no_run_has_read_are_not_judged():
    assert compare_logs(Dump(Format.SEGMENTS), [LogCopy(FOLDER, 4, [])], {}, [], lambda _: []).notes == []


def test_a_higher_leader_epoch_behind_an_anchor_that_is_there_says_that_the_log_was_truncated():
    found = judged({FOLDER: [same(10), same(50), other(90, epoch=6)]})
    [lost] = found.truncated.values()
    assert (lost.from_offset, lost.until_offset, lost.leader_epoch) == (51, 90, 6)
    assert found.lost_from == {3: 51}
    assert "from some offset between 51 and 90 on" in found.notes[0]
    assert found.limit(DumpFile(f"{FOLDER}/x.log", 3, 1)) is None


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("0\n2\n5 0\n6 70\n", (70, 70)),
        ("0\n3\n5 0\n6 70\n7 88\n", (70, 70)),
        ("0\n1\n5 0\n", (51, 90)),
        ("0\n2\n5 0\n6 95\n", (51, 90)),
        ("0\n9\n5 0\n6 70\n", (51, 90)),
        ("nonsense", (51, 90)),
        ("", (51, 90)),
    ],
)
def test_where_the_log_was_truncated_stands_in_the_leader_epoch_checkpoint(lines, expected, tmp_path):
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    (folder / "leader-epoch-checkpoint").write_text(lines)
    compared = {str(folder): [same(50), other(90, epoch=7)]}
    [lost] = judged(compared, companions=[f"{folder}/leader-epoch-checkpoint"]).truncated.values()
    assert (lost.from_offset, lost.until_offset) == expected
    if expected == (70, 70):
        assert "from offset 70 on" in lost.note


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ([EpochStart(5, -1, 0), EpochStart(6, 69, 70), EpochStart(7, 80, 81)], (70, 70)),
        ([EpochStart(6, 60, 70)], (61, 70)),
        ([EpochStart(6, -1, 70)], (51, 70)),
        ([EpochStart(6, 90, 91)], (51, 90)),
        ([], (51, 90)),
    ],
)
def test_where_the_log_was_truncated_stands_in_the_headers_of_batches(epochs, expected):
    [lost] = judged({FOLDER: [same(50), other(90, epoch=6)]}, epochs=epochs).truncated.values()
    assert (lost.from_offset, lost.until_offset) == expected


def test_a_copy_too_short_to_have_another_record_shows_by_its_epochs_that_the_log_was_truncated():
    [lost] = judged({FOLDER: [same(50)]}, epochs=[EpochStart(5, -1, 0), EpochStart(6, 59, 60)]).truncated.values()
    assert (lost.from_offset, lost.until_offset, lost.leader_epoch) == (60, 60, 6)
    assert not judged({FOLDER: [same(50)]}, epochs=[EpochStart(6, 90, 91)]).is_branched
    assert not judged({FOLDER: []}, epochs=[EpochStart(6, 59, 60)]).is_branched


def test_a_lower_leader_epoch_says_that_the_copy_is_stale():
    found = judged({FOLDER: [same(10), same(50), other(90, epoch=4)]})
    assert found.truncated == {}
    assert found.limit(DumpFile(f"{FOLDER}/x.log", 3, 1)) == 51
    assert found.limit(DumpFile("/e/__consumer_offsets-3/x.log", 3, 1)) is None
    assert "from offset 51 on are left out" in found.notes[0]


def test_a_copy_that_lacks_the_election_is_stale_beside_one_that_has_it():
    found = judged({FOLDER: [same(50), same(90)], "/e": [same(50), other(90, epoch=6)], "/f": []})
    assert found.lost_from == {3: 51}
    assert {key: one.from_offset for key, one in found.stale.items()} == {(FOLDER, 3): 51}


@pytest.mark.parametrize("epochs", [(5, 5), (None, 6), (5, None)])
def test_without_two_leader_epochs_nothing_says_which_record_counts(epochs):
    with pytest.raises(InputError, match="no leader epoch says which record counts"):
        judged({FOLDER: [same(50), other(90, epochs[1], epochs[0])]})


def test_the_newest_anchor_decides_for_all_below_it():
    assert not judged({FOLDER: [other(10), same(50)]}).is_branched


def test_of_two_records_at_an_offset_one_has_to_be_the_same():
    assert not judged({FOLDER: [other(90), same(90)]}).is_branched


def test_another_topic_id_is_refused_whatever_the_records_are():
    with pytest.raises(InputError, match=r"a topic with the id B, .* one with the id A: .*--cluster NAME"):
        judged({FOLDER: [same(90)]}, topic_ids=("A", "B"))
    assert judged({FOLDER: [same(90)]}, topic_ids=("A", None)).notes == []


def test_with_the_same_topic_id_it_is_the_same_log_even_where_nothing_is_left_of_it():
    found = judged({FOLDER: [other(10, epoch=6)]}, topic_ids=("A", "A"))
    assert found.lost_from == {3: 0}


def named(base, following):
    return DumpFile(f"{FOLDER}/{base:020d}.log", 3, 1), Extent(3, base, following - 1, 1)


def test_files_are_opened_only_while_nothing_is_decided_those_with_the_newest_anchors_first():
    unopened = [named(0, 20), named(20, 40), named(40, 80)]
    opened = []

    def look(shares, answer=same):
        opened.append([(share.file.uri[-7:-4], [one.log_offset for one in share.anchors]) for share in shares])
        return [[answer(one.log_offset) for one in share.anchors] for share in shares]

    judged({FOLDER: [same(90)]}, unopened=unopened, look=look)
    assert opened == [[], []]
    opened.clear()
    judged({FOLDER: []}, unopened=unopened, look=look)
    assert opened == [[("040", [50])], []]
    opened.clear()
    found = judged({FOLDER: [other(90, epoch=6)]}, unopened=unopened, look=look)
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


def test_after_a_run_its_records_join_the_anchors_and_what_was_lost_leaves_them():
    earlier = {3: EarlierLog([anchor(10), anchor(50), anchor(90)], "A", 100), 4: EarlierLog([anchor(1)])}
    found = judged({FOLDER: [same(50), other(90, epoch=6)]})
    new = [anchor(90, 6, "theirs"), anchor(120, 6)]
    after = logs_after(earlier, [{3: new}], [LogCopy(FOLDER, 3, [same(50)], None)], found)
    assert after.keys() == {3}
    assert after[3].topic_id == "A"
    assert [(one.log_offset, one.is_live) for one in after[3].anchors] == [
        (10, False),
        (50, True),
        (90, False),
        (120, False),
    ]
    assert after[3].anchors[2].hash == "theirs"


def test_what_outlived_a_compaction_is_kept_rather_than_what_did_not():
    earlier = {3: EarlierLog([anchor(offset) for offset in range(0, 160, 10)])}
    seen = [same(40), same(70)]
    new = [anchor(offset) for offset in range(1000, 1500)]
    after = logs_after(earlier, [{3: new}], [LogCopy(FOLDER, 3, seen)], judged({FOLDER: seen}, anchors=(40, 70)))
    assert {40, 70, 0, 10, 1499} <= {one.log_offset for one in after[3].anchors}
