"""When a partition had no owner although the group wanted it, and what the end of the log belongs to."""

from datetime import timedelta
from pathlib import Path

import pytest

from coordinator_replay.query.groups import group_at
from coordinator_replay.query.life import GroupLife
from coordinator_replay.query.lives import life_of, lives_of, spans_of
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.columns import Clock
from coordinator_replay.report.gaps import WantedTimes, gaps_between, without
from coordinator_replay.report.members import MemberIdentities
from coordinator_replay.report.owner_marks import partition_columns
from coordinator_replay.times import milliseconds
from tests.query.small_warehouse import ORDERS, at, event, member, owned, write_rows, write_small_warehouse

MILLISECOND = timedelta(milliseconds=1)


def ms(time: str) -> int:
    return milliseconds(at(time))


def gaps(life: GroupLife, topic: str) -> list[tuple[int, int]]:
    holdings = [holding for holding in life.holdings if holding.topic == topic]
    return [(since, until) for since, until, _ in WantedTimes(life).gaps(topic, holdings, milliseconds(life.end))]


def test_gaps_are_those_between_owners_and_after_the_last_one(warehouse: Tables):
    life = life_of(warehouse, "payments")
    second = [holding for holding in life.holdings if holding.partition == 1]
    end_ms = milliseconds(life.end)
    assert [gap[:2] for gap in gaps_between(second, end_ms)] == [(ms("02:10:15"), ms("02:10:20"))]
    assert [gap[:2] for gap in gaps_between(second[:1], end_ms)] == [(ms("02:10:15"), end_ms)]


@pytest.mark.parametrize(
    ("holes", "left"),
    [
        ([], [(2, 8)]),
        ([(0, 2), (8, 9)], [(2, 8)]),
        ([(3, 4), (4, 5)], [(2, 3), (5, 8)]),
        ([(0, 9)], []),
        ([(0, 3), (7, 9)], [(3, 7)]),
    ],
)
def test_what_is_left_outside_of_other_intervals(holes, left):
    def moments(pairs):
        return [(ms(f"02:0{begin}"), ms(f"02:0{end}")) for begin, end in pairs]

    assert without(moments([(2, 8)]), moments(holes)) == moments(left)


@pytest.fixture(scope="module")
def leaving(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """A group that leaves a topic at 02:05 and its last member at 02:15; another one that subscribes by pattern."""
    folder = write_small_warehouse(tmp_path_factory.mktemp("leaving"))
    both, one = {"subscribed_topics": ["orders", "audit"]}, {"subscribed_topics": ["orders"]}
    audit = {"topic": "audit", "topic_id": ORDERS[::-1]}
    write_rows(
        folder,
        "member_timeline",
        [
            member("leaver", "m-1", "02:00", "02:05", 200, **both),
            member("leaver", "m-1", "02:05", "02:15", 201, **one),
            member("pattern", "m-2", "02:00", None, 202, subscribed_topics=[], subscribed_topic_regex="a.*"),
            member("doomed", "m-3", "02:00", "02:10", 203, **both),
        ],
    )
    write_rows(
        folder,
        "partition_ownership",
        [
            owned(0, "m-1", "02:00", "02:15", group_id="leaver", released_by="MEMBER_LEFT"),
            owned(0, "m-1", "02:00", "02:05", group_id="leaver", released_by="REVOKED", **audit),
            owned(0, "m-2", "02:00", "02:05", group_id="pattern", released_by="REVOKED", **audit),
            owned(0, "m-3", "02:00", "02:10", group_id="doomed", released_by="MEMBER_LEFT", **audit),
        ],
    )
    write_rows(
        folder,
        "group_timeline",
        [
            event("leaver", 0, "02:00", "MEMBER_JOINED", ">Stable"),
            event("leaver", 1, "02:20", "REBALANCE_STARTED", "Stable>Reconciling"),
            event("pattern", 0, "02:00", "MEMBER_JOINED", ">Stable"),
            event("doomed", 0, "02:00", "MEMBER_JOINED", ">Stable"),
            event("doomed", 1, "02:12", "GROUP_DELETED", "Empty>Dead"),
        ],
    )
    return Tables(str(folder))


def test_a_topic_that_the_group_left_is_not_without_owner(leaving: Tables):
    life = life_of(leaving, "leaver")
    # Nobody is a member from 02:15 on: then every partition is without an owner.
    assert gaps(life, "audit") == [(ms("02:15"), milliseconds(life.end))]
    assert gaps(life, "orders") == [(ms("02:15"), milliseconds(life.end))]


def test_a_pattern_may_stand_for_any_topic(leaving: Tables):
    life = life_of(leaving, "pattern")
    assert gaps(life, "audit") == [(ms("02:05"), milliseconds(life.end))]


def test_partitions_of_a_deleted_group_are_not_without_owner(leaving: Tables):
    assert gaps(life_of(leaving, "doomed"), "audit") == [(ms("02:10"), ms("02:12"))]


def test_a_group_that_was_shut_down_is_not_without_owner_to_the_end(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(
        folder,
        "partition_ownership",
        [
            owned(0, "m-1", "02:00", "02:05", group_id="shut", released_by="MEMBER_LEFT"),
            owned(0, "m-2", "02:07", "02:10", group_id="shut", released_by="MEMBER_LEFT"),
        ],
    )
    events = [
        event("shut", 0, "02:00", "MEMBER_JOINED", ">Stable"),
        event("shut", 1, "02:05", "GROUP_EMPTIED", "Stable>Empty"),
        event("shut", 2, "02:07", "MEMBER_JOINED", "Empty>Stable"),
        event("shut", 3, "02:10", "GROUP_EMPTIED", "Stable>Empty"),
    ]
    write_rows(folder, "group_timeline", events)
    # Between two members there was nobody; after the last one nobody was wanted.
    assert gaps(life_of(Tables(str(folder)), "shut"), "orders") == [(ms("02:05"), ms("02:07"))]


def test_the_last_record_of_the_log_belongs_to_the_life(leaving: Tables):
    life = life_of(leaving, "leaver")
    assert leaving.coverage.last == at("02:20")
    assert life.end == at("02:20") + MILLISECOND
    assert life.states[-1].state == group_at(leaving, "leaver").state == "Reconciling"


def test_commits_are_those_written_in_the_range_and_not_those_that_held(warehouse: Tables, folder: Path):
    assert life_of(warehouse, "payments").commit_count == 2
    late = life_of(warehouse, "payments", at("02:05"))
    assert (late.commit_count, sum(len(line.at) for line in late.lines)) == (1, 5)
    assert life_of(warehouse, "payments", at("02:05"), at("02:20")).commit_count == 0


def test_lives_of_many_groups_are_those_of_each(warehouse: Tables):
    spans = spans_of(warehouse)
    lives = list(lives_of(warehouse, spans))
    assert [life.group for life in lives] == [span.group for span in spans]
    for life in lives:
        assert life == life_of(warehouse, life.group)


def test_what_was_left_out_is_said(warehouse: Tables):
    from coordinator_replay.query.lives import Limits

    (span,) = (span for span in spans_of(warehouse) if span.group == "payments")
    (life,) = lives_of(warehouse, [span], limits=Limits(intervals=2, points=2))
    assert [len(life.members), len(life.holdings)] == [2, 2]
    assert life.notes == (
        "Only the latest 2 intervals of members are shown: ask for less with --from and --to.",
        "Only the latest 2 intervals of ownership are shown: ask for less with --from and --to.",
    )
    assert {holding.from_ms for holding in life.holdings} == {ms("02:00:02"), ms("02:10:20")}


def test_a_handover_within_a_join_phase_has_a_lower_bound_only(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    own = {"group_id": "eager", "released_by": "REVOKED"}
    write_rows(
        folder,
        "partition_ownership",
        [
            owned(0, "m-1", "02:00", "02:05", **own),
            owned(0, "m-2", "02:05:01", "02:10", unowned_ms=4000, **own),
            owned(0, "m-1", "02:10:04", "02:15", **own),
        ],
    )
    write_rows(folder, "group_timeline", [event("eager", 0, "02:00", "MEMBER_JOINED", ">Stable")])
    life = life_of(Tables(str(folder)), "eager")
    gaps = partition_columns(life, Clock(life.start, life.end), MemberIdentities(life))["gaps"]
    lengths = [gaps["length"]["texts"][place] for place in gaps["length"]["at"]]
    # From 02:15 on nobody follows: that lasts at the end of the log.
    assert lengths == ["at least 1.0 s: the join phase is not on record", "4.0 s", "5.0 min"]
