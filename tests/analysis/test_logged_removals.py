"""Which write of tombstones a line is about: the one of its partition, time and number, and none where two fit."""

import pytest

from coordinator_replay.analysis.broker_words import GroupLogLine
from coordinator_replay.analysis.logged_removals import Removal, Tombstones, Write, logged_removals

WRITES = {
    Write(3, 10_000): Tombstones(offsets=5, others=2),
    Write(3, 18_000): Tombstones(offsets=3),
    Write(1, 10_000): Tombstones(offsets=3, others=1),
}
CLEANUP = "Generated {} tombstone records while cleaning up group metadata in 0 milliseconds."
TOPICS = (
    "Generated {} tombstone records in 1 milliseconds while deleting offsets for topics "
    "[DeletedTopic[id=Tt_MopqNQVKxN_m_GiTYAA, name=mall.gone], DeletedTopic[id=NANcNlvQfKfLZfhLaPPJA, name=b]]."
)
PARTITIONS = "Generated {} tombstone records in 1 milliseconds while deleting offsets for partitions [a-0, b-11]."
GROUPS = "The following groups were deleted: shop-doomed, c. A total of {} offsets were removed."
SHARE = "Generated {} records in 0 milliseconds while cleaning share group state for topics [Tt_MopqNQVKxN_m_GiTYAA]."


def line(text: str, at_ms: int) -> GroupLogLine:
    return GroupLogLine(at_ms, "TOMBSTONES_WRITTEN", None, None, None, None, None, 1, text)


@pytest.mark.parametrize(
    ("log_partition", "at_ms", "text", "expected"),
    [
        (3, 10_000, CLEANUP.format(7), (Write(3, 10_000), Removal.CLEANUP, ())),
        (3, 17_100, CLEANUP.format(3), (Write(3, 18_000), Removal.CLEANUP, ())),
        (1, 10_001, TOPICS.format(4), (Write(1, 10_000), Removal.TOPICS, ("mall.gone", "b"))),
        (1, 10_001, PARTITIONS.format(4), (Write(1, 10_000), Removal.TOPICS, ("a-0", "b-11"))),
        # Offsets alone are counted where groups are deleted.
        (1, 10_001, GROUPS.format(3), (Write(1, 10_000), Removal.GROUPS, ("shop-doomed", "c"))),
        (3, 10_000, CLEANUP.format(5), None),
        (3, 13_000, CLEANUP.format(7), None),
        (2, 10_000, CLEANUP.format(7), None),
        (3, 10_000, SHARE.format(7), None),
    ],
)
def test_a_line_is_about_the_write_of_its_partition_time_and_number(log_partition, at_ms, text, expected):
    found = logged_removals([(log_partition, line(text, at_ms))], WRITES)
    assert [(one.write, one.removal, tuple(one.names)) for one in found] == ([] if expected is None else [expected])


def test_of_two_lines_that_fit_one_write_neither_counts():
    lines = [(3, line(CLEANUP.format(7), 10_000)), (3, line(TOPICS.format(7), 10_500))]
    assert logged_removals(lines, WRITES) == []


def test_a_line_that_fits_two_writes_does_not_count():
    writes = {Write(0, 1_000): Tombstones(offsets=2), Write(0, 1_500): Tombstones(offsets=1, others=1)}
    assert logged_removals([(0, line(CLEANUP.format(2), 1_400))], writes) == []
