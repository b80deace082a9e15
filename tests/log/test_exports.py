"""Names of the folders that exports write."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.log.exports import ExportFolder, superseded

NUMBERS = st.integers(0, 10_000_000)
FOLDERS = st.builds(
    lambda first, more, hour: ExportFolder(first, first + more, f"20261123T{hour:02}"),
    NUMBERS,
    st.integers(0, 5),
    st.integers(0, 23),
)


@given(FOLDERS)
def test_a_name_says_what_it_was_made_of(folder):
    assert ExportFolder.parse(folder.name) == folder


@given(st.text())
def test_other_names_say_nothing(name):
    assert ExportFolder.parse(name) is None
    assert ExportFolder.parse(f"export-{name}") is None


@given(st.sets(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=12))
def test_of_each_batch_a_folder_is_left(extents):
    folders = {ExportFolder(first, first + more, "20261123T22") for first, more in extents}
    left = folders - superseded(folders)
    batches = {number for folder in folders for number in range(folder.first, folder.last + 1)}
    assert batches == {number for folder in left for number in range(folder.first, folder.last + 1)}
    assert not any(one.covers(other) for one in left for other in left)
