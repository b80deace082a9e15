"""What the names of segments prove, and what they don't."""

from coordinator_replay.log.dump import DumpFile
from coordinator_replay.log.offset_ranges import offset_ranges

FOLDER = "/dumps/broker-1/__consumer_offsets-7"


def ranges_of(*uris, **about):
    files = [DumpFile(uri, 7, 100, **about) for uri in uris]
    return {files[place].uri: each for place, each in offset_ranges(files).items()}


def segment(base, folder=FOLDER, suffix=".log"):
    return f"{folder}/{base:020d}{suffix}"


def test_a_segment_ends_where_the_next_of_its_folder_begins_and_the_newest_nowhere():
    other = "/dumps/broker-2/__consumer_offsets-7"
    files = [segment(300), segment(0), segment(100, suffix=".log.gz"), segment(0, other), segment(200, other)]
    assert ranges_of(*files) == {files[1]: (0, 100), files[2]: (100, 300), files[3]: (0, 200)}


def test_names_of_copies_of_one_segment_prove_the_end_of_one_of_them_only():
    assert list(ranges_of(segment(0), segment(0, suffix=".log.gz"), segment(9)).values()) == [(0, 9)]


def test_names_prove_nothing_beside_the_log():
    assert ranges_of(segment(0, "/tmp/some"), segment(9, "/tmp/some")) == {}
    assert ranges_of(f"{FOLDER}/first.log", segment(9), f"{FOLDER}/{20:020d}.log.swap") == {}
    assert ranges_of(segment(0), segment(9), is_current=False) == {}
