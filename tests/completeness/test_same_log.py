"""Decision by anchors whether a dump is of the log that earlier runs have read."""

import pytest

from coordinator_replay.completeness.anchors import Anchor, Comparison
from coordinator_replay.completeness.same_log import EarlierLog, LogCopy, check_topic, comparison_by_anchors, logs_after
from coordinator_replay.errors import InputError
from coordinator_replay.log.coverage import EpochStart
from coordinator_replay.times import moment_of_ms

FOLDER = "/d/__consumer_offsets-3"


def anchor(offset, epoch=5, text="ours"):
    return Anchor(offset, moment_of_ms(offset), text, epoch)


def same(offset):
    return Comparison(3, anchor(offset), anchor(offset))


def other(offset, epoch=None, earlier=5):
    return Comparison(3, anchor(offset, earlier), anchor(offset, epoch, "theirs"))


def judged(compared, *, epochs=(), checkpoint=(), anchors=(10, 50, 90), topic_ids=(None, None)):
    earlier = {3: EarlierLog([anchor(offset) for offset in anchors], topic_ids[0], end_offset=100)}
    copies = [LogCopy(folder, 3, found, topic_ids[1], epochs, checkpoint) for folder, found in compared.items()]
    for copy in copies:
        check_topic(copy, earlier[3])
    return comparison_by_anchors(copies, earlier)


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


def test_a_higher_leader_epoch_behind_an_anchor_that_is_there_says_that_the_log_was_truncated():
    found = judged({FOLDER: [same(10), same(50), other(90, epoch=6)]})
    [lost] = found.truncated.values()
    assert (lost.from_offset, lost.until_offset, lost.leader_epoch) == (51, 90, 6)
    assert found.lost_from == {3: 51}
    assert "from some offset between 51 and 90 on" in found.notes[0]
    assert found.limit([FOLDER], 3) is None


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        ([(5, 0), (6, 70)], (51, 70)),
        ([(5, 0), (6, 70), (7, 88)], (51, 70)),
        ([(5, 0)], (51, 90)),
        ([(5, 0), (6, 95)], (51, 90)),
        ([], (51, 90)),
    ],
)
def test_the_checkpoint_says_that_what_stands_behind_a_start_is_lost_and_nothing_of_what_stands_below(
    checkpoint, expected
):
    [lost] = judged({FOLDER: [same(50), other(90, epoch=7)]}, checkpoint=checkpoint).truncated.values()
    assert (lost.from_offset, lost.until_offset) == expected


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
    assert found.limit([FOLDER], 3) == 51
    assert found.limit(["/e/__consumer_offsets-3"], 3) is None
    assert "from offset 51 on are left out" in found.notes[0]


def test_a_copy_that_lacks_the_election_is_stale_beside_one_that_has_it():
    found = judged({FOLDER: [same(50), same(90)], "/e": [same(50), other(90, epoch=6)], "/f": []})
    assert found.lost_from == {3: 51}
    assert {key: one.from_offset for key, one in found.stale.items()} == {(FOLDER, 3): 51}


def test_a_copy_that_left_the_log_below_the_election_of_another_one_is_stale_from_the_lower_place_on():
    found = judged({FOLDER: [same(10), same(50), other(90, epoch=6)], "/e": [same(10), other(50, epoch=4)]})
    assert found.lost_from == {3: 51}
    assert {key: one.from_offset for key, one in found.stale.items()} == {("/e", 3): 11}


def test_of_the_elections_that_two_copies_show_that_of_the_newest_leader_counts():
    found = judged({FOLDER: [same(50), other(90, epoch=6)], "/e": [same(10), other(50, epoch=7)]})
    assert [(lost.from_offset, lost.leader_epoch) for lost in found.truncated.values()] == [(11, 7)]
    assert found.stale == {}


def test_a_stale_export_is_named_so():
    found = judged({"": [same(10), other(50, epoch=4)]})
    assert found.notes[0].startswith("the export: records of log partition 3 from offset 11 on are left out")


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
