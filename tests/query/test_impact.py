"""What a time range cost, over warehouses written for the question."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from coordinator_replay.errors import UsageError
from coordinator_replay.query.impact import Impact, impact_of, unseen_downtime_note
from coordinator_replay.query.tables import Tables
from tests.nightly import rest_at_night
from tests.query.small_warehouse import at, event, member, owned, rebalances, write_rows, write_small_warehouse


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
        owned(1, "b-1", "02:03", "02:13:30", group_id="b", released_by="GROUP_EMPTIED", is_exact=False, unowned=None),
        owned(0, "d-1", "02:03", "02:07", group_id="d", released_by="GROUP_EMPTIED", unowned=[]),
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
    assert re.match(r"\S+\.\d{3}Z to \S+\.\d{3}Z: ", found.sentences[0]), found.sentences[0]
    assert found.sentences[1:] == [
        "The first: a, begun by 2026-11-20T02:13:00.000Z.",
        "Without owner: at least 2 partitions, 60.0 partition-seconds; commits paused for up to 700 ms (a).",
    ]
    without = [replace(group, unowned_partitions=0, unowned_ms=0, commit_pause_ms=None) for group in found.groups]
    known = [replace(group, is_at_least=False) for group in without]
    assert replace(found, groups=tuple(without)).sentences[-1] == (
        "Without owner: no partition as far as records show."
    )
    assert replace(found, groups=tuple(known)).sentences[-1] == "Without owner: no partition."
    # A bound of 0 is no cost of 0.
    note = unseen_downtime_note(without) or ""
    assert note.startswith("For 1 group (b) the log does not show whether partitions had no owner")
    assert unseen_downtime_note(known) is None
    assert unseen_downtime_note(found.groups) is None


def test_a_table_shows_no_time_without_an_owner_of_0_that_is_only_a_bound(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "partition_ownership", [
        owned(0, "b-1", "02:13", "02:14", group_id="b", released_by="MEMBER_LEFT", unowned=None, unowned_ms=None),
        owned(0, "b-2", "02:14", group_id="b"),
    ])  # fmt: skip
    write_rows(folder, "member_timeline", [member("b", "b-2", "02:14", None, 1, subscribed_topics=["orders"])])
    write_rows(folder, "rebalances", [one(rebalances()[1], "b", "02:14") | {"group_type": "classic"}])
    asked = ["impact", "--from", "02:13:30", "--to", "02:15", "--warehouse", str(folder)]
    told = CliRunner().invoke(main, asked)
    assert told.exit_code == 0, told.output
    heading, row = (line.split() for line in told.stdout.splitlines() if line.startswith(("GROUP ", "b ")))
    assert row[heading.index("AT-LEAST") - 1] == "-", told.stdout
    assert "the cost is unknown, not 0" in told.stderr
    (group,) = json.loads(CliRunner().invoke(main, [*asked, "--json"]).stdout)["groups"]
    assert (group["group_id"], group["unowned_ms"], group["is_at_least"]) == ("b", 0, True)


def test_only_the_part_within_the_range_counts(crashed: Tables):
    found = impact_of(crashed, at("02:13:20"), at("02:13:31"))
    assert {one.group_id: one.unowned_ms for one in found.groups} == {"a": 10_000, "b": 1000}


def concerned_groups(folder: Path, hosts: dict[str, str], log_partitions: dict[str, int] | None = None) -> Tables:
    """Groups of one member each, by host, of which those with an upper-case name rebalance at 02:13:10."""
    folder = write_small_warehouse(folder, coordinator_changes=[])
    write_rows(folder, "member_timeline", [
        member(group, f"{group}-1", "02:03", None, place, client_host=host, client_id=group, subscribed_topics=[group],
               log_partition=(log_partitions or {}).get(group, place))
        for place, (group, host) in enumerate(hosts.items())
    ])  # fmt: skip
    write_rows(folder, "rebalances", [one(rebalances()[1], group, "02:13:10") for group in hosts if group.isupper()])
    return Tables(str(folder))


def traits(found: Impact) -> list[tuple[str, str, int, int, int, int]]:
    return [
        (one.trait, one.value, one.concerned, one.concerned_groups, one.others, one.other_groups)
        for one in found.traits
    ]


def test_what_is_commoner_among_the_groups_concerned_is_named_with_both_counts(tmp_path: Path):
    hosts = dict.fromkeys("ABCDEz", "/10.1.1.1") | {name: f"/10.2.2.{place}" for place, name in enumerate("Fghijkl")}
    found = impact_of(concerned_groups(tmp_path, hosts), at("02:13"), at("02:14"))
    # Drawn at random, six of the groups there are would take five of the six of that host in less than one of 20 cases.
    assert traits(found) == [("host", "/10.1.1.1", 5, 6, 1, found.group_count - 6)]


BY_CHANCE = [
    dict.fromkeys("ABz", "/10.1.1.1") | dict.fromkeys("Cyx", "/10.2.2.2"),
    dict.fromkeys("ABCDwxyz", "/10.1.1.1") | dict.fromkeys("EFstuv", "/10.2.2.2"),
    # Two of three share one of four hosts that two groups have: one such pair is to be expected.
    {"A": "h1", "B": "h1", "C": "h2", "z": "h2", "y": "h3", "x": "h3", "w": "h4", "v": "h4"},
]


@pytest.mark.parametrize("hosts", rest_at_night(BY_CHANCE, BY_CHANCE[2:]))
def test_what_chance_explains_is_not_named(tmp_path: Path, hosts: dict[str, str]):
    assert traits(impact_of(concerned_groups(tmp_path, hosts), at("02:13"), at("02:14"))) == []


def test_one_group_alone_has_nothing_in_common(crashed: Tables):
    assert impact_of(crashed, at("02:05"), at("02:06")).traits == ()


@pytest.mark.parametrize("order", rest_at_night([1, -1], [1]))
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


def led(folder: Path, *changes: tuple[int, int, str, bool, int | None]) -> None:
    """Leader epochs of log partitions: partition, epoch, time, whether that is the election's, and the broker."""
    write_rows(folder, "coordinator_changes", [
        {"cluster": "default", "log_partition": partition, "leader_epoch": epoch, "elected_at": at(clock),
         "is_exact": is_exact, "broker": broker}
        for partition, epoch, clock, is_exact, broker in changes
    ])  # fmt: skip


COORDINATED = {name: f"/10.1.1.{place}" for place, name in enumerate("ABCDwxyz")}
PLACED = dict.fromkeys("ABCD", 7) | dict.fromkeys("wxyz", 8)


def test_a_coordinator_that_changed_is_named(tmp_path: Path):
    concerned_groups(tmp_path, COORDINATED, PLACED)
    # Of the first one on record nothing but its records is there: it may be older.
    led(tmp_path, (7, 0, "02:01", False, None), (8, 0, "02:13", False, None), (7, 1, "02:13", True, 2))
    found = impact_of(Tables(str(tmp_path)), at("02:13"), at("02:14"))
    assert {(one.trait, one.value, one.concerned, one.others) for one in found.traits} == {
        ("log partition", "7", 4, 0), ("coordinator", "broker 2", 4, 0),
        ("coordinator change", "leader epoch 1 on broker 2", 4, 0),
    }  # fmt: skip


CHANGES: list[tuple[list[tuple[int, int, str, bool, int | None]], bool]] = [
    # Elected before the range, and again after it, by the controller's record: not within.
    ([(7, 0, "02:01", False, 2)], False),
    ([(7, 0, "02:01", True, 2), (7, 1, "02:16", True, 2)], False),
    # The first records of the next leader are later: it may have been elected in the range.
    ([(7, 0, "02:01", False, 2), (7, 1, "02:16", False, 2)], True),
    # Nothing is known of elections: an export has no leader epochs.
    ([], True),
]


@pytest.mark.parametrize(("changes", "is_named"), rest_at_night(CHANGES, CHANGES[1:3], several=True))
def test_a_coordinator_that_is_known_not_to_have_changed_is_not_named(
    tmp_path: Path, changes: list[tuple[int, int, str, bool, int | None]], is_named: bool
):
    concerned_groups(tmp_path, COORDINATED, PLACED)
    led(tmp_path, *changes)
    found = impact_of(Tables(str(tmp_path)), at("02:13"), at("02:14"))
    assert ({one.trait for one in found.traits} >= {"log partition"}) == is_named


def test_a_group_that_stopped_says_when_and_is_without_members_since_then(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "member_timeline", [
        member("shut", "s-1", "02:03", "02:13:20", 1), member("shut", "s-2", "02:03", "02:13:10", 2),
        member("back", "b-1", "02:03", "02:13:20", 3), member("back", "b-2", "02:13:50", None, 4),
    ])  # fmt: skip
    write_rows(folder, "group_timeline", [
        event("shut", 0, "02:03", "MEMBER_JOINED", ">Stable"), event("back", 0, "02:03", "MEMBER_JOINED", ">Stable"),
        event("shut", 1, "02:13:20", "GROUP_EMPTIED", "Stable>Empty"),
    ])  # fmt: skip
    write_rows(folder, "rebalances", [one(rebalances()[1], group, "02:13:10") for group in ("shut", "back")])
    found = impact_of(Tables(str(folder)), at("02:13"), at("02:14"))
    assert {one.group_id: one.stopped_at for one in found.groups} == {"shut": at("02:13:20"), "back": None}
    assert "1 group stopped: without a member at the end of that time." in found.sentences
    early = impact_of(Tables(str(folder)), at("02:13"), at("02:13:15"))
    assert {one.stopped_at for one in early.groups} == {None}


def test_nothing_happened(crashed: Tables):
    found = impact_of(crashed, at("02:08"), at("02:09"))
    assert (found.groups, found.traits) == ((), ())
    assert found.sentences[0].endswith(": 0 of 6 groups concerned.")


def test_a_partition_that_is_still_without_an_owner_counts_in_each_later_range(crashed: Tables):
    (group,) = impact_of(crashed, at("02:16"), at("02:17")).groups
    assert (group.group_id, group.rebalances, group.unowned_ms, group.is_at_least) == ("b", 0, 60_000, False)


def test_the_last_record_belongs_to_a_range_without_end_and_no_time_after_it_counts(crashed: Tables):
    until_now = impact_of(crashed, at("02:13:30"))
    beyond = impact_of(crashed, at("02:13:30"), at("02:50"))
    assert {one.group_id: one.unowned_ms for one in until_now.groups} == {"b": 390_000, "c": 0}
    assert beyond.groups == until_now.groups
    with pytest.raises(UsageError, match="not covered"):
        impact_of(crashed, at("03:30"))
