"""Saved queries over the brokers' logs, on a recorded dump: members that went, failovers, contradictions."""

from datetime import UTC, datetime
from typing import Any

import pytest

from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from tests.pipeline.in_process import audit_here
from tests.samples import DATA

RECORDED = DATA / "broker-logs" / "4.1"
_OF_GROUPS = "[GroupCoordinator id=1 topic=__consumer_offsets partition=2]"
FORGED = (
    f"[2026-11-23 13:58:05,000] INFO {_OF_GROUPS} Assignment received from leader x for group wharf-migrate for "
    "generation 77. The group has 1 members, 0 of which are static. (o.C)\n"
    f"[2026-11-23 13:58:06,000] INFO {_OF_GROUPS} [GroupId wharf-newstatic] Static member new with instance id pick-0 "
    "cannot join the group because the instance id is owned by member old. (o.C)\n"
    "[2026-11-23 13:58:20,000] INFO [GroupCoordinator id=2] Finished loading of metadata from __consumer_offsets-2 "
    "with epoch 1 in 4321ms where 5ms was spent in the scheduler. Loaded 9 records which total to 99 bytes. (o.C)\n"
)
"""A generation that never came, a refusal, and another broker that loads the partition."""


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = tmp_path_factory.mktemp("logs")
    (folder / "server.log").write_bytes((RECORDED / "server.log").read_bytes() + FORGED.encode())
    audit_here(folder / "wh", RECORDED / "segments", broker_logs=[str(folder / "server.log")], broker_log_zone="UTC")
    return Tables(str(folder / "wh"))


def ask(warehouse: Tables, name: str, **values: Any) -> list[dict[str, Any]]:
    names, rows = run_saved_query(warehouse, name, values)
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_members_that_went_have_a_record_and_refusals_have_none(audited: Tables) -> None:
    rows = ask(audited, "broker-log-members")
    went = [row for row in rows if row["event"] in ("MEMBER_LEFT", "MEMBER_FENCED")]
    assert len(went) == 11
    assert {row["note"] for row in went} == {"a record removes the member"}
    assert {row["client_reason"] for row in went if row["group_id"] == "wharf-removed"} == {
        "cleanup",
        "decommissioned host",
    }
    [refused] = [row for row in rows if row["event"] == "INSTANCE_ID_UNRELEASED"]
    assert (refused["instance_id"], refused["note"]) == ("pick-0", "leaves no record")


def test_a_generation_that_never_came_is_shown(audited: Tables) -> None:
    [row] = ask(audited, "broker-log-contradictions")
    assert (row["generation"], row["note"]) == (77, "no record of this generation at this time")


def test_was_it_a_failover(audited: Tables) -> None:
    rows = ask(audited, "coordinator-failovers", partition="2")
    assert [row["is_failover"] for row in rows] == [False, True]
    assert rows[1]["loaded_at"] == datetime(2026, 11, 23, 13, 58, 20, tzinfo=UTC)
    assert (rows[1]["earlier_broker"], rows[1]["broker"], rows[1]["loading_ms"]) == (1, 2, 4321)
    assert rows[1]["some_groups"] == ["wharf-migrate"]
