"""Rules over the life of one group: for each a life that raises it, and a near miss that does not."""

import base64
import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from coordinator_replay.analysis.findings.thresholds import DAY_MS, DEFAULTS, MINUTE_MS, Thresholds
from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.completeness.spans import ExactSpan
from coordinator_replay.int64 import LARGEST_INT64
from tests.analysis.findings.evaluated import life_findings, rules
from tests.engine.coordinator import TOPIC, Coordinator
from tests.engine.lives import GROUP, Writer

SUBSCRIPTION = "AAAAAAABAAF4AAAAAA=="


def life_rows(records: Iterable[Any]) -> list[dict[str, Any]]:
    """The rows of ``partition_ownership`` of a group's records."""
    life = GroupReplay("test", GROUP)
    rows = [row for record in records for row in life.feed(record)]
    return [row for name, row in [*rows, *life.finish()] if name == "partition_ownership"]


def stable(members: int = 1) -> Coordinator:
    coordinator = Coordinator()
    for _ in range(members):
        coordinator.join(None, at_once=True)
    for _ in range(4):
        for member_id in list(coordinator.seats):
            coordinator.heartbeat(member_id)
            coordinator.acknowledge(member_id)
    assert coordinator.state == "Stable"
    return coordinator


def assigned(partitions: Iterable[int]) -> str:
    """The assignment of a classic member: partitions of topic x."""
    numbers = list(partitions)
    if not numbers:
        return base64.b64encode(struct.pack(">hii", 0, 0, -1)).decode()
    blob = struct.pack(f">hih1si{len(numbers)}ii", 0, 1, 1, b"x", len(numbers), *numbers, -1)
    return base64.b64encode(blob).decode()


def classic(writer: Writer, generation: int, members: Mapping[str, int | Iterable[int]], **fields: Any) -> None:
    """A generation of a classic group: partitions of topic x, or how many of them from 0 on, that each member has."""
    told = [
        {
            "memberId": member_id,
            "groupInstanceId": fields.get("instances", {}).get(member_id),
            "clientId": "client",
            "clientHost": fields.get("host", "/10.0.0.1"),
            "rebalanceTimeout": 300_000,
            "sessionTimeout": 45_000,
            "subscription": SUBSCRIPTION,
            "assignment": assigned(range(owned) if isinstance(owned, int) else owned),
        }
        for member_id, owned in members.items()
    ]
    leader = next(iter(members), None)
    value = {"protocolType": "consumer", "protocol": "range", "leader": leader, "members": told}
    writer.write("GroupMetadata", {**value, "generation": generation, "currentStateTimestamp": writer.now})


# --- invariant_broken -------------------------------------------------------------------------------------------------


def test_two_owners_of_one_partition_break_an_invariant():
    writer = Writer()
    classic(writer, 1, {"a": 2, "b": 1})
    (found,) = [one for one in life_findings(writer.records, end_ms=0) if one["rule"] == "invariant_broken"]
    assert (found["severity"], found["topic"], found["partition"]) == ("error", "x", 0)
    assert "one_owner_per_partition" in found["message"]


def test_owners_of_different_partitions_break_none():
    writer = Writer()
    classic(writer, 1, {"a": 1, "b": 0})
    assert "invariant_broken" not in rules(life_findings(writer.records, end_ms=0))


def test_an_invariant_broken_again_is_one_finding_that_counts():
    writer = Writer()
    for generation in (1, 2, 3):
        writer.now = generation * 1000
        classic(writer, generation, {"a": 2, "b": 1})
    (found,) = [one for one in life_findings(writer.records, end_ms=9000) if one["rule"] == "invariant_broken"]
    assert found["occurrences"] == 3
    assert (found["first_seen"], found["last_seen"]) == (1000, 3000)


def test_an_invariant_broken_of_one_partition_and_then_of_another_names_neither():
    writer = Writer()
    for generation, owned in ((1, (0,)), (2, (1,))):
        writer.now = generation * 1000
        classic(writer, generation, {"a": owned, "b": owned})
    (found,) = [one for one in life_findings(writer.records, end_ms=9000) if one["rule"] == "invariant_broken"]
    assert (found["topic"], found["partition"], found["occurrences"]) == ("x", None, 2)
    assert "x-1, at 1970-01-01T00:00:02.000Z" in found["message"]


# --- stuck_group ------------------------------------------------------------------------------------------------------


def waiting() -> Coordinator:
    """A group whose second member waits for partitions that the first does not give up."""
    coordinator = stable()
    coordinator.log.now = 1000
    coordinator.join(None, at_once=True)
    coordinator.heartbeat("member-1")
    return coordinator


def test_a_group_that_does_not_become_stable_is_stuck_once_it_has_lasted():
    records = waiting().log.records
    (found,) = [one for one in life_findings(records, end_ms=1000 + DEFAULTS.stuck_ms) if one["rule"] == "stuck_group"]
    assert found["first_seen"] == 1000
    assert found["last_seen"] == 1000 + DEFAULTS.stuck_ms
    assert "Reconciling at epoch 3" in found["message"]
    assert "member-1" in found["detail"]
    assert "stuck_group" not in rules(life_findings(records, end_ms=999 + DEFAULTS.stuck_ms))


def test_a_group_that_was_stuck_is_told_with_its_end_and_one_that_was_quick_is_not():
    for lasted, is_told in ((DEFAULTS.stuck_ms, True), (DEFAULTS.stuck_ms - 1, False)):
        coordinator = waiting()
        coordinator.log.now = 1000 + lasted
        coordinator.acknowledge("member-1")
        coordinator.heartbeat("member-2")
        assert coordinator.state == "Stable"
        found = [one for one in life_findings(coordinator.log.records, end_ms=DAY_MS) if one["rule"] == "stuck_group"]
        assert [one["last_seen"] for one in found] == ([1000 + lasted] if is_told else [])


def test_a_stuck_group_has_the_same_id_in_the_next_run():
    coordinator = waiting()
    first = life_findings(coordinator.log.records, end_ms=DAY_MS)
    coordinator.log.now = DAY_MS
    coordinator.acknowledge("member-1")
    coordinator.heartbeat("member-2")
    second = life_findings(coordinator.log.records, end_ms=2 * DAY_MS)
    assert {one["finding_id"] for one in first} == {one["finding_id"] for one in second} != set()


def test_a_group_is_stuck_up_to_where_records_begin_to_be_missing_and_not_beyond():
    records = waiting().log.records
    gap_ms = 1000 + DEFAULTS.stuck_ms
    found = life_findings(records, end_ms=DAY_MS, gap_ms=gap_ms)
    stuck = [one for one in found if one["rule"] in ("stuck_group", "unrevoked_partitions")]
    assert {(one["first_seen"], one["last_seen"]) for one in stuck} == {(1000, gap_ms)}
    assert "stuck_group" not in rules(life_findings(records, end_ms=DAY_MS, gap_ms=gap_ms - 1))


# --- unrevoked_partitions ---------------------------------------------------------------------------------------------


def test_a_member_that_holds_on_for_its_rebalance_timeout_is_told_and_one_that_gives_up_before_is_not():
    for lasted, is_told in ((300_000, True), (299_999, False)):
        coordinator = waiting()
        coordinator.log.now = 1000 + lasted
        coordinator.leave("member-1")
        found = [
            one
            for one in life_findings(coordinator.log.records, end_ms=DAY_MS, names={TOPIC: "move"})
            if one["rule"] == "unrevoked_partitions"
        ]
        assert len(found) == is_told
        for one in found:
            assert one["member_id"] == "member-1"
            assert "3 partitions" in one["message"]
            assert "move-1" in one["detail"]


def test_a_member_that_revokes_other_partitions_at_its_next_step_holds_on_to_them_since_then():
    coordinator = waiting()
    seat = coordinator.seats["member-1"]
    for step in range(1, 8):
        coordinator.log.now = 1000 + step * MINUTE_MS
        seat.epoch, seat.pending, seat.assigned = seat.epoch + 1, {step % 3}, {5}
        coordinator._write_current("member-1")
    coordinator.log.now += 299_999
    coordinator.leave("member-1")
    records = coordinator.log.records
    assert "unrevoked_partitions" not in rules(life_findings(records, end_ms=DAY_MS))
    kept = [one for one in life_rows(records) if one["member_id"] == "member-1" and one["partition"] == 1]
    assert kept[-1]["released_by"] == "MEMBER_LEFT"
    late = [
        one._replace(timestamp_ms=(one.timestamp_ms or 0) + (place >= len(records) - 4))
        for place, one in enumerate(records)
    ]
    (found,) = [one for one in life_findings(late, end_ms=DAY_MS) if one["rule"] == "unrevoked_partitions"]
    assert (found["first_seen"], json.loads(found["detail"])["partition_count"]) == (1000 + 7 * MINUTE_MS, 1)


# --- rebalance_storm --------------------------------------------------------------------------------------------------


def bouncing(times: int, every_ms: int) -> list[Any]:
    """A group of two whose second member leaves and comes back."""
    writer = Writer()
    for index in range(times):
        writer.now = index * every_ms
        classic(writer, index + 1, {"a": 1, "b": 0} if index % 2 else {"a": 1})
    return writer.records


def test_a_member_that_comes_and_goes_makes_a_storm():
    (found,) = [one for one in life_findings(bouncing(30, 10_000), end_ms=DAY_MS) if one["rule"] == "rebalance_storm"]
    assert found["occurrences"] == 30
    assert found["message"].startswith("30 rebalances in 290 s, most often by client")
    assert "most often by client on 10.0.0.1 (joined, removed or changed 30 times)" in found["message"]
    assert "client on 10.0.0.1" in found["detail"]


@pytest.mark.parametrize(("missing_after_ms", "is_at_least"), [(0, True), (9 * MINUTE_MS, True), (DAY_MS, False)])
def test_a_storm_may_have_gone_on_in_records_that_are_missing_after_it(missing_after_ms: int, is_at_least: bool):
    records = bouncing(30, 10_000)
    to_ms = 290_000 + missing_after_ms
    spans = [ExactSpan(0, -1, to_ms), ExactSpan(0, to_ms + 10, LARGEST_INT64)]
    found = life_findings(records, end_ms=2 * DAY_MS, spans=spans)
    (storm,) = [one for one in found if one["rule"] == "rebalance_storm"]
    assert storm["is_at_least"] is is_at_least


def test_the_same_rebalances_over_hours_are_no_storm():
    assert "rebalance_storm" not in rules(life_findings(bouncing(30, 5 * MINUTE_MS), end_ms=DAY_MS))


def test_a_group_that_grows_and_shrinks_has_no_storm():
    coordinator = Coordinator()
    for _ in range(30):
        coordinator.log.tick()
        coordinator.join(None, at_once=True)
    assert "rebalance_storm" not in rules(life_findings(coordinator.log.records, end_ms=0))
    coordinator.log.now += DAY_MS
    for member_id in list(coordinator.seats):
        coordinator.log.tick()
        coordinator.leave(member_id)
    assert "rebalance_storm" not in rules(life_findings(coordinator.log.records, end_ms=0))


def sized(*sizes: int) -> list[Any]:
    """A group that has these numbers of members, one generation after the other."""
    writer = Writer()
    for index, size in enumerate(sizes):
        writer.now = index * 10_000
        classic(writer, index + 1, {f"m{number}": 1 for number in range(size)})
    return writer.records


def test_many_members_that_join_at_once_explain_no_later_rebalances():
    (storm,) = [
        one for one in life_findings(sized(50, *[49, 50] * 15), end_ms=DAY_MS) if one["rule"] == "rebalance_storm"
    ]
    assert storm["occurrences"] == 30


def test_a_group_that_shrinks_from_a_size_that_is_not_on_record_has_no_storm():
    records = [record._replace(offset=record.offset + 9, missing_before=9) for record in sized(*range(49, 0, -1))]
    assert "rebalance_storm" not in rules(life_findings(records, end_ms=DAY_MS))


# --- static_member_flapping -------------------------------------------------------------------------------------------


def returning(times: int, every_ms: int) -> list[Any]:
    writer = Writer()
    for index in range(times):
        writer.now = index * every_ms
        member_id = f"one-{index}"
        classic(writer, 1, {member_id: 1}, instances={member_id: "one"}, host=f"/10.0.0.{index % 2}")
    return writer.records


def test_a_static_member_that_joins_again_and_again_flaps():
    (found,) = [
        one for one in life_findings(returning(8, 1000), end_ms=DAY_MS) if one["rule"] == "static_member_flapping"
    ]
    # A classic group goes on telling the host of the first one, whatever is in these records.
    assert "from hosts not on record" in found["message"]
    assert found["first_seen"] == 1000
    assert found["last_seen"] == 7000


def test_a_static_member_of_a_consumer_group_is_told_with_its_hosts():
    coordinator = Coordinator()
    member_id = coordinator.join("one", at_once=True)
    for index in range(1, 9):
        coordinator.log.now = index * 1000
        coordinator.go_away(member_id)
        coordinator.log.now += 1
        member_id = coordinator.come_back(member_id)
    records = [
        one._replace(value={**one.value, "clientHost": f"/10.0.0.{place % 2}"})
        if one.kind == "ConsumerGroupMemberMetadata" and one.value is not None
        else one
        for place, one in enumerate(coordinator.log.records)
    ]
    found = [one for one in life_findings(records, end_ms=DAY_MS) if one["rule"] == "static_member_flapping"]
    assert len(found) == 1 and "from /10.0.0." in found[0]["message"]


@pytest.mark.parametrize(("times", "every_ms"), [(5, 1000), (20, 20 * MINUTE_MS)])
def test_a_static_member_that_comes_back_now_and_then_does_not_flap(times: int, every_ms: int):
    assert "static_member_flapping" not in rules(life_findings(returning(times, every_ms), end_ms=DAY_MS))


# --- partition_unowned ------------------------------------------------------------------------------------------------


def test_a_partition_that_a_stable_group_no_longer_owns_is_told_while_it_owns_others():
    writer = Writer()
    classic(writer, 1, {"a": 2})
    writer.now = 1000
    classic(writer, 2, {"a": 1})
    after = 1000 + DEFAULTS.unowned_ms
    (found,) = [one for one in life_findings(writer.records, end_ms=after) if one["rule"] == "partition_unowned"]
    assert (found["severity"], found["topic"], found["partition"]) == ("error", "x", 1)
    assert "partition_unowned" not in rules(life_findings(writer.records, end_ms=after - 1))


def in_turn(minutes: int, assignments: list[dict[str, Iterable[int]]]) -> list[Any]:
    """A classic group that gets one assignment after the other, a minute each."""
    writer = Writer()
    for minute in range(minutes):
        writer.now = minute * MINUTE_MS
        classic(writer, minute + 1, assignments[minute % len(assignments)])
    return writer.records


def test_partitions_without_an_owner_in_turn_are_no_long_gap():
    rounds: list[dict[str, Iterable[int]]] = [
        {"a": (0, 1), "b": (3,)},
        {"a": (0,), "b": (2, 3)},
        {"a": (0, 2), "b": (1,)},
    ]
    found = life_findings(in_turn(60, rounds), end_ms=60 * MINUTE_MS)
    assert "partition_unowned" not in rules(found)


def test_a_gap_is_told_with_the_partition_that_has_it_and_since_when():
    writer = Writer()
    classic(writer, 1, {"a": (0, 1, 2, 3)})
    for generation, owned in ((2, (0, 2, 3)), (3, (0, 1, 3)), (4, (0, 1))):
        writer.now = generation * MINUTE_MS
        classic(writer, generation, {"a": owned})
    found = life_findings(writer.records, end_ms=3 * MINUTE_MS + DEFAULTS.unowned_ms)
    (gap,) = [one for one in found if one["rule"] == "partition_unowned"]
    assert (gap["partition"], gap["first_seen"]) == (2, 3 * MINUTE_MS)
    later = life_findings(writer.records, end_ms=4 * MINUTE_MS + DEFAULTS.unowned_ms)
    gaps = [one for one in later if one["rule"] == "partition_unowned"]
    assert {(one["partition"], one["first_seen"]) for one in gaps} == {(2, 3 * MINUTE_MS), (3, 4 * MINUTE_MS)}
    assert gap["finding_id"] in {one["finding_id"] for one in gaps}


def test_partitions_that_lost_their_owner_at_once_are_one_finding_up_to_the_last_one():
    writer = Writer()
    for generation, owned in ((1, (0, 1, 2)), (2, (0,)), (3, (0, 1))):
        writer.now = generation * MINUTE_MS
        classic(writer, generation, {"a": owned})
    (gap,) = [one for one in life_findings(writer.records, end_ms=DAY_MS) if one["rule"] == "partition_unowned"]
    assert (gap["partition"], gap["first_seen"], gap["ended_at"]) == (2, 2 * MINUTE_MS, None)
    assert "has owned x-2 since" in gap["message"]


def test_a_topic_that_the_group_left_is_not_unowned():
    writer = Writer()
    classic(writer, 1, {"a": 2})
    writer.now = 1000
    classic(writer, 2, {"a": 0})
    assert "partition_unowned" not in rules(life_findings(writer.records, end_ms=DAY_MS))


# --- unbalanced_assignment --------------------------------------------------------------------------------------------


def test_a_member_without_partitions_beside_one_with_several_is_unbalanced_while_it_lasts():
    writer = Writer()
    classic(writer, 1, {"a": 2, "b": 0})
    found = life_findings(writer.records, end_ms=DEFAULTS.unbalanced_ms)
    assert rules(found) == ["unbalanced_assignment"]
    assert found[0]["member_id"] == "a"
    assert life_findings(writer.records, end_ms=DEFAULTS.unbalanced_ms - 1) == []


def test_members_that_are_the_unlucky_one_in_turn_are_not_unbalanced():
    rounds: list[dict[str, Iterable[int]]] = [{"a": 4, "b": 0}, {"a": 0, "b": 4}]
    assert "unbalanced_assignment" not in rules(life_findings(in_turn(60, rounds), end_ms=60 * MINUTE_MS))


def test_an_imbalance_goes_on_between_two_members_while_others_come_and_numbers_change():
    rounds: list[dict[str, Iterable[int]]] = [{"a": 8, "b": 0}, {"a": 7, "b": 0, "c": (7,)}, {"a": 6, "b": 0, "0": ()}]
    found = life_findings(in_turn(60, rounds), end_ms=60 * MINUTE_MS)
    (gap,) = [one for one in found if one["rule"] == "unbalanced_assignment"]
    assert (gap["first_seen"], gap["member_id"]) == (0, "a")
    assert "of 3 members with the same subscription a has owned too many partitions and b too few" in gap["message"]
    assert "6 and 0 of 6 at the last change" in gap["message"]


def test_a_member_without_partitions_beside_one_with_one_is_not_unbalanced():
    writer = Writer()
    classic(writer, 1, {"a": 1, "b": 0})
    assert life_findings(writer.records, end_ms=DAY_MS) == []


# --- mixed_protocols --------------------------------------------------------------------------------------------------


def migrating() -> Coordinator:
    coordinator = stable()
    original = coordinator._write_member

    def write_classic(member_id: str) -> None:
        original(member_id)
        value = dict(coordinator.log.records.pop().value or {})
        value["classicMemberMetadata"] = {"sessionTimeoutMs": 45000, "supportedProtocols": []}
        coordinator.log.write("ConsumerGroupMemberMetadata", value, memberId=member_id)

    coordinator.log.now = 1000
    coordinator._write_member = write_classic  # type: ignore[method-assign]
    coordinator.join(None, at_once=True)
    coordinator._write_member = original  # type: ignore[method-assign]
    for _ in range(3):
        for member_id in list(coordinator.seats):
            coordinator.heartbeat(member_id)
            coordinator.acknowledge(member_id)
    return coordinator


def test_members_of_both_protocols_for_a_day_are_a_migration_that_stopped():
    coordinator = migrating()
    after = 1000 + DEFAULTS.mixed_protocols_ms
    (found,) = life_findings(coordinator.log.records, end_ms=after)
    assert found["rule"] == "mixed_protocols"
    assert "1 of 2 used the classic protocol at the last change" in found["message"]
    assert "member-2" in found["detail"]
    assert life_findings(coordinator.log.records, end_ms=after - 1) == []


def test_a_migration_that_ends_is_not_told():
    coordinator = migrating()
    coordinator.log.now = 2000
    coordinator.leave("member-2")
    for _ in range(2):
        coordinator.heartbeat("member-1")
        coordinator.acknowledge("member-1")
    assert "mixed_protocols" not in rules(life_findings(coordinator.log.records, end_ms=DAY_MS * 9))


# --- group_near_member_limit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("members", "is_told"), [(9, True), (8, False)])
def test_a_group_near_the_brokers_limit_is_told_where_the_limit_is_given(members: int, is_told: bool):
    limits = Thresholds(group_max_size=10)
    found = life_findings(stable(members).log.records, end_ms=0, limits=limits)
    assert ("group_near_member_limit" in rules(found)) == is_told
    assert life_findings(stable(members).log.records, end_ms=0) == []
