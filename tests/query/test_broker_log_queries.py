"""Saved queries over the brokers' logs, on a recorded dump: members that went, failovers, contradictions."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay import Warehouse
from coordinator_replay.query.broker_logs.events import GroupLine, departure_of, group_lines
from coordinator_replay.query.coordinators import group_coordinator_changes
from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from coordinator_replay.query.timeline import member_intervals_of, timeline_of
from coordinator_replay.report.group_page import group_page
from coordinator_replay.times import LATEST, moment_text
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit_here
from tests.query.small_warehouse import at, write_rows, write_small_warehouse
from tests.samples import DATA

RECORDED = DATA / "broker-logs" / "4.1"
_OF_GROUPS = "[GroupCoordinator id=1 topic=__consumer_offsets partition=2]"
FORGED = (
    f"[2026-11-23 13:58:05,000] INFO {_OF_GROUPS} Assignment received from leader x for group wharf-migrate for "
    "generation 77. The group has 1 members, 0 of which are static. (o.C)\n"
    f"[2026-11-23 13:58:06,000] INFO {_OF_GROUPS.replace('=2', '=3')} [GroupId wharf-newstatic] "
    "Static member new with instance id pick-0 cannot join the group because the instance id is owned by member "
    "old. (o.C)\n"
    "[2026-11-23 13:58:27,400] INFO [GroupCoordinator id=2] Finished loading of metadata from __consumer_offsets-2 "
    "with epoch 1 in 321ms where 5ms was spent in the scheduler. Loaded 9 records which total to 99 bytes. (o.C)\n"
)
"""A generation that never came, a refusal, and another broker that loads the partition as the log ends."""

BREAK = (
    b"client reason: cleanup\n[2026-11-23 13:58:10,000] INFO [GroupCoordinator id=9] Finished loading of metadata from "
    b"__consumer_offsets-2 with epoch 1 in 99999ms where 5ms was spent in the scheduler. Loaded 9 records"
)
"""A client's reason with a line break: while that of epoch 0 writes on, a broker claims to lead epoch 1."""


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = tmp_path_factory.mktemp("logs")
    recorded = (RECORDED / "server.log").read_bytes()
    (folder / "server.log").write_bytes(recorded.replace(b"client reason: cleanup", BREAK) + FORGED.encode())
    audit_here(folder / "wh", RECORDED / "segments", broker_logs=[str(folder / "server.log")], broker_log_zone="UTC")
    return Tables(str(folder / "wh"))


def ask(warehouse: Tables, name: str, **values: Any) -> list[dict[str, Any]]:
    names, rows = run_saved_query(warehouse, name, values)
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_members_that_went_have_a_record_and_refusals_have_none(audited: Tables) -> None:
    rows = ask(audited, "broker-log-members")
    went = [row for row in rows if row["event"] in ("MEMBER_LEFT", "REMOVED_BY_ADMIN", "MEMBER_FENCED")]
    assert len(went) == 11
    assert {row["note"] for row in went} == {"a record removes the member"}
    by_admin = {(row["instance_id"], row["client_reason"]) for row in went if row["event"] == "REMOVED_BY_ADMIN"}
    assert by_admin == {("adm-1", "cleanup"), ("adm-0", "decommissioned host")}
    assert {row["group_id"] for row in went if row["event"] == "REMOVED_BY_ADMIN"} == {"wharf-removed"}
    [refused] = [row for row in rows if row["event"] == "INSTANCE_ID_UNRELEASED"]
    assert (refused["instance_id"], refused["note"]) == ("pick-0", "leaves no record")


def test_a_generation_that_never_came_is_shown(audited: Tables) -> None:
    [row] = [one for one in ask(audited, "broker-log-contradictions") if one["log_partition"] is None]
    assert (row["epoch"], row["note"]) == (77, "no record of this generation at this time")


def test_a_timeline_says_how_members_went_and_what_was_refused(audited: Tables) -> None:
    left = {
        one.member_id[:5]: one.summary.partition(", owned ")[0]
        for group in ("wharf-newstatic", "wharf-pollers", "wharf-removed")
        for one in timeline_of(audited, group)
        if one.event == "MEMBER_LEFT" and one.member_id and one.summary
    }
    assert left == {
        "6KD6C": "session timeout (log of broker 1)",
        "rvzd2": "session timeout (log of broker 1)",
        "poll-": "left by LeaveGroup (log of broker 1; client reason: consumer poll timeout has expired.)",
        "adm-0": "removed by an admin (log of broker 1; client reason: decommissioned host)",
        "adm-1": "removed by an admin (log of broker 1; client reason: cleanup)",
    }
    [refused] = [one for one in timeline_of(audited, "wharf-newstatic") if one.event == "INSTANCE_ID_UNRELEASED"]
    assert refused.summary == "group.instance.id pick-0, member new was refused, log of broker 1, no record shows it"
    assert (refused.log_offset, refused.is_exact) == (None, False)


def test_member_intervals_describe_and_pages_say_how_members_went(audited: Tables) -> None:
    intervals = member_intervals_of(audited, "wharf-removed")
    departed = {one.member_id[:5]: one.departure for one in intervals if one.departure is not None}
    by_log = "removed by an admin (log of broker 1; client reason: {})"
    assert departed == {"adm-0": by_log.format("decommissioned host"), "adm-1": by_log.format("cleanup")}
    assert len(intervals) > len(departed)
    page, _ = group_page(audited, "wharf-removed")
    assert all(f": {words}" in page for words in departed.values())
    last = max(one.valid_to for one in intervals if one.valid_to is not None)
    warehouse = Warehouse(audited.uri)
    [note] = [one for one in warehouse.describe("wharf-removed").notes if one.startswith("Removed last")]
    assert note.startswith(f"Removed last, at {moment_text(last)}: adm-1-")
    assert note.endswith(f" {departed['adm-1']}.")
    earlier = warehouse.describe("wharf-removed", at=last - timedelta(milliseconds=1)).notes
    assert [departed["adm-0"] in one for one in earlier] == [True]
    assert warehouse.describe("wharf-removed", at=intervals[0].valid_from).notes == ()


def test_a_timeline_has_lines_that_records_contradict_in_their_time_range(audited: Tables) -> None:
    events = timeline_of(audited, "wharf-migrate")
    contradicted = [number for number, one in enumerate(events) if one.event == "BROKER_LOG_CONTRADICTED"]
    place = contradicted[0]
    assert events[place].summary == (
        "generation 77, 1 member, log of broker 1, not used: no record of this generation at this time"
    )
    at = events[place].log_timestamp
    assert at is not None
    assert [one.event for one in timeline_of(audited, "wharf-migrate", end=at)] == [one.event for one in events[:place]]


def test_of_lines_that_differ_none_says_how_a_member_went() -> None:
    at = datetime(2026, 11, 23, 14, tzinfo=UTC)
    left, timed_out = (GroupLine(event, at, "m", None, None, None, 1) for event in ("MEMBER_LEFT", "SESSION_EXPIRED"))
    assert departure_of([left], "m", at, classic=False) == "left by LeaveGroup (log of broker 1)"
    assert departure_of([left, timed_out], "m", at, classic=False) is None
    assert departure_of([left], "m", at + timedelta(seconds=3), classic=False) is None
    # A classic group's record comes at the end of the join phase.
    assert departure_of([left], "m", at + timedelta(seconds=3), classic=True) is not None
    assert departure_of([left], "m", LATEST, classic=True) is None
    assert departure_of([left], "m", at - timedelta(seconds=3), classic=True) is None
    assert departure_of([left], "n", at, classic=True) is None
    # A line about several members lists them, and none has an id that another's only begins with.
    missed = GroupLine("JOIN_EXPIRED", at, None, None, "Set(m, n-1)", None, 1)
    assert departure_of([missed], "n-1", at, classic=True) == "rebalance timeout (log of broker 1)"
    assert departure_of([missed], "n", at, classic=True) is None


def _left(at_ms: int, member_id: str, reason: str = "not provided", *, is_static: bool = True) -> dict[str, Any]:
    instance_id = f"instance of {member_id}" if is_static else None
    return _line(at_ms, "MEMBER_LEFT", member_id=member_id, client_reason=reason, instance_id=instance_id)


def _line(at_ms: int, event: str, broker: int | None = 1, **columns: Any) -> dict[str, Any]:
    logged_at = at("02:05") + timedelta(milliseconds=at_ms)
    line = {"cluster": "default", "group_id": "payments", "broker": broker, "log_partition": 3, "logged_at": logged_at}
    return line | {"event": event, "text": f"{at_ms} {event} {columns}", "source": "server.log"} | columns


def _request(at_ms: int, names: str, epoch: int = 4, **columns: Any) -> dict[str, Any]:
    reason = f"explicit `LeaveGroup` request for ({names}) members."
    return _line(at_ms, "PREPARING_REBALANCE", epoch=epoch, reason=reason, **columns)


REMOVED: list[tuple[list[dict[str, Any]], list[str]]] = [
    ([_left(0, "m-1"), _request(3, "m-1")], []),
    ([_left(0, "m-1"), _request(3, "")], ["m-1"]),
    ([_left(0, "m-1"), _request(0, "")], ["m-1"]),
    # A request may name several members, some by their member ids.
    ([_left(0, "m-1"), _left(0, "m-2"), _request(1, ", m-2")], ["m-1"]),
    ([_left(0, "m-1"), _left(0, "m-2"), _request(1, ", ")], ["m-1", "m-2"]),
    # While the group is joining already, no line lists the names of the request: the next list is of another one.
    ([_left(0, "m-1"), _line(5, "STABILIZED", epoch=4), _left(90, "m-2"), _request(91, "")], ["m-2"]),
    ([_left(0, "m-1"), _line(5, "GROUP_EMPTY", epoch=4), _left(90, "m-2"), _request(91, "")], ["m-2"]),
    ([_left(0, "m-1"), _request(1_001, "")], []),
    ([_left(0, "m-1"), _request(3, "", broker=2)], []),
    ([_left(0, "m-1"), _request(3, "", group_id="legacy")], []),
    # Kafka's Admin gives this reason if it gets none, and names members that have no instance id by member id.
    ([_left(0, "m-1", "member was removed by an admin"), _request(3, "m-1")], ["m-1"]),
    ([_left(0, "m-1", "member was removed by an admin")], ["m-1"]),
    ([_left(0, "m-1", "the consumer is being closed")], []),
    # Two consumers close in one millisecond: the group is joining already when the second one leaves.
    ([_left(0, "c-1", is_static=False), _request(0, "c-1"), _left(0, "c-2", is_static=False)], []),
    ([_left(0, "m-1"), _request(0, "m-1"), _left(0, "m-2", "the consumer is being closed")], []),
]
"""Lines of members that leave, and the members that an admin removed."""


@pytest.mark.parametrize(("lines", "by_admin"), rest_at_night(REMOVED, [REMOVED[3], REMOVED[13]], several=True))
def test_an_admin_names_a_member_by_its_instance_id_alone(
    tmp_path: Path, lines: list[dict[str, Any]], by_admin: list[str]
) -> None:
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "broker_log", lines)
    warehouse = Tables(str(folder))
    rows = ask(warehouse, "broker-log-members")
    assert sorted(row["member_id"] for row in rows if row["event"] == "REMOVED_BY_ADMIN") == by_admin
    assert len(rows) == sum(line["event"] == "MEMBER_LEFT" for line in lines)
    words = {line.member_id: line.departure for line in group_lines(warehouse, "payments")}
    assert (
        sorted(member for member, told in words.items() if member and told.startswith("removed by an admin"))
        == by_admin
    )


def test_a_line_that_a_client_forged_is_no_change_of_the_coordinator(audited: Tables) -> None:
    [row] = [one for one in ask(audited, "broker-log-contradictions") if one["log_partition"] is not None]
    assert (row["log_partition"], row["epoch"], row["broker"], row["group_id"]) == (2, 1, 9, None)
    assert row["note"] == "the leader of this epoch is not this broker"
    changes = audited.rows("SELECT broker, leader_epoch FROM coordinator_changes WHERE cluster = $cluster")
    # At the end the broker unloads what it led, and no log says who took over.
    assert {change for change in changes if change[0] != 1} == {(2, 1), (None, 1)}
    assert audited.rows("SELECT 1 FROM findings WHERE cluster = $cluster AND rule = 'slow_loading'") == []
    [event] = [one for one in timeline_of(audited, "wharf-pollers") if one.event == "BROKER_LOG_CONTRADICTED"]
    assert event.summary == "leader epoch 1, log of broker 9, not used: the leader of this epoch is not this broker"
    assert timeline_of(audited, "wharf-removed")


def test_a_shutdown_is_no_election(tmp_path: Path) -> None:
    """Nobody leads partition 0 from epoch 1 on. Partition 1 gets another leader after such a time."""
    leaders = [(0, 0, 1), (0, 1, -1), (1, 0, 1), (1, 1, -1), (1, 2, 2), (2, 0, 1), (2, 1, None)]
    changes = [
        {
            "cluster": "default",
            "log_partition": partition,
            "leader_epoch": epoch,
            "elected_at": at(f"02:0{epoch}"),
            "is_exact": True,
            "broker": broker,
            "sources": ["cluster_metadata"],
        }
        for partition, epoch, broker in leaders
    ]
    write_small_warehouse(tmp_path, coordinator_changes=changes)
    rows = ask(Tables(str(tmp_path)), "coordinator-failovers")
    assert [(row["log_partition"], row["leader_epoch"], row["broker_before"], row["broker"]) for row in rows] == [
        (2, 1, 1, None),
        (1, 2, 1, 2),
    ]
    assert [row["is_failover"] for row in rows] == [None, True]


def test_a_leader_that_only_gave_up_its_partition_is_shown_as_such_by_all_answers(tmp_path: Path) -> None:
    """The log of broker 1 has the end of its term. That another broker leads partition 3 now is on no record."""
    about = {"cluster": "default", "log_partition": 3, "sources": ["broker_log"]}
    changes = [
        about | {"leader_epoch": 0, "elected_at": at("01:00"), "is_exact": True, "broker": 1},
        about | {"leader_epoch": 1, "is_exact": False, "unloaded_at": at("02:19")},
        about | {"log_partition": 4, "leader_epoch": 0, "is_exact": True, "elected_at": at("02:00"), "broker": 1},
        about | {"log_partition": 4, "leader_epoch": 1, "is_exact": True, "elected_at": at("02:05"), "broker": 2},
    ]
    write_small_warehouse(tmp_path, coordinator_changes=changes)
    warehouse = Tables(str(tmp_path))
    [row] = ask(warehouse, "coordinator-failovers", group="payments")
    assert (row["elected_at"], row["broker"], row["is_failover"], row["broker_before"]) == (None, None, None, 1)
    assert (row["unloaded_at"], row["what"]) == (at("02:19"), "broker 1 gave it up; no new leader on record")
    assert [row["log_partition"] for row in ask(warehouse, "coordinator-failovers")] == [4, 3]
    assert [row["log_partition"] for row in ask(warehouse, "coordinator-failovers", group="simple")] == [3]
    assert ask(warehouse, "coordinator-failovers", group="nobody") == []
    assert len(ask(warehouse, "coordinator-failovers", **{"from": "2026-11-20T02:19"})) == 1
    assert ask(warehouse, "coordinator-failovers", **{"from": "2026-11-20T02:20"}) == []
    [event] = [one for one in timeline_of(warehouse, "payments") if one.event == "COORDINATOR_CHANGED"]
    assert (event.log_timestamp, event.is_exact) == (at("02:19"), False)
    assert event.summary == "leader epoch 1, no new leader on record (before: 1)"
    [change] = group_coordinator_changes(warehouse, "payments")
    assert change.sentence == (
        "by 2026-11-20T02:19:00.000Z broker 1 gave up log partition 3 in leader epoch 1, and no new leader is on record"
    )
    lines = Warehouse(tmp_path, "default").metrics().text.splitlines()
    counts = [float(line.split()[-1]) for line in lines if line.startswith("coordinator_replay_coordinator_changes{")]
    assert counts == [0, 1]


def test_was_it_a_failover(audited: Tables) -> None:
    rows = ask(audited, "coordinator-failovers", partition="2")
    # The first election, of leader epoch 0, is no failover.
    assert [row["is_failover"] for row in rows] == [True]
    assert rows[0]["loaded_at"] == datetime(2026, 11, 23, 13, 58, 27, 400_000, tzinfo=UTC)
    assert (rows[0]["broker_before"], rows[0]["broker"], rows[0]["loading_ms"]) == (1, 2, 321)
    assert rows[0]["sources"] == ["broker_log"]
    assert rows[0]["some_groups"] == ["wharf-migrate"]
