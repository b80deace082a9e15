"""Which write of tombstones a line is about: the one of its partition, time and number, and none where two fit."""

import pytest

from coordinator_replay.analysis.broker_logs.lines import GroupLogLine
from coordinator_replay.analysis.broker_logs.removals import Removal, Tombstones, Write, logged_removals, read_removals

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
    found = logged_removals(read_removals([(log_partition, line(text, at_ms))]), WRITES, {})
    assert [(one.write, one.removal, tuple(one.names)) for one in found] == ([] if expected is None else [expected])


def test_of_two_lines_that_fit_one_write_neither_counts():
    lines = [(3, line(CLEANUP.format(7), 10_000)), (3, line(TOPICS.format(7), 10_500))]
    assert logged_removals(read_removals(lines), WRITES, {}) == []


def test_a_line_that_fits_two_writes_does_not_count():
    writes = {Write(0, 1_000): Tombstones(offsets=2), Write(0, 1_500): Tombstones(offsets=1, others=1)}
    assert logged_removals(read_removals([(0, line(CLEANUP.format(2), 1_400))]), writes, {}) == []


SCALA_TOPICS = "Removed {} offsets associated with deleted partitions: gone-0, gone-1."
SCALA_OFFSETS = (
    "The following offsets of the group a/b were deleted: gone-0, gone-1. A total of {} offsets were removed."
)
EXPIRED = "Removed {} expired offsets in 3 milliseconds."
NAMED = {
    (Removal.GROUPS, "shop-doomed"): {Write(1, 10_000): 2},
    (Removal.GROUPS, "c"): {Write(3, 10_001): 1, Write(3, 90_000): 4},
    (Removal.TOPICS, "gone-0"): {Write(1, 10_000): 2, Write(3, 10_002): 1},
    (Removal.TOPICS, "gone-1"): {Write(3, 10_002): 1},
    (Removal.OFFSETS, "a/b/gone-0"): {Write(2, 10_000): 1},
    (Removal.OFFSETS, "a/b/gone-1"): {Write(2, 10_000): 1},
}
"""What writes removed of what lines name."""


@pytest.mark.parametrize(
    ("text", "at_ms", "expected"),
    [
        (GROUPS.format(3), 10_003, [Write(1, 10_000), Write(3, 10_001)]),
        (GROUPS.format(7), 10_003, []),
        (GROUPS.format(3), 13_000, []),
        (SCALA_TOPICS.format(4), 10_003, [Write(1, 10_000), Write(3, 10_002)]),
        (SCALA_TOPICS.format(3), 10_003, []),
        (SCALA_OFFSETS.format(2), 10_003, [Write(2, 10_000)]),
        (EXPIRED.format(2), 10_003, []),
        (CLEANUP.format(7), 10_000, []),
    ],
)
def test_a_line_without_a_partition_is_about_the_writes_of_what_it_names(text, at_ms, expected):
    found = logged_removals(read_removals([(None, line(text, at_ms))]), WRITES, NAMED)
    assert sorted(one.write for one in found) == expected


def test_lines_of_several_brokers_about_one_deleted_topic_are_counted_together():
    """Each broker counts the offsets of the log partitions that it leads."""
    lines = [(None, line(SCALA_TOPICS.format(3), 10_003)), (None, line(SCALA_TOPICS.format(1), 10_090))]
    others = [(None, one._replace(broker=2)) for _, one in lines[1:]]
    found = logged_removals(read_removals([lines[0], *others]), WRITES, NAMED)
    assert [one.write for one in found] == [Write(1, 10_000), Write(3, 10_002)]
    # One broker logs a removal once: of its two lines neither has the number.
    assert logged_removals(read_removals(lines), WRITES, NAMED) == []
