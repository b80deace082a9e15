"""Who read a topic, over warehouses written for the question."""

import json
from pathlib import Path

import pytest

from coordinator_replay.errors import UsageError
from coordinator_replay.query.consumers import TopicConsumer, consumers_of
from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import ORDERS, at, event, member, offset, orders, write_rows, write_small_warehouse


def readers(rows: list[TopicConsumer]) -> list[tuple[str, str, str | None, list[int]]]:
    return [(one.group_id, one.how, one.client_id, one.partitions) for one in rows]


def test_a_topic_is_asked_for_by_name_or_id(warehouse: Tables):
    by_name = [one for one in consumers_of(warehouse, "orders") if one.group_id == "payments"]
    assert [(one.client_id, one.instance_id, one.first_at, one.last_at) for one in by_name] == [
        ("client-m-1", None, at("02:00"), None),
        ("client-m-2", "two", at("02:10"), None),
    ]
    assert [one.partitions for one in by_name] == [[0, 1], [1]]
    assert consumers_of(warehouse, ORDERS) == consumers_of(warehouse, "orders")


def test_by_the_id_of_a_topic_its_own_commits_count_and_those_without_an_id(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [
        offset("orders", 0, 9, "02:03", group_id="before", topic_id="A" * 22),
        offset("orders", 0, 9, "02:04", group_id="now", topic_id=ORDERS),
        offset("orders", 0, 9, "02:04", group_id="either"),
    ])  # fmt: skip
    by_commits = {
        asked: {one.group_id for one in consumers_of(Tables(str(folder)), asked) if one.how == "commits"}
        for asked in ("orders", ORDERS)
    }
    assert by_commits["orders"] - by_commits[ORDERS] == {"before"}
    assert {"now", "either"} <= by_commits[ORDERS]


def test_a_time_range_has_those_who_were_there_with_what_they_had_in_it(warehouse: Tables):
    early = consumers_of(warehouse, "orders", at("02:05"), at("02:09"))
    late = consumers_of(warehouse, "orders", at("02:11"), None)
    assert readers(early) == [("payments", "subscribed", "client-m-1", [0, 1])]
    assert readers(late) == [
        ("payments", "subscribed", "client-m-1", [0]),
        ("payments", "subscribed", "client-m-2", [1]),
        ("txn-only", "commits", None, [0]),
    ]


def test_a_topic_that_no_record_names_is_an_error_with_a_proposal(warehouse: Tables):
    with pytest.raises(UsageError, match="names a topic 'ordres': did you mean 'orders'"):
        consumers_of(warehouse, "ordres")


def test_a_regular_expression_reads_what_the_group_has_resolved_it_to(tmp_path: Path):
    """Owned or not: until the expression was resolved to the topic, nobody with it reads the topic."""

    def resolved(clock: str, log_offset: int, *topics: str) -> dict[str, object]:
        return {
            "cluster": "default", "group_id": "any", "kind": "ConsumerGroupRegularExpression", "log_partition": 3,
            "key_json": json.dumps({"groupId": "any", "regularExpression": "or.*"}), "log_offset": log_offset,
            "value_json": json.dumps({"topics": topics}), "log_timestamp": at(clock),
        }  # fmt: skip

    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "group_records", [
        resolved("02:04", 1), resolved("02:06", 2, "orders"), resolved("02:08", 3, "other"),
    ])  # fmt: skip
    write_rows(folder, "member_timeline", [
        member("any", "a-1", "02:03", None, 7, subscribed_topics=None, subscribed_topic_regex="or.*"),
        member("any", "a-2", "02:03", "02:05", 8, subscribed_topics=None, subscribed_topic_regex="or.*"),
    ])  # fmt: skip
    found = [one for one in consumers_of(Tables(str(folder)), "orders") if one.group_id == "any"]
    assert [(one.how, one.client_id, one.first_at, one.last_at, one.partitions) for one in found] == [
        ("regex", "client-a-1", at("02:06"), at("02:08"), [])
    ]


def test_a_group_without_members_that_read_the_topic_is_known_by_its_commits(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [
        offset("orders", 3, 1, "02:04", "02:07", group_id="tool"),
        offset("orders", 3, 2, "02:07", group_id="tool", is_exact=False),
    ])  # fmt: skip
    tables = Tables(str(folder))
    (tool,) = (one for one in consumers_of(tables, "orders") if one.group_id == "tool")
    assert (tool.how, tool.first_at, tool.last_at, tool.partitions) == ("commits", at("02:04"), at("02:07"), [3])
    assert tool.is_exact is False
    early = [one for one in consumers_of(tables, "orders", end=at("02:05")) if one.group_id == "tool"]
    assert [(one.last_at, one.is_exact) for one in early] == [(at("02:04"), True)]


def test_a_client_is_not_exact_in_a_time_of_which_records_of_its_group_are_missing(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "group_timeline", [
        event("holed", 0, "02:02", "GROUP_CREATED", ">Stable", member_count=1),
        event("holed", 1, "02:05", "RECORDS_MISSING", "Stable>Unknown", is_exact=False, is_state_exact=False),
        event("holed", 2, "02:10", "RECORDS_COMPLETE", "Unknown>Stable", is_exact=False, member_count=1),
    ])  # fmt: skip
    write_rows(folder, "member_timeline", [
        member("holed", "h-1", "02:02", "02:05", 7), member("holed", "h-2", "02:12", None, 9),
    ])  # fmt: skip
    tables = Tables(str(folder))
    whole, late = consumers_of(tables, "orders"), consumers_of(tables, "orders", start=at("02:15"))
    assert {(one.client_id, one.is_exact) for one in whole if one.group_id == "holed"} == {
        ("client-h-1", False), ("client-h-2", False),
    }  # fmt: skip
    assert {(one.client_id, one.is_exact) for one in late if one.group_id == "holed"} == {("client-h-2", True)}


def test_client_and_host_of_an_earlier_process_are_not_named(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "member_timeline", [
        member("heirs", "h-1", "02:03", None, 7, instance_id="one", is_client_inherited=True, assigned=orders(2)),
    ])  # fmt: skip
    (heir,) = (one for one in consumers_of(Tables(str(folder)), "orders") if one.group_id == "heirs")
    assert (heir.client_id, heir.client_host, heir.instance_id) == (None, None, "one")


def stays(tmp_path: Path, *rows: tuple[object, ...]) -> list[tuple[str | None, object, object, int | None]]:
    """Return client, begin, end and member ids of each reader, given group members by id, begin, end and log offset."""
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "member_timeline", [
        member("gone", str(member_id), start, end, log_offset, client_id="app", instance_id=instance)
        for member_id, instance, start, end, log_offset in rows
    ])  # fmt: skip
    found = [one for one in consumers_of(Tables(str(folder)), "orders") if one.group_id == "gone"]
    return [(one.instance_id, one.first_at, one.last_at, one.member_ids) for one in found]


def test_a_client_that_was_gone_is_not_said_to_have_read_meanwhile(tmp_path: Path):
    found = stays(
        tmp_path,
        ("a-1", None, "02:03", "02:05", 7),
        ("a-2", None, "02:06", "02:07", 9),
        ("a-3", None, "02:09", None, 11),
    )
    assert found == [
        (None, at("02:03"), at("02:05"), 1),
        (None, at("02:06"), at("02:07"), 1),
        (None, at("02:09"), None, 1),
    ]


def test_a_client_that_is_there_without_a_pause_has_one_line(tmp_path: Path):
    """Two processes of a client take turns, and each changes its state."""
    found = stays(
        tmp_path,
        ("a-1", None, "02:03", "02:05", 7),
        ("a-1", None, "02:05", "02:08", 9),
        ("a-2", None, "02:06", "02:12", 10),
        ("a-3", None, "02:12", "02:14", 14),
    )
    assert found == [(None, at("02:03"), at("02:14"), 3)]


def test_each_static_member_has_its_own_times(tmp_path: Path):
    found = stays(
        tmp_path,
        ("a-1", "one", "02:03", "02:05", 7),
        ("a-2", "one", "02:05", None, 8),
        ("b-1", "two", "02:03", "02:04", 7),
        ("b-2", "two", "02:08", "02:09", 20),
    )
    assert found == [
        ("one", at("02:03"), None, 2),
        ("two", at("02:03"), at("02:04"), 1),
        ("two", at("02:08"), at("02:09"), 1),
    ]


def test_a_client_whose_begin_has_no_time_is_not_divided(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "member_timeline", [
        member("old", "a-1", "02:03", "02:04", 3, client_id="app") | {"valid_from": None, "valid_to": None},
        member("old", "a-2", "02:03", "02:08", 7, client_id="app"),
    ])  # fmt: skip
    (reader,) = (one for one in consumers_of(Tables(str(folder)), "orders") if one.group_id == "old")
    assert (reader.first_at, reader.last_at, reader.member_ids) == (None, at("02:08"), 2)
