"""When a partition had no owner, and what the end of the log belongs to."""

from datetime import timedelta
from pathlib import Path

import pytest

from coordinator_replay.query.groups import group_at
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.columns import Clock
from coordinator_replay.report.gaps import gaps_of
from coordinator_replay.report.life import GroupLife
from coordinator_replay.report.lives import life_of, lives_of, spans_of
from coordinator_replay.report.members import MemberIdentities
from coordinator_replay.report.owner_marks import partition_columns
from coordinator_replay.times import milliseconds
from tests.query.small_warehouse import at, event, owned, write_rows, write_small_warehouse

MILLISECOND = timedelta(milliseconds=1)


def ms(time: str) -> int:
    return milliseconds(at(time))


def gaps(life: GroupLife, partition: int) -> list[tuple[int, int, bool]]:
    holdings = [holding for holding in life.holdings if holding.partition == partition]
    return [(gap.since_ms, gap.until_ms, gap.is_lower_bound) for gap in gaps_of(holdings, milliseconds(life.end))]


def test_gaps_are_those_of_the_table_and_the_last_one_may_reach_the_end(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    twice = [{"since": at("02:05"), "until": at("02:06")}, {"since": at("02:08"), "until": at("02:09")}]
    own = {"group_id": "gaps", "released_by": "MEMBER_LEFT"}
    write_rows(
        folder,
        "partition_ownership",
        [
            owned(0, "m-1", "02:00", "02:05", unowned=twice, unowned_ms=120_000, **own),
            owned(0, "m-2", "02:09", "02:10", **own),
            # The group is Empty from then on: nobody misses the partition.
            owned(1, "m-1", "02:00", "02:05", unowned=[], **own),
        ],
    )
    write_rows(folder, "group_timeline", [event("gaps", 0, "02:00", "MEMBER_JOINED", ">Stable")])
    life = life_of(Tables(str(folder)), "gaps")
    end_ms = milliseconds(life.end)
    assert gaps(life, 0) == [
        (ms("02:05"), ms("02:06"), False),
        (ms("02:08"), ms("02:09"), False),
        (ms("02:10"), end_ms, False),
    ]
    assert gaps(life, 1) == []


def test_a_partition_that_others_own_too_has_no_gap(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    own = {"group_id": "shared", "released_by": "REVOKED", "unowned_ms": 0}
    write_rows(
        folder,
        "partition_ownership",
        [
            owned(0, "m-1", "02:00", "02:20", group_id="shared", released_by="REVOKED"),
            owned(0, "m-2", "02:01", "02:05", **own),
            owned(0, "m-3", "02:10", "02:11", **own),
        ],
    )
    write_rows(folder, "group_timeline", [event("shared", 0, "02:00", "MEMBER_JOINED", ">Stable")])
    life = life_of(Tables(str(folder)), "shared")
    assert gaps(life, 0) == [(ms("02:20"), milliseconds(life.end), False)]


def test_nothing_is_drawn_where_the_log_does_not_prove_the_owners(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    own = {"group_id": "open", "unowned": None}
    write_rows(
        folder,
        "partition_ownership",
        [
            owned(0, "m-1", "02:00", "02:05", released_by="RECORDS_MISSING", **own),
            owned(0, "m-2", "02:09", "02:10", released_by="REVOKED", is_exact=False, **own),
        ],
    )
    write_rows(folder, "group_timeline", [event("open", 0, "02:00", "MEMBER_JOINED", ">Stable")])
    assert gaps(life_of(Tables(str(folder)), "open"), 0) == []


@pytest.fixture(scope="module")
def leaving(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """A group of which the log's last record is."""
    folder = write_small_warehouse(tmp_path_factory.mktemp("leaving"))
    write_rows(
        folder,
        "group_timeline",
        [
            event("leaver", 0, "02:00", "MEMBER_JOINED", ">Stable"),
            event("leaver", 1, "02:20", "REBALANCE_STARTED", "Stable>Reconciling"),
        ],
    )
    return Tables(str(folder))


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
    from coordinator_replay.report.lives import Limits

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
            owned(0, "m-1", "02:00", "02:05", unowned=None, **own),
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
