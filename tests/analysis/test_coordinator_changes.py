"""Changes of coordinators: the same for the same sources in any order; what contradicts records counts for nothing."""

from dataclasses import replace
from random import Random

import pytest

from coordinator_replay.analysis.coordinator_changes import (
    CoordinatorChange,
    CoordinatorLine,
    LeaderChange,
    coordinator_changes,
)

ELECTIONS = [
    LeaderChange(0, 0, 1, None, False),
    LeaderChange(0, 1, 2, 5_000, False),
    LeaderChange(0, 2, -1, 9_000, False),
    LeaderChange(0, 3, 1, 9_500, True),
    LeaderChange(1, 0, 2, 100, False),
]
BATCHES = {(0, 0): (0, 1_000), (0, 1): (40, 6_000), (0, 3): (60, 12_000), (1, 0): (0, None)}
ENDS_MS = {0: 12_500}
LINES = [
    CoordinatorLine(0, 1, 5_010, "COORDINATOR_ELECTED", 2, None),
    CoordinatorLine(0, 1, 5_200, "LOADING_FINISHED", 2, 180),
    CoordinatorLine(0, 1, 5_020, "UNLOADING_FINISHED", 1, None),
    # Brokers that follow unload as well.
    CoordinatorLine(0, 1, 5_030, "UNLOADING_FINISHED", 3, None),
    CoordinatorLine(0, 4, 20_000, "LOADING_SCHEDULED", 2, None),
]


def by_epoch(changes: list[CoordinatorChange], log_partition: int = 0) -> dict[int, CoordinatorChange]:
    return {one.leader_epoch: one for one in changes if one.log_partition == log_partition}


def test_each_source_gives_what_it_has():
    changes = by_epoch(coordinator_changes([], BATCHES, ELECTIONS, LINES, {}, ENDS_MS))
    assert list(changes) == [0, 1, 2, 3, 4]
    assert (changes[0].elected_at, changes[0].is_exact, changes[0].broker) == (1_000, False, 1)
    assert changes[1] == CoordinatorChange(
        log_partition=0,
        leader_epoch=1,
        elected_at=5_000,
        is_exact=True,
        broker=2,
        is_unclean=False,
        loaded_at=5_200,
        loading_ms=180,
        unloaded_at=5_020,
        first_log_offset=40,
        first_log_timestamp=6_000,
        sources=("cluster_metadata", "broker_log", "records"),
    )
    assert (changes[2].broker, changes[3].is_unclean) == (-1, True)
    assert (changes[4].elected_at, changes[4].broker, changes[4].sources) == (20_000, 2, ("broker_log",))


def test_batches_alone_say_by_when():
    changes = coordinator_changes([], BATCHES, [], [], {}, {})
    assert [(one.log_partition, one.leader_epoch, one.elected_at, one.is_exact, one.broker) for one in changes] == [
        (0, 0, 1_000, False, None),
        (0, 1, 6_000, False, None),
        (0, 3, 12_000, False, None),
        (1, 0, None, False, None),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_runs_in_any_order_end_in_the_same_rows(seed: int):
    random = Random(seed)
    expected = coordinator_changes([], BATCHES, ELECTIONS, LINES, {}, ENDS_MS)
    rows: list[CoordinatorChange] = []
    lines: list[CoordinatorLine] = []
    # A later record of an epoch, from a dump that begins there, counts for nothing beside the first one.
    batches = [*BATCHES.items(), ((0, 1), (44, 7_000)), ((0, 3), (61, 12_001))]
    snapshot = [LeaderChange(0, 3, 1, None, False)]
    parts = [("batch", one) for one in batches] + [("line", one) for one in LINES]
    parts += [("election", one) for one in (*ELECTIONS, *snapshot)]
    random.shuffle(parts)
    for kind, one in parts:
        lines += [one] if kind == "line" else []
        rows = coordinator_changes(
            rows, dict([one]) if kind == "batch" else {}, [one] if kind == "election" else [], lines, {}, ENDS_MS
        )
    assert rows == expected


def test_records_that_were_lost_are_none():
    rows = coordinator_changes([], BATCHES, [], [], {}, {})
    assert list(by_epoch(coordinator_changes(rows, {(0, 5): (50, 30_000)}, [], [], {0: 50}, {}))) == [0, 1, 5]


@pytest.mark.parametrize(
    "false",
    [
        LINES[0]._replace(broker=7),
        LINES[1]._replace(logged_ms=50_000),
        LINES[1]._replace(broker=7, duration_ms=99_999),
        # A leader that has just begun, while the one before writes on; and one that comes before those before it.
        CoordinatorLine(0, 7, 9_000, "COORDINATOR_ELECTED", 7, None),
        CoordinatorLine(0, 4, 11_000, "LOADING_FINISHED", 7, 1_500),
        CoordinatorLine(0, 2, 13_000, "COORDINATOR_ELECTED", 7, None),
    ],
)
def test_a_line_that_records_contradict_counts_for_nothing(false: CoordinatorLine):
    expected = coordinator_changes([], BATCHES, ELECTIONS, LINES, {}, ENDS_MS)
    assert coordinator_changes([], BATCHES, ELECTIONS, [*LINES, false], {}, ENDS_MS) == expected


def test_of_two_brokers_that_say_they_have_it_nobody_does():
    lines = [LINES[0], LINES[0]._replace(broker=7)]
    assert coordinator_changes([], {}, [], lines, {}, {}) == []


def test_lines_are_read_again():
    rows = coordinator_changes([], BATCHES, ELECTIONS, LINES, {}, ENDS_MS)
    without = coordinator_changes(rows, {}, [], [], {}, {})
    assert without == coordinator_changes([], BATCHES, ELECTIONS, [], {}, ENDS_MS)
    assert by_epoch(without)[1] == replace(
        by_epoch(rows)[1], loaded_at=None, loading_ms=None, unloaded_at=None, sources=("cluster_metadata", "records")
    )
