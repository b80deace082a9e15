"""Rows of a group: intervals that do not overlap, owners that the broker confirms, runs that go on from a snapshot."""

import json
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.analysis.rows import Row
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import Record
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.errors import SnapshotError
from tests.analysis.classic_log import ClassicLog, member
from tests.engine.coordinator import TOPIC, Coordinator
from tests.engine.lives import GROUP, Writer, any_records
from tests.engine.recordings import folder, group_records, lines, logs
from tests.engine.test_replay import SAMPLES, WHOLE_LOGS
from tests.nightly import few_examples, many_examples, rest_at_night

TABLES = folder("group-lifecycles").parents[2] / "schemas" / "tables"
FOLDED = ("group_timeline", "member_timeline", "partition_ownership", "rebalances", "expiry_rules", "group_evidence")
CHECKED = ["group-lifecycles", "java-clients", "kafka-3.9", "expiration"]


def topic_names(sample: str) -> dict[str, str]:
    if not (folder(sample) / "checkpoints.jsonl").exists():
        return {}
    found = {}
    for checkpoint in lines(sample, "checkpoints.jsonl"):
        found.update({topic["id"]: name for name, topic in checkpoint["topics"].items()})
    return found


def rows_of(group_id: str, records: Iterable[Record], names: dict[str, str] | None = None) -> list[Row]:
    life = GroupReplay("test", group_id, names)
    rows = [row for record in records for row in life.feed(record)]
    return [*rows, *life.finish()]


def table(rows: Iterable[Row], name: str) -> list[dict[str, Any]]:
    return [row for table_name, row in rows if table_name == name]


def canonical(rows: Iterable[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


SETTLED_LATER = {"bucket", "is_open", "by_records", "reasons", "client_reasons"}
"""Columns that the pipeline adds, which tell where a row lies and whether later records may still change it."""


@pytest.mark.parametrize("name", FOLDED)
def test_rows_have_exactly_the_columns_of_the_contract(name: str) -> None:
    declared = json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8"))
    columns = {column["name"] for column in declared["columns"]}
    checked = 0
    for group_id, records in group_records("group-lifecycles"):
        for row in table(rows_of(group_id, records), name):
            assert set(row) == columns - SETTLED_LATER
            checked += 1
    assert checked > (10 if name == "group_evidence" else 30)


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("sample", SAMPLES)
def test_no_two_rows_share_a_key(sample: str, name: str) -> None:
    keys = json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8"))["keys"]
    for group_id, records in group_records(sample):
        found = [
            tuple(row[key] for key in keys) for row in table(rows_of(group_id, records, topic_names(sample)), name)
        ]
        assert len(found) == len(set(found)), group_id


@pytest.mark.parametrize("sample", SAMPLES)
def test_rows_of_a_run_that_goes_on_from_snapshots_are_those_of_one_run(sample: str) -> None:
    names = topic_names(sample)
    for group_id, records in group_records(sample):
        whole = canonical(rows_of(group_id, records, names))
        for split in range(0, len(records) + 1, max(len(records) // 8, 1)):
            first = GroupReplay("test", group_id, names)
            rows = [row for record in records[:split] for row in first.feed(record)]
            second = GroupReplay.restore(json.loads(json.dumps(first.snapshot())), names)
            rows += [row for record in records[split:] for row in second.feed(record)]
            assert canonical([*rows, *second.finish()]) == whole, (group_id, split)


@pytest.mark.parametrize("sample", WHOLE_LOGS)
def test_nightly_runs_that_replace_what_was_not_settled_end_with_the_rows_of_one_run(sample: str) -> None:
    names = topic_names(sample)
    for group_id, records in group_records(sample):
        held: list[Row] = []
        life = GroupReplay("test", group_id, names)
        for index, record in enumerate(records):
            held += life.feed(record)
            is_batch_end = index + 1 < len(records) and records[index + 1].timestamp_ms != record.timestamp_ms
            if is_batch_end and index % 3 == 0:
                snapshot = json.dumps(life.snapshot())
                held += life.finish()
                # The next night begins: what was not settled goes.
                held = [(name, row) for name, row in held if row["settled_at_offset"] is not None]
                life = GroupReplay.restore(json.loads(snapshot), names)
        held += life.finish()
        assert canonical(held) == canonical(rows_of(group_id, records, names)), group_id


@few_examples
@given(any_records())
def test_no_records_raise_and_intervals_never_turn_back(records: list[Record]) -> None:
    check_intervals(records)


@pytest.mark.long
@many_examples
@given(any_records())
def test_no_records_of_many_raise_and_intervals_never_turn_back(records: list[Record]) -> None:
    check_intervals(records)


def check_intervals(records: list[Record]) -> None:
    rows = rows_of(GROUP, records)
    for row in table(rows, "member_timeline"):
        assert row["valid_to"] is None or row["valid_from"] <= row["valid_to"]
    for row in table(rows, "partition_ownership"):
        assert row["owned_to"] is None or row["owned_from"] < row["owned_to"]
        assert row["unowned_ms"] is None or row["unowned_ms"] >= 0
    json.dumps(rows)


@few_examples
@given(any_records(15))
def test_any_records_give_the_same_rows_through_snapshots(records: list[Record]) -> None:
    check_snapshots(records)


@pytest.mark.long
@many_examples
@given(any_records(15))
def test_many_records_give_the_same_rows_through_snapshots(records: list[Record]) -> None:
    check_snapshots(records)


def check_snapshots(records: list[Record]) -> None:
    life = GroupReplay("test", GROUP)
    rows = []
    for record in records:
        rows += life.feed(record)
        life = GroupReplay.restore(json.loads(json.dumps(life.snapshot())))
    assert canonical([*rows, *life.finish()]) == canonical(rows_of(GROUP, records))


@pytest.mark.parametrize("sample", SAMPLES)
def test_intervals_of_a_member_follow_each_other(sample: str) -> None:
    for group_id, records in group_records(sample):
        stays = defaultdict(list)
        for row in table(rows_of(group_id, records), "member_timeline"):
            stays[row["member_id"]].append(row)
        for rows in stays.values():
            ordered = sorted(rows, key=lambda row: row["from_offset"])
            for one, following in pairwise(ordered):
                assert one["valid_to"] is not None and one["valid_to"] <= following["valid_from"]
                assert one["to_offset"] <= following["from_offset"]


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_partition_has_one_owner_at_a_time_outside_share_groups(sample: str) -> None:
    names = topic_names(sample)
    for group_id, records in group_records(sample):
        if any(record.kind.startswith("ShareGroup") for record in records):
            continue
        spans = defaultdict(list)
        made = rows_of(group_id, records, names)
        members = table(made, "member_timeline")
        for row in table(made, "partition_ownership"):
            spans[row["topic"] or row["topic_id"], row["partition"]].append(row)
        for rows in spans.values():
            ordered = sorted(rows, key=lambda row: row["owned_from"])
            for one, following in pairwise(ordered):
                assert one["owned_to"] is not None and one["owned_to"] <= following["owned_from"]
                is_classic = "GroupMetadata" in {record.kind for record in records}
                is_missing = not (one["is_exact"] and following["is_exact"])
                assert one["unowned_ms"] is not None or is_classic or is_missing, (group_id, one)
                if one["unowned_ms"] is not None:
                    missed = [(gap["since"], gap["until"]) for gap in one["unowned"]]
                    assert missed == missed_between(members, one, following["owned_from"]), (group_id, one)
                    assert one["unowned_ms"] == sum(until - since for since, until in missed)
            last = ordered[-1]
            assert last["unowned_ms"] is None
            if last["unowned"] is not None:
                missed = [(gap["since"], gap["until"] or END_MS) for gap in last["unowned"]]
                assert missed == missed_between(members, last, END_MS), (group_id, last)


END_MS = 1 << 50


def missed_between(members: list[dict[str, Any]], last: dict[str, Any], end_ms: int) -> list[tuple[int, int]]:
    """When members subscribed to the topic of an ownership, from its end on, by the members' own rows."""
    may_want = [
        (max(row["valid_from"], last["owned_to"]), min(END_MS if row["valid_to"] is None else row["valid_to"], end_ms))
        for row in members
        if row["group_type"] == "streams"
        or row["subscribed_topics"] is None
        or row["subscribed_topic_regex"]
        or last["topic"] is None
        or last["topic"] in row["subscribed_topics"]
    ]
    merged: list[tuple[int, int]] = []
    for since, until in sorted(pair for pair in may_want if pair[0] < pair[1]):
        if merged and since <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], until)
        else:
            merged.append((since, until))
    return merged


@pytest.mark.parametrize("sample", CHECKED)
def test_owners_at_a_checkpoint_are_those_the_broker_named(sample: str) -> None:
    names = topic_names(sample)
    owned: dict[str, list[dict[str, Any]]] = {}
    for group_id, records in group_records(sample):
        owned[group_id] = table(rows_of(group_id, records, names), "partition_ownership")
    compared = 0
    for checkpoint in lines(sample, "checkpoints.jsonl"):
        if not checkpoint["quiet"]:
            continue
        moment = _last_timestamp(sample, checkpoint["endOffsets"])
        for group in checkpoint["groups"]:
            if group["type"] not in ("Classic", "Consumer") or group["state"] not in ("Stable", "Empty"):
                continue
            if group["groupId"] not in owned:
                continue
            now = {
                f"{row['topic']}-{row['partition']}": row["member_id"]
                for row in owned[group["groupId"]]
                if row["owned_from"] <= moment and (row["owned_to"] is None or moment < row["owned_to"])
            }
            told = {owner: member["memberId"] for member in group["members"] for owner in member["assignment"]}
            assert now == told, (checkpoint["at"], group["groupId"])
            compared += 1
    assert compared > 20


def _last_timestamp(sample: str, ends: dict[str, int]) -> int:
    """A moment that belongs to the checkpoint: that of the last record before its end offsets."""
    return max(
        entry.timestamp_ms
        for partition, log in logs(sample).items()
        for entry in log
        if entry.offset < ends[str(partition)]
    )


@pytest.mark.parametrize("sample", CHECKED)
def test_members_at_a_checkpoint_are_those_the_broker_named(sample: str) -> None:
    names = topic_names(sample)
    stays = {
        group_id: table(rows_of(group_id, records, names), "member_timeline")
        for group_id, records in group_records(sample)
    }
    for checkpoint in lines(sample, "checkpoints.jsonl"):
        if not checkpoint["quiet"]:
            continue
        moment = _last_timestamp(sample, checkpoint["endOffsets"])
        for group in checkpoint["groups"]:
            rows = [
                row
                for row in stays.get(group["groupId"], [])
                if row["valid_from"] <= moment and (row["valid_to"] is None or moment < row["valid_to"])
            ]
            told = {
                (member["memberId"], member.get("instanceId"), member["clientId"], member["host"])
                for member in group["members"]
            }
            assert {
                (row["member_id"], row["instance_id"], row["client_id"], row["client_host"]) for row in rows
            } == told
            if group["type"] != "Classic":
                assert {row["member_id"]: row["member_epoch"] for row in rows} == {
                    member["memberId"]: member["memberEpoch"] for member in group["members"]
                }


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_timeline_numbers_the_engines_events(sample: str) -> None:
    for group_id, records in group_records(sample):
        replay = StateReplay(group_id)
        events = [event for record in records for event in replay.apply(record)] + replay.finish()
        rows = table(rows_of(group_id, records), "group_timeline")
        assert [row["seq"] for row in rows] == list(range(len(events)))
        assert [(row["event"], row["log_offset"]) for row in rows] == [(e.kind, e.offset) for e in events]
        for row in rows:
            json.loads(row["detail"])


@pytest.mark.parametrize("sample", WHOLE_LOGS)
def test_every_epoch_and_generation_is_a_rebalance_that_ends(sample: str) -> None:
    for group_id, records in group_records(sample):
        rows = rows_of(group_id, records)
        rebalances = table(rows, "rebalances")
        begun = [
            row["epoch"]
            for row in table(rows, "group_timeline")
            if row["event"] in ("REBALANCE_STARTED", "GROUP_EMPTIED")
            or (row["event"] in ("REBALANCE_COMPLETED", "EPOCH_CHANGED") and row["group_type"] == "classic")
        ]
        assert sorted(row["epoch"] for row in rebalances) == sorted(begun)
        named = {row["rebalance_id"] for row in table(rows, "group_timeline")} - {None}
        assert named == {row["rebalance_id"] for row in rebalances}
        for row in rebalances:
            if row["group_type"] == "classic":
                assert row["started_at"] is None and row["duration_ms"] is None
                assert 0 <= row["duration_ms_min"] <= (row["duration_ms_max"] or row["duration_ms_min"])
            elif row["completed_at"] is not None:
                took = row["completed_at"] - row["started_at"]
                assert row["duration_ms"] == row["duration_ms_min"] == row["duration_ms_max"] == took >= 0
            assert row["members_after"] == row["members_before"] + len(row["members_joined"]) - len(row["members_left"])


def test_rebalance_ids_depend_on_cluster_group_and_position_alone() -> None:
    group_id, records = next(group_records("java-clients"))
    again = [row["rebalance_id"] for row in table(rows_of(group_id, records), "rebalances")]
    assert again == [row["rebalance_id"] for row in table(rows_of(group_id, records), "rebalances")]
    other = GroupReplay("other", group_id)
    elsewhere = [row for record in records for row in other.feed(record)] + list(other.finish())
    assert set(again).isdisjoint(row["rebalance_id"] for row in table(elsewhere, "rebalances"))


# --- single rules ---------------------------------------------------------------------------------------------------


def owners(coordinator: Coordinator) -> list[dict[str, Any]]:
    return table(rows_of(GROUP, coordinator.log.records, {TOPIC: "move"}), "partition_ownership")


def test_a_partition_that_moves_is_unowned_from_its_revocation_to_its_next_owner() -> None:
    coordinator = Coordinator()
    coordinator.join(None, at_once=True)
    coordinator.log.now = 100
    coordinator.join(None, at_once=True)
    coordinator.log.now = 200
    coordinator.heartbeat("member-1")
    coordinator.log.now = 250
    coordinator.acknowledge("member-1")
    coordinator.log.now = 400
    coordinator.heartbeat("member-2")
    moved = next(row for row in owners(coordinator) if row["partition"] == 1 and row["member_id"] == "member-1")
    assert (moved["owned_from"], moved["owned_to"], moved["unowned_ms"]) == (0, 250, 150)
    assert (moved["released_by"], moved["topic"], moved["topic_id"]) == ("REVOKED", "move", TOPIC)
    rebalance = table(rows_of(GROUP, coordinator.log.records), "rebalances")[1]
    assert (rebalance["partitions_reassigned"], rebalance["partitions_total"]) == (3, 6)
    assert (rebalance["unowned_ms_max"], rebalance["unowned_ms_total"]) == (150, 450)
    assert (rebalance["started_at"], rebalance["completed_at"]) == (100, 400)
    # The new target took partitions from member-1 at 100, and it gave them up at 250.
    assert (rebalance["held_up_by"], rebalance["held_up_ms"], rebalance["partitions_added"]) == ("member-1", 150, 0)


def test_others_wait_for_a_partition_since_the_target_that_took_it_away() -> None:
    coordinator = Coordinator()
    coordinator.join(None, at_once=True)
    coordinator.log.now = 100
    coordinator.join(None, at_once=True)
    coordinator.heartbeat("member-1")
    coordinator.log.now = 240
    coordinator.targets |= {"member-1": {0, 2}, "member-2": {1, 3, 4, 5}}
    coordinator._write_target("member-1")
    for coordinator.log.now in (250, 300):
        coordinator.acknowledge("member-1")
    life = GroupReplay("test", GROUP)
    for record in coordinator.log.records:
        life.feed(record)
    life.finish()
    gaps = {partition: (gap.awaited_ms, gap.to_ms) for (_, partition), gap in life._ownership.gaps.items()}
    assert gaps == {1: (100, 300), 3: (100, 300), 4: (240, 300), 5: (100, 300)}


def test_a_member_that_holds_on_for_its_rebalance_timeout_and_is_gone_was_fenced() -> None:
    coordinator = Coordinator()
    coordinator.join(None, at_once=True)
    coordinator.log.now = 100
    coordinator.join(None, at_once=True)
    coordinator.log.now = 200
    coordinator.heartbeat("member-1")
    coordinator.log.now = 200 + 300000
    coordinator.leave("member-1")
    assert {row["released_by"] for row in owners(coordinator) if row["member_id"] == "member-1"} == {"MEMBER_FENCED"}


@pytest.mark.parametrize(
    ("last_step", "released_by"),
    [("leave", "GROUP_EMPTIED"), ("come_back", "MEMBER_REPLACED")],
)
def test_why_an_interval_of_ownership_ended(last_step: str, released_by: str) -> None:
    coordinator = Coordinator()
    coordinator.join("one", at_once=True)
    coordinator.log.now = 100
    getattr(coordinator, last_step)("member-1")
    assert {row["released_by"] for row in owners(coordinator) if row["member_id"] == "member-1"} == {released_by}


def test_a_static_member_under_a_new_id_goes_on_owning_without_a_gap() -> None:
    coordinator = Coordinator()
    coordinator.join("one", at_once=True)
    coordinator.log.now = 100
    coordinator.go_away("member-1")
    coordinator.log.now = 150
    coordinator.come_back("member-1")
    rows = owners(coordinator)
    assert {row["unowned_ms"] for row in rows if row["member_id"] == "member-1"} == {0}
    assert {(row["owned_from"], row["owned_to"]) for row in rows if row["member_id"] == "member-2"} == {(150, None)}


def test_a_partition_of_a_classic_group_is_given_up_by_the_end_of_the_join_phase() -> None:
    writer = Writer()
    blob = "AAAAAAABAAF4AAAAAQAAAAD/////"
    for generation, owner, now, joined in [(1, "a", 100, 90), (2, "b", 400, 370)]:
        writer.now = now
        members = [
            {
                "memberId": member_id,
                "clientId": "c",
                "clientHost": "/h",
                "sessionTimeout": 1,
                "rebalanceTimeout": 1,
                "subscription": "",
                "assignment": blob if member_id == owner else "",
            }
            for member_id in ("a", "b")
        ]
        fields = {"protocolType": "consumer", "protocol": "range", "leader": "a", "members": members}
        writer.write("GroupMetadata", {**fields, "generation": generation, "currentStateTimestamp": joined})
    rows = rows_of(GROUP, writer.records)
    first, second = table(rows, "partition_ownership")
    assert (first["member_id"], first["owned_to"], first["unowned_ms"]) == ("a", 370, None)
    assert (second["member_id"], second["owned_from"], second["topic"], second["topic_id"]) == ("b", 400, "x", None)
    rebalance = table(rows, "rebalances")[1]
    assert (rebalance["started_at"], rebalance["completed_at"], rebalance["duration_ms"]) == (None, 400, None)
    # The sync took 30 ms; the join phase had begun one millisecond before its end at most: the rebalance timeout.
    assert (rebalance["duration_ms_min"], rebalance["duration_ms_max"]) == (30, 31)
    assert (rebalance["unowned_ms_max"], rebalance["unowned_ms_total"]) == (None, None)


def test_a_static_member_that_replaced_another_is_marked_as_having_its_client_id_and_host() -> None:
    log = ClassicLog()
    log.sync(1_000, member("one-1", [0], instance="one"), member("b", [1]))
    log.sync(2_000, member("one-2", [0], instance="one"), member("b", [1]), attempts=0)
    log.sync(9_000, member("one-2", [0], instance="one"), member("b", [1]))
    rows = table(rows_of(GROUP, log.records), "member_timeline")
    marked = {(row["member_id"], row["is_client_inherited"]) for row in rows}
    assert marked == {("one-1", False), ("one-2", True), ("b", False)}


def test_a_static_member_whose_beginning_is_not_in_the_log_may_have_another_client_id_and_host() -> None:
    log = ClassicLog()
    one, other = member("one-2", [0], instance="one"), member("b", [1])
    log.sync(1_000, other, attempts=6)
    log.sync(2_000, one, other, missing=2)
    log.sync(3_000, one, other, member("two-1", instance="two"), missing=2)
    rows = table(rows_of(GROUP, log.records[2:]), "member_timeline")
    marked = {(row["member_id"], row["is_client_inherited"]) for row in rows}
    assert marked == {("one-2", True), ("b", False), ("two-1", False)}


def test_a_conversion_keeps_owners_and_links_what_is_given_up_in_it() -> None:
    names = topic_names("group-lifecycles")
    records = dict(group_records("group-lifecycles"))["shop-migrate"]
    rows = table(rows_of("shop-migrate", records, names), "partition_ownership")
    converted = [row for row in rows if row["released_by"] == "GROUP_CONVERTED"]
    assert converted and all(row["unowned_ms"] == 0 for row in converted)
    assert {row["topic"] for row in rows} == {"shop.move"}
    assert sum(row["owned_to"] is None for row in rows) == 6


def test_tasks_of_a_streams_group_are_shown_as_partitions_of_their_source_topics() -> None:
    records = dict(group_records("group-lifecycles"))["shop-streams"]
    rows = table(rows_of("shop-streams", records), "partition_ownership")
    assert {row["topic"] for row in rows} == {
        "shop.streams",
        "shop-streams-KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition",
    }


def test_a_topic_whose_name_nobody_gave_stays_without_one() -> None:
    records = dict(group_records("group-lifecycles"))["shop-wide"]
    rows = rows_of("shop-wide", records)
    assert {row["topic"] for row in table(rows, "partition_ownership")} == {None}
    assert all(entry["topic"] is None for row in table(rows, "member_timeline") for entry in row["assigned"])


def test_rows_come_out_as_they_close_and_not_at_the_end() -> None:
    coordinator = Coordinator()
    for _ in range(200):
        coordinator.log.tick()
        coordinator.join(None, at_once=True)
        coordinator.log.tick()
        coordinator.leave(f"member-{coordinator.made}")
    life = GroupReplay("test", GROUP)
    early = sum(len(life.feed(record)) for record in coordinator.log.records)
    late = len(list(life.finish()))
    assert early > 20 * late
    # What it takes to tell a storm: the rebalances of ten minutes, four hundred here. And 64 rebalances whose cause a
    # later record may settle.
    findings = life.snapshot().pop("findings")
    assert len(json.dumps({**life.snapshot(), "findings": None})) < 50_000
    assert len(json.dumps(findings)) < 20_000


def test_a_snapshot_of_another_version_is_refused() -> None:
    snapshot = GroupReplay("test", GROUP).snapshot()
    with pytest.raises(SnapshotError, match="version 99"):
        GroupReplay.restore({**snapshot, "version": 99})
    with pytest.raises(SnapshotError, match="damaged"):
        GroupReplay.restore({**snapshot, "members": [[None]]})


def test_events_of_one_operation_belong_to_the_rebalance_it_begins() -> None:
    coordinator = Coordinator()
    coordinator.join(None, at_once=True)
    rows = table(rows_of(GROUP, coordinator.log.records), "group_timeline")
    assert [row["event"] for row in rows][:2] == [EventKind.GROUP_CREATED, EventKind.MEMBER_JOINED]
    assert len({row["rebalance_id"] for row in rows}) == 1


def compacted(records: list[Record], proven_from: int) -> list[Record]:
    """What the cleaner leaves of a group that is alone in its log, where it was at work below an offset."""
    last = {(one.kind, json.dumps(one.key)): one.offset for one in records if one.offset < proven_from}
    kept = [one for one in records if one.offset >= proven_from or one.offset in last.values()]
    return [
        one._replace(
            missing_before=min(one.offset, proven_from)
            - sum(other.offset < min(one.offset, proven_from) for other in kept)
        )
        for one in kept
    ]


def test_intervals_are_proven_up_to_a_gap_and_not_beyond() -> None:
    group_id, records = next(one for one in group_records("group-lifecycles") if one[0] == "shop-newstatic")
    life = GroupReplay("test", group_id)
    half = next(at for at, record in enumerate(records) if record.offset == 50)
    rows = [row for record in records[:half] for row in life.feed(record)]
    gap_ms = records[half - 1].timestamp_ms + 5
    rows += life.lose_track(records[0].partition, 50, gap_ms)
    rows += [row for record in records[half + 5 :] for row in life.feed(record)]
    for name, end in (("member_timeline", "valid_to"), ("partition_ownership", "owned_to")):
        behind = [row for row in table([*rows, *life.finish()], name) if row[end] is None or row[end] > gap_ms]
        assert behind
        assert not any(row["is_exact"] for row in behind)


@pytest.mark.parametrize(("last", "is_exact"), [((0, 1, 2), True), ((0, 1), False)])
def test_a_rebalance_before_a_gap_is_as_exact_as_it_is_once_all_it_revoked_has_an_owner(last, is_exact) -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0, 1, 2]))
    log.sync(2_000, member("a", last))
    life = GroupReplay("test", GROUP)
    rows = [row for record in log.records for row in life.feed(record)]
    rows += life.lose_track(0, 3, 2_000)
    found = table([*rows, *life.finish()], "rebalances")
    assert [(row["epoch"], row["is_exact"]) for row in found] == [(1, True), (2, is_exact)]


@pytest.mark.parametrize(
    ("stable_ms", "again"),
    [
        pytest.param(1_002, [], id="since its own record"),
        pytest.param(1_150, [], id="since just behind the beginning of the gap"),
        pytest.param(7_000, [(1, False, 1)], id="since within the gap: created again"),
    ],
)
def test_a_generation_written_again_behind_a_gap_is_no_second_rebalance(stable_ms: int, again: list[Any]) -> None:
    log = ClassicLog()
    log.sync(1_000, member("a-1", [0], instance="a"))
    log.replace(8_000, stable_ms, member("a-2", [0], instance="a"), missing=1)
    log.sync(9_000, member("a-2", [0], instance="a"), member("b", [1]))
    life = GroupReplay("test", GROUP)
    rows = [row for record in log.records[:2] for row in life.feed(record)]
    rows += life.interrupt(0, 2, 1_100, [])
    life = GroupReplay.restore(json.loads(json.dumps(life.snapshot())))
    rows += [row for record in log.records[2:] for row in life.feed(record)]
    found = table([*rows, *life.finish()], "rebalances")
    shown = [(row["epoch"], row["is_exact"], len(row["members_joined"])) for row in found]
    assert shown == [(1, True, 1), *again, (2, False, 1)]


@pytest.mark.parametrize("sample", WHOLE_LOGS)
def test_a_group_is_not_proven_from_a_record_that_cannot_be_read_to_the_next_one_of_its_key(sample: str) -> None:
    for group_id, records in group_records(sample):
        at = next((at for at, one in enumerate(records) if at > len(records) // 2 and one.value is not None), None)
        if at is None:
            continue
        lost = records[at]
        following = (one for one in records[at + 1 :] if (one.kind, one.key) == (lost.kind, lost.key))
        until = next(following, records[-1]._replace(offset=records[-1].offset + 1, timestamp_ms=None))
        life = GroupReplay("test", group_id)
        rows = [row for one in records[:at] for row in life.feed(one)]
        rows += life.feed(lost._replace(value=None, is_readable=False))
        restored = GroupReplay.restore(json.loads(json.dumps(life.snapshot())))
        rows += [row for one in records[at + 1 :] for row in restored.feed(one)]
        timeline = table([*rows, *restored.finish()], "group_timeline")
        within = [row for row in timeline if lost.offset <= row["log_offset"] < until.offset]
        # An operation is over with the last of its records, the one that its key goes on with may be among them.
        open_ = [row["is_state_exact"] for row in within if row["log_timestamp"] != until.timestamp_ms]
        assert within
        assert not any(open_), (group_id, lost.offset)
        assert any(row["is_state_exact"] for row in timeline if row["log_offset"] < lost.offset)


INTERVALS = {
    "member_timeline": (
        ("valid_from", "valid_to"),
        ("member_id", "member_epoch", "member_state", "assigned", "pending_revocation", "target"),
    ),
    "partition_ownership": (("owned_from", "owned_to"), ("topic_id", "topic", "partition", "member_id")),
}


STEPS = {
    "group_timeline": (
        ("event", "log_offset", "member_id"),
        ("group_type", "to_state", "epoch", "assignment_epoch", "member_count"),
    ),
    "rebalances": (
        ("rebalance_id",),
        ("epoch", "completed_at", "cause", "confidence", "members_before", "members_after"),
    ),
}


def claims(rows: Iterable[Row], lost_ms: float | None = None) -> set[tuple[Any, ...]]:
    """What exact rows say: steps, rebalances, when intervals begin and end, and for how long nobody owned a partition.

    Args:
        rows: of all tables.
        lost_ms: a time at which records are missing: of intervals that end then nothing is claimed.
    """
    found: set[tuple[Any, ...]] = set()
    for name, row in rows:
        if name in STEPS and row["is_exact"] and row.get("is_state_exact", True):
            found.add((name, *(row[column] for columns in STEPS[name] for column in columns)))
        if name not in INTERVALS:
            continue
        (begin, end), columns = INTERVALS[name]
        about = name, *(str(row[column]) for column in columns)
        if row["is_exact"] and not row["is_begin_open"]:
            found.add((begin, row[begin], about))
        if row["is_exact"] and row[end] is not None and row[end] != lost_ms:
            found.add((end, row[end], row.get("released_by"), about))
        if row.get("unowned_ms") is not None:
            found.add(("unowned_ms", row[end], row["unowned_ms"], about))
    return found


def unreadable(group_id: str, records: list[Record], at: int) -> tuple[list[Row], float | None] | None:
    """A group of which the value of one record can't be read."""
    lost = records[at]
    if lost.value is None:
        return None
    damaged = [*records[:at], lost._replace(value=None, is_readable=False), *records[at + 1 :]]
    return rows_of(group_id, damaged), lost.timestamp_ms


def with_gap(group_id: str, records: list[Record], at: int) -> tuple[list[Row], float | None] | None:
    """A group of which some records are in no dump."""
    rest = records[at + (1, 5, 12)[at % 3] :]
    if not at or not rest:
        return None
    life, before = GroupReplay("test", group_id), records[at - 1]
    rows = [row for record in records[:at] for row in life.feed(record)]
    rows += life.lose_track(before.partition, records[at].offset, before.timestamp_ms)
    missing = rest[0].offset - records[at].offset
    rows += [row for one in rest for row in life.feed(one._replace(missing_before=one.missing_before + missing))]
    return [*rows, *life.finish()], before.timestamp_ms


def cleaned(group_id: str, records: list[Record], at: int) -> tuple[list[Row], float | None] | None:
    """A group as the first dump has it that was made after the cleaner had been at work below a record."""
    if not at or records[at - 1].timestamp_ms == records[at].timestamp_ms:
        return None
    life = GroupReplay("test", group_id)
    life.replay.proven_from, life.replay.is_cleaned = records[at].offset, True
    rows = [row for record in compacted(records, records[at].offset) for row in life.feed(record)]
    return [*rows, *life.finish()], None


def cleaned_between(group_id: str, records: list[Record], at: int) -> tuple[list[Row], float | None] | None:
    """A group of which an earlier dump has the first half of what the cleaner was at work in before the next one."""
    if not at or records[at - 1].timestamp_ms == records[at].timestamp_ms:
        return None
    kept = compacted(records, records[at].offset)
    lacking = {one.offset for one in records[at // 2 : at]} - {one.offset for one in kept}
    if not lacking:
        return None
    hole = min(lacking)
    before = [one for one in records if one.offset < hole]
    life = GroupReplay("test", group_id)
    rows = [row for record in before for row in life.feed(record)]
    own = [one for one in kept if one.offset < hole]
    rows += life.interrupt(records[0].partition, hole, before[-1].timestamp_ms, own)
    life.replay.proven_from, life.replay.is_cleaned = records[at].offset, True
    rows += [row for record in kept if record.offset >= hole for row in life.feed(record)]
    return [*rows, *life.finish()], before[-1].timestamp_ms


@pytest.mark.parametrize("sample", rest_at_night(WHOLE_LOGS, ["group-lifecycles", "kafka-3.9"]))
@pytest.mark.parametrize("incomplete", [unreadable, with_gap, cleaned, cleaned_between])
@pytest.mark.parametrize("step", rest_at_night([1, 3], [3]))
def test_what_is_exact_where_records_are_missing_is_that_of_the_whole_log(step, incomplete, sample: str) -> None:
    for group_id, records in group_records(sample):
        whole, compared = claims(rows_of(group_id, records)), 0
        for at in range(0, len(records), step):
            made = incomplete(group_id, records, at)
            if made is not None:
                told = claims(*made)
                assert not told - whole, (group_id, records[at].offset, told - whole)
                compared += len(told)
        assert compared or len(records) < 10 * step, group_id


def test_a_group_that_has_had_one_operation_is_proven_from_where_nothing_is_missing() -> None:
    [records] = [records for group_id, records in group_records("expiration") if group_id == "shop-stale-new"]
    life = GroupReplay("test", "shop-stale-new")
    life.replay.proven_from, life.replay.is_cleaned = 8, True
    first = [one for one in records if one.timestamp_ms == records[0].timestamp_ms]
    assert not table([row for record in first for row in life.feed(record)], "group_timeline"), "it is still open"
    rows = table(life.find_complete(first[0].partition, 8, first[0].timestamp_ms), "group_timeline")
    assert [row["is_state_exact"] for row in rows] == [False] * (len(rows) - 1) + [True]
    assert (rows[-1]["event"], rows[-1]["to_state"], rows[-1]["log_offset"]) == ("RECORDS_COMPLETE", "Stable", 8)


@pytest.mark.parametrize("later_ms", [-3_600_000, 9_000, 10_004])
def test_clocks_that_turn_back_give_no_longest_duration(later_ms: int):
    log = ClassicLog()
    log.sync(10_000, member("a"))
    log.sync(later_ms, member("a"), member("b"))
    log.sync(20_000, member("a"))
    rows = {row["epoch"]: row for name, row in rows_of(GROUP, log.records) if name == "rebalances"}
    assert rows[2]["duration_ms_max"] is None
    assert rows[3]["duration_ms_max"] == 20_000 - max(later_ms, 10_000)


@pytest.mark.parametrize(("attempts", "said"), [(2, "1 generation before"), (4, "3 generations before")])
def test_generations_without_a_record_are_said_of_the_log_and_not_of_the_coordinator(attempts: int, said: str):
    log = ClassicLog()
    log.sync(10_000, member("a"), member("b"))
    log.sync(20_000, member("a"), attempts=attempts)
    rows = {row["epoch"]: row for name, row in rows_of(GROUP, log.records) if name == "rebalances"}
    assert f"the log has no record of {said} this one" in rows[1 + attempts]["evidence"]


def test_members_of_a_classic_group_have_its_assignor_and_nothing_to_give_up() -> None:
    for sample in ("java-clients", "kafka-3.9"):
        for group_id, records in group_records(sample):
            chosen = {one.offset: one.value["protocol"] for one in records if one.kind == "GroupMetadata" and one.value}
            for row in table(rows_of(group_id, records), "member_timeline"):
                assert row["is_current"] == (row["to_offset"] is None)
                if row["group_type"] == "classic":
                    # A conversion from a consumer group begins with the tombstones of that group.
                    assert row["assignor"] == chosen.get(row["from_offset"], row["assignor"]) is not None
                    assert row["pending_revocation"] is None
                else:
                    assert row["pending_revocation"] is not None or not row["is_exact"]


def test_a_member_whose_assignment_may_be_missing_holds_what_is_not_on_record() -> None:
    writer = Coordinator()
    member_id = writer.join(None, at_once=True)
    own = [one for one in writer.log.records if one.kind == "ConsumerGroupMemberMetadata"]
    (complete,) = table(rows_of(GROUP, own[:1]), "member_timeline")
    assert (complete["member_id"], complete["assigned"], complete["pending_revocation"]) == (member_id, [], [])
    (cleaned,) = table(rows_of(GROUP, [own[0]._replace(missing_before=5)]), "member_timeline")
    assert (cleaned["is_exact"], cleaned["assigned"], cleaned["pending_revocation"]) == (False, None, None)
