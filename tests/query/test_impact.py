"""What a time range cost, over warehouses written for the question."""

from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.errors import UsageError
from coordinator_replay.query.impact import impact_of
from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import at, member, owned, rebalances, write_rows, write_small_warehouse


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """A host with members of three groups fails at 02:13; two other groups are elsewhere."""
    folder = write_small_warehouse(tmp_path_factory.mktemp("crashed"))
    hosts = {"a": "/10.1.1.1", "b": "/10.1.1.1", "c": "/10.1.1.1", "d": "/10.2.2.2", "e": "/10.1.1.1"}
    write_rows(folder, "member_timeline", [
        member(group, f"{group}-1", "02:03", None, place, client_host=host, client_id=group, subscribed_topics=[group],
               log_partition=place)
        for place, (group, host) in enumerate(hosts.items())
    ])  # fmt: skip
    write_rows(folder, "partition_ownership", [
        owned(0, "a-1", "02:03", "02:13", group_id="a", unowned_ms=30_000, released_by="MEMBER_FENCED"),
        owned(0, "a-2", "02:13:30", group_id="a"),
        owned(0, "b-1", "02:03", "02:13:30", group_id="b", released_by="GROUP_EMPTIED"),
        owned(1, "b-1", "02:03", "02:13:30", group_id="b", released_by="GROUP_EMPTIED", is_exact=False),
        owned(0, "d-1", "02:03", "02:07", group_id="d", released_by="GROUP_EMPTIED"),
        owned(0, "e-1", "02:03", "02:04", group_id="e", unowned_ms=1000, released_by="REVOKED"),
        owned(0, "e-1", "02:04:01", group_id="e"),
    ])  # fmt: skip
    template = rebalances()[1]
    write_rows(
        folder, "rebalances", [one(template, "a", "02:13"), one(template, "c", "02:13:40"), one(template, "d", "02:05")]
    )
    return Tables(str(folder))


def one(template: dict[str, Any], group: str, start: str) -> dict[str, Any]:
    return {**template, "group_id": group, "rebalance_id": f"r-{group}", "started_at": at(start),
            "completed_at": at(start), "cause": "SESSION_TIMEOUT", "commit_pause_ms": 700}  # fmt: skip


def test_the_groups_that_lost_something_in_that_time_come_first(crashed: Tables):
    found = impact_of(crashed, at("02:13"), at("02:14"))
    assert [(one.group_id, one.rebalances, one.unowned_partitions, one.unowned_ms) for one in found.groups] == [
        ("a", 1, 1, 30_000),
        # Its partition 0 has no owner from 02:13:30 on; of partition 1 the log does not prove it.
        ("b", 0, 1, 30_000),
        ("c", 1, 0, 0),
    ]
    assert [one.is_at_least for one in found.groups] == [False, True, False]
    assert found.causes == {"SESSION_TIMEOUT": 2}
    assert found.sentences[1:] == [
        "The first: a, begun by 2026-11-20T02:13:00.000Z.",
        "Without owner: at least 2 partitions, 60.0 partition-seconds; commits paused for up to 700 ms (a).",
    ]


def test_only_the_part_within_the_range_counts(crashed: Tables):
    found = impact_of(crashed, at("02:13:20"), at("02:13:31"))
    assert {one.group_id: one.unowned_ms for one in found.groups} == {"a": 10_000, "b": 1000}


def test_what_is_commoner_among_the_groups_concerned_is_named_with_both_counts(crashed: Tables):
    found = impact_of(crashed, at("02:13"), at("02:14"))
    assert found.group_count == 6
    traits = [(one.trait, one.value, one.concerned, one.concerned_groups, one.others, one.other_groups)
              for one in found.traits]  # fmt: skip
    assert traits == [("host", "/10.1.1.1", 3, 3, 1, 3)]


def test_one_group_alone_has_nothing_in_common(crashed: Tables):
    assert impact_of(crashed, at("02:05"), at("02:06")).traits == ()


@pytest.mark.parametrize("order", [1, -1])
def test_a_converted_group_has_the_type_of_its_last_rebalance(tmp_path: Path, order: int):
    folder = write_small_warehouse(tmp_path)
    types = (("classic", 100), ("consumer", 200), ("classic", 300), ("consumer", None))
    write_rows(folder, "rebalances", [
        {**one(rebalances()[1], "converted", "02:13"), "rebalance_id": f"r-{place}", "group_type": group_type,
         "completed_offset": place}
        for group_type, place in types[::order]
    ])  # fmt: skip
    [group] = impact_of(Tables(str(folder)), at("02:13"), at("02:14")).groups
    assert (group.group_type, group.rebalances) == ("consumer", 4)


def test_a_coordinator_that_changed_is_named(tmp_path: Path):
    folder = write_small_warehouse(tmp_path, coordinator_changes=[])
    write_rows(folder, "member_timeline", [
        member(group, f"{group}-1", "02:03", None, 1, log_partition=place)
        for group, place in (("a", 7), ("b", 7), ("c", 8), ("d", 8))
    ])  # fmt: skip
    write_rows(folder, "rebalances", [one(rebalances()[1], group, "02:13:10") for group in "ab"])
    write_rows(folder, "coordinator_changes", [
        {"cluster": "default", "log_partition": partition, "leader_epoch": epoch, "elected_at": at(clock),
         "is_exact": is_exact, "broker": broker}
        for partition, epoch, clock, is_exact, broker in (
            # Of the first one on record nothing but its records is there: it may be older.
            (7, 0, "02:01", False, None), (8, 0, "02:13", False, None), (7, 1, "02:13", True, 2),
        )
    ])  # fmt: skip
    found = impact_of(Tables(str(folder)), at("02:13"), at("02:14"))
    assert {(one.trait, one.value, one.concerned, one.others) for one in found.traits} == {
        ("log partition", "7", 2, 0), ("coordinator", "broker 2", 2, 0),
        ("coordinator change", "leader epoch 1 on broker 2", 2, 0),
    }  # fmt: skip


def test_nothing_happened(crashed: Tables):
    found = impact_of(crashed, at("02:16"), at("02:17"))
    assert (found.groups, found.traits) == ((), ())
    assert found.sentences[0].endswith(": 0 of 6 groups concerned.")


def test_the_last_record_belongs_to_a_range_without_end_and_no_time_after_it_counts(crashed: Tables):
    until_now = impact_of(crashed, at("02:13:30"))
    beyond = impact_of(crashed, at("02:13:30"), at("02:50"))
    assert {one.group_id: one.unowned_ms for one in until_now.groups} == {"b": 390_000, "c": 0}
    assert beyond.groups == until_now.groups
    with pytest.raises(UsageError, match="not covered"):
        impact_of(crashed, at("03:30"))
