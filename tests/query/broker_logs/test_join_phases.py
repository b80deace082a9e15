"""States that a classic group never writes, by what its coordinator has logged: those of a recorded broker."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from coordinator_replay.api.warehouse import Warehouse
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.life import StateBand
from coordinator_replay.report.lives import life_of
from coordinator_replay.times import moment_text
from scripts.reasons.sample import Sample
from tests.pipeline.in_process import audit_here
from tests.samples import DATA

RECORDED = DATA / "broker-logs" / "4.1"
GROUP = "wharf-migrate"
MILLISECOND = timedelta(milliseconds=1)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = tmp_path_factory.mktemp("phases") / "warehouse"
    audit_here(warehouse, RECORDED / "segments", broker_logs=[str(RECORDED / "server.log")])
    return Warehouse(str(warehouse))


def moments(pattern: str) -> list[datetime]:
    """When the coordinator logged something of the group."""
    lines = [line for line in Sample(RECORDED).broker_log if GROUP in line["text"] and pattern in line["text"]]
    return [datetime.fromtimestamp(line["at"] / 1000, UTC) for line in lines]


def state(warehouse: Warehouse, at: datetime) -> str:
    return warehouse.describe(GROUP, at=at).group.state


def test_within_a_join_phase_the_group_is_preparing_a_rebalance(audited: Warehouse) -> None:
    begins, ends = moments("Preparing to rebalance"), moments("Stabilized group")
    assert len(begins) == len(ends) == 4
    for began_at, ended_at in zip(begins[1:], ends[1:], strict=True):
        assert state(audited, began_at - MILLISECOND) == "Stable"
        assert {state(audited, at) for at in (began_at + MILLISECOND, ended_at - MILLISECOND)} == {"PreparingRebalance"}
        found = {one.group_id: one for one in audited.groups(at=began_at + MILLISECOND, states=["PreparingRebalance"])}
        assert found[GROUP].since == began_at
        notes = audited.groups(at=began_at + MILLISECOND, states=["PreparingRebalance"]).notes
        shown = moment_text(began_at + MILLISECOND)
        assert any(note.startswith(f"describe {GROUP} --at {shown} says since when") for note in notes)
    assert not any("says since when" in note for note in audited.groups().notes)


def test_until_the_leader_has_assigned_partitions_the_group_is_completing_it(audited: Warehouse) -> None:
    [*_, ended_at] = moments("Stabilized group")
    [*_, assigned_at] = moments("Assignment received")
    assert assigned_at > ended_at
    assert state(audited, ended_at) == "CompletingRebalance"
    assert state(audited, assigned_at + timedelta(seconds=1)) == "Stable"


def with_another_end(words: str, others: str, folder: Path) -> Warehouse:
    """The same with other words where the coordinator logged that all members of the group had joined."""
    lines = (RECORDED / "server.log").read_text().splitlines(keepends=True)
    (ended,) = (line for line in lines if f"Stabilized group {GROUP} generation 2 " in line)
    assert words in ended
    logged = [line.replace(words, others) if line == ended else line for line in lines]
    (folder / "server.log").write_text("".join(logged))
    audit_here(folder / "wh", RECORDED / "segments", broker_logs=[str(folder / "server.log")])
    return Warehouse(str(folder / "wh"))


@pytest.mark.long
def test_a_past_join_phase_whose_end_is_not_in_the_log_ends_as_the_record_has_it(
    audited: Warehouse, tmp_path: Path
) -> None:
    found = with_another_end("Stabilized group", "Passed by", tmp_path)
    [_, began_at, *_], [_, ended_at, *_] = moments("Preparing to rebalance"), moments("Stabilized group")
    [second] = [one for one in found.rebalances(GROUP) if one.epoch == 2]
    assert second.started_at is None
    over_at = second.completed_at
    assert over_at is not None
    steps = [began_at - MILLISECOND, began_at, ended_at - MILLISECOND, ended_at, over_at - MILLISECOND, over_at]
    states = ["Stable", *2 * ["PreparingRebalance"], *2 * ["CompletingRebalance"], "Stable"]
    assert [state(found, at) for at in steps] == states == [state(audited, at) for at in steps]
    [note] = [one for one in found.why(GROUP, at=ended_at - MILLISECOND).notes if "PreparingRebalance" in one]
    assert "explicit `LeaveGroup` request" in note


def bands(warehouse: Path, group: str) -> list[StateBand]:
    """What the page of a group shows of its state over time."""
    return [band for band in life_of(Tables(str(warehouse)), group).states if band.since != band.until]


@pytest.mark.long
def test_the_page_of_a_group_shows_the_states_of_join_phases(tmp_path: Path) -> None:
    """In the second one the group is loaded: it is in the state of its last record until a rebalance begins again."""
    lines = (RECORDED / "server.log").read_text().splitlines(keepends=True)
    [_, begin, *_] = [n for n, line in enumerate(lines) if f"Preparing to rebalance group {GROUP} " in line]
    loaded = "[2026-11-23 13:58:01,200] INFO [GroupCoordinator id=1] Finished loading of metadata from "
    loaded += "__consumer_offsets-2 with epoch 2 in 5ms where 5ms was spent in the scheduler. (o.C)\n"
    lines[begin + 1 : begin + 1] = [loaded, lines[begin].replace("13:58:01,061", "13:58:01,250")]
    (tmp_path / "server.log").write_text("".join(lines))
    audit_here(tmp_path / "wh", RECORDED / "segments", broker_logs=[str(tmp_path / "server.log")])
    found = Warehouse(str(tmp_path / "wh"))
    classic = [band for band in bands(tmp_path / "wh", GROUP) if band.group_type == "classic"]
    assert [band.state for band in classic] == [state(found, band.since) for band in classic if band.since is not None]
    at = [datetime(2026, 11, 23, 13, 58, 1, 1000 * ms, UTC) for ms in (61, 200, 250, 299)]
    states = ["PreparingRebalance", "Stable", "PreparingRebalance", "CompletingRebalance"]
    assert [(band.state, band.is_logged) for band in classic if band.since in at] == [
        (state, state != "Stable") for state in states
    ]
    assert sum(band.is_logged for band in classic) == 9


def test_a_log_that_contradicts_the_record_shows_no_join_phase(tmp_path: Path) -> None:
    contradicting = with_another_end(" with 1 members", " with 7 members", tmp_path)
    [_, began_at, *_] = moments("Preparing to rebalance")
    assert state(contradicting, began_at) == "Stable"


def test_what_is_going_on_is_said_with_the_reasons_of_the_coordinator(audited: Warehouse) -> None:
    [_, began_at, *_] = moments("Preparing to rebalance")
    for notes in (audited.describe(GROUP, at=began_at).notes, audited.why(GROUP, at=began_at).notes):
        [note] = [one for one in notes if "PreparingRebalance" in one]
        assert "explicit `LeaveGroup` request" in note
        assert ".;" not in note
    assert not any("PreparingRebalance" in note for note in audited.why(GROUP).notes)


def test_who_had_not_joined_is_said_where_the_coordinator_removed_it_later(tmp_path: Path) -> None:
    lines = (RECORDED / "server.log").read_bytes().splitlines(keepends=True)
    [last] = [n for n, line in enumerate(lines) if b"Stabilized group wharf-migrate generation 2" in line]
    removed = lines[last].split(b"Stabilized")[0] + b"Group wharf-migrate removed dynamic members who haven't joined: "
    removed += b"[mig-0, mig-9] (org.apache.kafka.coordinator.group.GroupMetadataManager)\n"
    (tmp_path / "server.log").write_bytes(b"".join([*lines[:last], removed, *lines[last:]]))
    audit_here(tmp_path / "wh", RECORDED / "segments", broker_logs=[str(tmp_path / "server.log")])
    found = Warehouse(str(tmp_path / "wh"))
    _, second, third, _ = moments("Preparing to rebalance")
    for began_at, is_said in ((second, True), (third, False)):
        [note] = [one for one in found.describe(GROUP, at=began_at + MILLISECOND).notes if "PreparingRebalance" in one]
        assert note.endswith("; removed later, because they had not joined: mig-0, mig-9") == is_said


def test_who_may_not_have_joined_is_said(tmp_path: Path) -> None:
    """Members of the last generation, but those that the log shows to have joined or to be out, and new ones."""
    lines = (RECORDED / "server.log").read_bytes().splitlines(keepends=True)
    _, began, *_ = [n for n, line in enumerate(lines) if b"Preparing to rebalance group " + GROUP.encode() in line]
    head = lines[began].split(b"Preparing")[0]
    added = [
        b"Dynamic member with unknown member id joins group wharf-migrate in PreparingRebalance state. Created a new "
        b"member id new-1 and requesting the member to rejoin with this id.",
        b"Pending dynamic member with id new-1 joins group wharf-migrate in PreparingRebalance state. Adding to the "
        b"group now.",
        b"Group wharf-migrate removed dynamic members who haven't joined: [mig-1-08f306d4-7d99-4d36-9dea-44fc7b06f074]",
    ]
    added = [
        head.replace(b",061]", b",%03d]" % (62 + 10 * n)) + line + b" (o.a.k.coordinator.group.GroupMetadataManager)\n"
        for n, line in enumerate(added)
    ]
    (tmp_path / "server.log").write_bytes(b"".join([*lines[: began + 1], *added, *lines[began + 1 :]]))
    audit_here(tmp_path / "wh", RECORDED / "segments", broker_logs=[str(tmp_path / "server.log")])
    found = Warehouse(str(tmp_path / "wh"))
    _, began_at, *_ = moments("Preparing to rebalance")
    shown = []
    for after in (1, 11, 21):
        [note] = [one for one in found.why(GROUP, at=began_at + after * MILLISECOND).notes if "began at" in one]
        shown.append(note.partition("; members that no record shows to have joined: ")[2].partition("; ")[0])
    # The other member has left, which began the rebalance.
    mig = "mig-1-08f306d4-7d99-4d36-9dea-44fc7b06f074"
    assert shown == [f"{mig}, new-1", mig, ""]


def test_a_group_that_is_stuck_at_the_end_of_the_log(tmp_path: Path) -> None:
    """The log goes on after the last record, and nothing has ended the rebalance."""
    lines = (RECORDED / "server.log").read_bytes().splitlines(keepends=True)
    [last] = [n for n, line in enumerate(lines) if b"Stabilized group wharf-migrate generation 9" in line]
    stuck = lines[last].replace(b"13:58:27,7", b"13:58:36,7").split(b"Stabilized")[0]
    stuck += b"Preparing to rebalance group wharf-migrate in state PreparingRebalance with old generation 9 "
    stuck += (
        b"(reason: removing member m on heartbeat expiration). (org.apache.kafka.coordinator.group.GroupMetadata)\n"
    )
    ends = [n for n, line in enumerate(lines) if b"Scheduling unloading" in line]
    (tmp_path / "server.log").write_bytes(b"".join([*lines[: ends[0]], stuck]))
    audit_here(tmp_path / "wh", RECORDED / "segments", broker_logs=[str(tmp_path / "server.log")])
    found = Warehouse(str(tmp_path / "wh"))
    assert found.describe(GROUP).group.state == "PreparingRebalance"
    assert any("removing member m on heartbeat expiration" in note for note in found.why(GROUP).notes)
    for rebalances in (list(found.rebalances()), list(found.rebalances(GROUP)), list(found.why(GROUP))):
        going_on = rebalances[-1]
        assert (going_on.group_id, going_on.is_over, going_on.cause, going_on.confidence) == (
            GROUP,
            False,
            "SESSION_TIMEOUT",
            "likely",
        )
        assert going_on.reasons == ["removing member m on heartbeat expiration"]
        assert (going_on.number, going_on.is_exact, going_on.is_end_missing) == ("", False, False)
        assert going_on.exactness_note == "not exact: no record shows it yet, only the log of a broker"
    *_, last_band = bands(tmp_path / "wh", GROUP)
    assert (last_band.state, last_band.since, last_band.is_logged) == ("PreparingRebalance", going_on.started_at, True)
    answer = found.groups(states=["PreparingRebalance", "CompletingRebalance"])
    assert [one.group_id for one in answer] == [GROUP]
    assert [note.partition(":")[0] for note in answer.notes if "is recorded as" in note] == [
        "No group is recorded as CompletingRebalance"
    ]
    assert any("the brokers' logs that were audited show none" in note for note in answer.notes)
    began_at = going_on.started_at
    assert began_at is not None
    assert all(one.is_over for one in found.rebalances(GROUP, end=began_at))
    # A coordinator that loads the group has it as its last record says.
    loaded = b"[2026-11-23 13:58:40,000] INFO [GroupCoordinator id=1] Finished loading of metadata from "
    loaded += b"__consumer_offsets-2 with epoch 2 in 5ms where 5ms was spent in the scheduler. (o.C)\n"
    with (tmp_path / "server.log").open("ab") as log:
        log.write(loaded)
    audit_here(tmp_path / "wh", RECORDED / "segments", broker_logs=[str(tmp_path / "server.log")])
    loaded_again = Warehouse(str(tmp_path / "wh"))
    assert loaded_again.describe(GROUP).group.state == "Stable"
    assert not bands(tmp_path / "wh", GROUP)[-1].is_logged
    assert all(one.is_over for one in loaded_again.rebalances(GROUP))
