"""Every saved query runs on a warehouse with rows and on one without, and the ones that matter find what is there."""

import json
import re
import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from coordinator_replay.api import Warehouse
from coordinator_replay.cli.main import main
from coordinator_replay.errors import UsageError
from coordinator_replay.query import saved
from coordinator_replay.query.saved import queries_folder, run_saved_query, saved_queries, saved_query
from coordinator_replay.query.tables import Tables
from coordinator_replay.tables.definition import tables
from tests.nightly import rest_at_night
from tests.query.small_warehouse import (
    ROWS,
    at,
    event,
    member,
    offset,
    owned,
    write_rows,
    write_small_warehouse,
    write_tables,
)

TYPES = ("text", "number", "time")


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables(str(write_tables(tmp_path_factory.mktemp("empty"))))


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The small warehouse, with an offset that went back and a partition that two members own."""
    folder = write_small_warehouse(tmp_path_factory.mktemp("troubled"))
    write_rows(
        folder,
        "offset_history",
        [offset("orders", 1, 120, "02:16", from_offset=500, previous_offset=200, group_state="Empty")],
    )
    write_rows(folder, "partition_ownership", [owned(0, "m-2", "02:11")])
    return Tables(str(folder))


def answers(warehouse: Tables, name: str) -> list[dict[str, Any]]:
    names, rows = run_saved_query(warehouse, name)
    return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.parametrize("name", sorted(path.stem for path in queries_folder().glob("*.sql")))
def test_every_saved_query_runs(warehouse: Tables, empty: Tables, name: str):
    query = saved_query(name)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", query.name)
    assert query.about.endswith((".", "?"))
    assert "$cluster" in query.sql, "other clusters would show through"
    for asked in (warehouse, empty):
        names, _ = run_saved_query(asked, name)
        assert names
    assert not any("m-9" in str(row) or row.get("cause") == "MEMBER_LEAVE" for row in answers(warehouse, name))


@pytest.fixture(scope="module")
def turned_round(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The rows of the small warehouse, each table's written in the opposite order."""
    folder = tmp_path_factory.mktemp("turned round")
    for name in tables():
        write_rows(folder, name, (ROWS[name]() if name in ROWS else [])[::-1])
    return Tables(str(folder))


@pytest.mark.parametrize("name", rest_at_night(sorted(saved_queries()), sorted(saved_queries())[::4]))
def test_no_answer_hangs_on_the_order_of_rows_in_the_files(warehouse: Tables, turned_round: Tables, name: str):
    assert run_saved_query(turned_round, name) == run_saved_query(warehouse, name)
    assert "any_value(" not in saved_query(name).sql, (
        "which value it takes depends on the threads: take min or a struct"
    )


@pytest.mark.parametrize("name", sorted(saved_queries()))
def test_no_saved_query_sorts_by_a_window(name: str):
    """Spark refuses a view with a window in ORDER BY, and then an audit gives its tables no names."""
    tree = sqlglot.parse_one(saved_query(name).sql, dialect="duckdb")
    sorted_by = [order for order in tree.find_all(exp.Order) if not order.find_ancestor(exp.Window)]
    assert not [order.sql() for order in sorted_by if order.find(exp.Window)]


@pytest.mark.parametrize("name", sorted(saved_queries()))
def test_no_saved_query_has_two_tables_of_one_name(name: str):
    """In Spark's SQL, tables of a query within another one stand beside those of the other."""
    tree = sqlglot.parse_one(saved_query(name).sql, dialect="duckdb")
    names = [table.alias for table in tree.find_all(exp.CTE)]
    assert sorted(set(names)) == sorted(names)


def test_rewinds(troubled: Tables):
    (found,) = answers(troubled, "rewinds")
    assert (found["group_id"], found["topic"], found["partition"]) == ("payments", "orders", 1)
    assert (found["previous_offset"], found["committed_offset"], found["delta"]) == (200, 120, 80)


OTHER_TOPIC = "no rewind: the topic has another id, so it was created again"


EITHER = "rewound, or the topic was created again in between"


def test_offsets_of_a_topic_that_was_created_again_are_listed_and_no_rewind(tmp_path: Path):
    """Two commits with ids tell topics apart. A commit without one may belong to either topic."""
    folder = write_small_warehouse(tmp_path)

    def committed(topic: str, place: int, value: int, topic_id: str | None, **columns: Any) -> dict[str, Any]:
        return offset(topic, 0, value, f"02:{place:02}", from_offset=place, topic_id=topic_id, group_id="g", **columns)

    write_rows(folder, "offset_history", [
        committed("again", 1, 900, "A" * 22), committed("again", 2, 5, "B" * 22),
        committed("late", 1, 900, "A" * 22), committed("late", 2, 901, None, previous_offset=900),
        committed("late", 3, 4, "B" * 22, replaced_offset=901),
        # 500 may be the new topic's already, of an old client.
        committed("old client", 1, 900, "A" * 22), committed("old client", 2, 500, None, previous_offset=900),
        committed("old client", 3, 20, "B" * 22, replaced_offset=500),
        # Ids never come back, so the commit in the middle is of the same topic.
        committed("same", 1, 900, "A" * 22), committed("same", 2, 901, None, previous_offset=900),
        committed("same", 3, 30, "A" * 22, replaced_offset=901),
        committed("first id", 1, 900, None), committed("first id", 2, 40, "A" * 22, replaced_offset=900),
        # The offset before was lost, so nothing was set back.
        committed("lost", 1, 900, "A" * 22), committed("lost", 2, 901, None, previous_offset=900, ended_by="EXPIRED"),
        committed("lost", 3, 50, "B" * 22),
        committed("ahead", 1, 7, "A" * 22), committed("ahead", 2, 70, "B" * 22),
        committed("back", 1, 900, "A" * 22), committed("back", 2, 800, "A" * 22, previous_offset=900),
        committed("dated", 1, 900, None), committed("dated", 3, 800, None, previous_offset=900),
        committed("none", 1, 900, "A" * 22), committed("none", 2, -1, "B" * 22),
    ])  # fmt: skip
    write_rows(
        folder, "topics", [{"cluster": "default", "topic": "dated", "topic_id": "C" * 22, "created_at": at("02:02")}]
    )
    found = {
        (one["topic"], one["previous_offset"], one["committed_offset"], one["delta"], one["what"])
        for one in answers(Tables(str(folder)), "rewinds")
        if one["group_id"] == "g"
    }
    assert found == {
        ("back", 900, 800, 100, "rewound"),
        ("dated", 900, 800, 100, "the topic was created again in between"),
        ("again", 900, 5, None, OTHER_TOPIC),
        ("late", 901, 4, 897, EITHER),
        ("old client", 900, 500, 400, EITHER),
        ("old client", 500, 20, 480, EITHER),
        ("same", 901, 30, 871, "rewound"),
        ("first id", 900, 40, 860, EITHER),
    }


def test_one_query_has_what_was_skipped_and_what_was_read_again(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [
        offset("far", 0, 10, "02:01", "02:02", group_id="g", from_offset=1),
        offset("far", 0, 5010, "02:02", group_id="g", from_offset=2, previous_offset=10),
        offset("near", 0, 10, "02:01", "02:02", group_id="g", from_offset=1),
        offset("near", 0, 210, "02:02", group_id="g", from_offset=2, previous_offset=10),
        offset("back", 0, 10, "02:01", "02:02", group_id="g", from_offset=1),
        offset("back", 0, 8, "02:02", group_id="g", from_offset=2, previous_offset=10),
    ])  # fmt: skip
    tables = Tables(str(folder))
    found = [(one["topic"], one["what"]) for one in answers(tables, "skipped-or-read-again") if one["group_id"] == "g"]
    assert found == [("far", "far ahead"), ("back", "rewound")]
    _, rows = run_saved_query(tables, "skipped-or-read-again", {"group": "g", "ahead": "100", "threshold": "3"})
    assert [row[1] for row in rows] == ["far", "near"]


def steps(topic: str, *values: int, first: str = "02:02", **columns: Any) -> list[dict[str, Any]]:
    """Return commits of a partition of group ``g``, one a second from a time on."""
    about = {"group_id": "g", **columns}
    return [
        offset(topic, 0, value, f"{first}:{place:02}", from_offset=place, previous_offset=before, **about)
        for place, (before, value) in enumerate(zip((None, *values), values, strict=False))
    ]


def test_a_step_from_a_commit_that_may_be_aborted_is_not_proven(tmp_path: Path):
    rows = [*steps("back", 50, 20, is_proven=False), *steps("far", 1, 5000, is_proven=True)]
    found = answers(Tables(str(write_small_warehouse(tmp_path, offset_history=rows))), "skipped-or-read-again")
    assert {row["topic"]: row["is_proven"] for row in found} == {"back": False, "far": True}


def test_a_query_in_another_is_not_cut_before_the_other_filters(tmp_path: Path):
    """The small step back at 02:09 comes after 210 larger ones, and 12 jumps ahead after 60 larger ones."""
    rows = [row for place in range(210) for row in steps(f"far-{place:03}", 1000, 10)]
    rows += [row for place in range(60) for row in steps(f"jump-{place:02}", 0, 90_000)]
    rows += steps("late", 200, 100, first="02:09")
    rows += [row for place in range(12) for row in steps(f"late-{place:02}", 0, 2000, first="02:09")]
    tables = Tables(str(write_small_warehouse(tmp_path, offset_history=rows)))
    _, found = run_saved_query(tables, "skipped-or-read-again", {"from": "02:08"})
    assert [(row[1], row[6]) for row in found] == [
        *((f"late-{place:02}", "far ahead") for place in range(12)),
        ("late", "rewound"),
    ]
    _, found = run_saved_query(tables, "rewinds", {"from": "02:08"})
    assert [row[1] for row in found] == ["late"]
    _, found = run_saved_query(tables, "skipped-or-read-again", {"threshold": "1000000"})
    assert len(found) == 72, "the threshold is of steps back alone"


def test_offsets_that_begin_anew_are_not_among_the_furthest_steps(tmp_path: Path):
    rows = [*steps("back", 50, 20), *steps("again", 10**9, topic_id="A" * 22)]
    rows.append(offset("again", 0, 5, "02:03", group_id="g", from_offset=90, topic_id="B" * 22))
    found = answers(Tables(str(write_small_warehouse(tmp_path, offset_history=rows))), "skipped-or-read-again")
    assert [(row["topic"], row["what"]) for row in found] == [("back", "rewound"), ("again", OTHER_TOPIC)]


NESTED = [
    (path.stem, match["name"], dict(pair.split("=") for pair in match["renamed"].split()))
    for path in sorted(queries_folder().glob("*.sql"))
    for match in saved._OTHER_QUERY.finditer(re.sub(r"(?m)^--.*", "", path.read_text(encoding="utf-8")))
]


def test_each_query_in_another_is_known():
    assert {inner for _, inner, _ in NESTED} == {"rewinds", "jumps-ahead", "never-owned-partitions"}
    assert not [name for name, query in saved_queries().items() if re.search(r"\{[a-z-]+", query.sql)]


@pytest.mark.parametrize(("outer", "inner", "renamed"), NESTED)
def test_a_query_in_another_stands_there_whole(outer: str, inner: str, renamed: dict[str, str]):
    rows = saved_query(inner).sql.rpartition("\nORDER BY ")[0]
    for name, other in renamed.items():
        rows = rows.replace(f"${name}", f"${other}")
    assert f"(\n{rows}\n)" in saved_query(outer).sql
    tree = sqlglot.parse_one(rows, dialect="duckdb")
    assert tree.args.get("limit") is None
    assert tree.args.get("order") is None


@pytest.mark.parametrize("outer", sorted({outer for outer, _, _ in NESTED}))
def test_a_parameter_of_a_query_and_of_those_in_it_has_one_meaning(outer: str):
    meanings: dict[str, set[str]] = {}
    for _, inner, renamed in (nested for nested in NESTED if nested[0] == outer):
        assert renamed.keys() <= {parameter.name for parameter in saved_query(inner).parameters}
        for parameter in saved_query(inner).parameters:
            name = renamed.get(parameter.name, parameter.name)
            meanings.setdefault(name, set()).add(f"{parameter.type}={parameter.default}: {parameter.about}")
            declared = saved_query(outer).parameter(name)
            assert (declared.type, declared.default) == (parameter.type, parameter.default)
    assert {name: about for name, about in meanings.items() if len(about) > 1} == {}


def fact(kind: str, *names: str, **fields: Any) -> dict[str, Any]:
    return {"sentence": 0, "kind": kind, "names": list(names), **fields}


def test_slow_topic_changes_name_the_topic_and_what_became_of_it(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)

    def rebalance(number: int, delay_ms: int | None, *facts: dict[str, Any]) -> dict[str, Any]:
        return {
            "rebalance_id": f"t{number}", "cluster": "default", "group_id": f"g{number}", "group_type": "consumer",
            "completed_at": at("02:10"), "metadata_delay_ms": delay_ms, "join_reason": "topic_metadata_change",
            "facts": list(facts), "evidence": [], "is_exact": True,
        }  # fmt: skip

    write_rows(folder, "rebalances", [
        rebalance(1, 9000, fact("METADATA_HASH_CHANGED"), fact("PARTITIONS_ADDED", "orders", count=5, old="3")),
        rebalance(2, 800, fact("TOPIC_CREATED", "bills", count=2), fact("TOPIC_DELETED", "old")),
        rebalance(3, 70, fact("PARTITIONS_ADDED", "orders", count=5)),
        rebalance(4, None, fact("ASSIGNED_FIRST", "logs:3,4", count=1)),
        rebalance(5, None, fact("METADATA_HASH_CHANGED")),
        # The delay is not known, because an earlier rebalance may be missing.
        rebalance(6, None, fact("TOPIC_CREATED", "acts", count=1, at_ms=round(at("02:03").timestamp() * 1000))),
    ])  # fmt: skip
    found = [
        (one["group_id"], one["topic_change"], one["changed_at"], one["noticed_at"], one["at"])
        for one in answers(Tables(str(folder)), "slow-topic-changes")
    ]
    noticed = at("02:10")
    assert found == [
        ("g1", "orders partitions 3 to 5", noticed - timedelta(seconds=9), noticed, noticed),
        ("g2", "bills created, partitions: 2; old deleted", noticed - timedelta(milliseconds=800), noticed, noticed),
        ("g3", "orders partitions to 5", noticed - timedelta(milliseconds=70), noticed, noticed),
        ("g4", "logs:3,4", None, noticed, noticed),
        ("g5", None, None, noticed, noticed),
        ("g6", "acts created, partitions: 1", at("02:03"), noticed, noticed),
    ]


def test_a_group_has_noticed_a_change_when_its_members_had_rejoined_not_when_the_sync_was_over(tmp_path: Path):
    """``at`` keeps its meaning, the end of the sync, for those who read it from JSON or CSV."""
    classic = {
        "rebalance_id": "c", "cluster": "default", "group_id": "old", "group_type": "classic", "is_exact": True,
        "began_by": at("02:08"), "completed_at": at("02:10"), "metadata_delay_ms": 60_000, "evidence": [], "facts": [],
    }  # fmt: skip
    write_small_warehouse(tmp_path, rebalances=[classic])
    found = [row for row in answers(Tables(str(tmp_path)), "slow-topic-changes") if row["group_id"] == "old"]
    assert [(row["changed_at"], row["noticed_at"], row["at"]) for row in found] == [
        (at("02:07"), at("02:08"), at("02:10"))
    ]


@pytest.mark.parametrize("at_ms", [-1, -(2**63), 2**63 - 1, 2**62, 253_402_300_800_000])
def test_a_time_of_change_that_cannot_be_shown_is_empty(tmp_path: Path, at_ms: int):
    def noticed(group: str, at_ms: int, delay_ms: int | None) -> dict[str, Any]:
        return {
            "rebalance_id": group, "cluster": "default", "group_id": group, "group_type": "consumer", "is_exact": True,
            "completed_at": at("02:10"), "join_reason": "topic_metadata_change", "metadata_delay_ms": delay_ms,
            "facts": [fact("TOPIC_CREATED", "acts", count=1, at_ms=at_ms)], "evidence": [],
        }  # fmt: skip

    known_ms = round(at("02:03").timestamp() * 1000)
    rebalances = [noticed("strange", at_ms, None), noticed("late", at_ms, at_ms), noticed("known", known_ms, None)]
    write_small_warehouse(tmp_path, rebalances=rebalances)
    found = {row["group_id"]: row["changed_at"] for row in answers(Tables(str(tmp_path)), "slow-topic-changes")}
    assert {name: found[name] for name in ("strange", "late", "known")} == {
        "strange": None, "late": None, "known": at("02:03")
    }  # fmt: skip


def test_a_time_of_change_that_is_not_known_is_explained(tmp_path: Path):
    write_small_warehouse(tmp_path)
    notes = notes_of(tmp_path, "slow-topic-changes")
    assert any("changed_at: when the topic changed" in note and "empty if that is not known" in note for note in notes)


def test_partitions_never_owned_come_first_among_slow_topic_changes(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "group_timeline", [
        event("narrow", 0, "02:02", "GROUP_CREATED", ">Stable", member_count=1, epoch=1),
    ])  # fmt: skip
    write_rows(folder, "member_timeline", [
        member("narrow", "n-1", "02:02", None, 7, subscribed_topics=["bills"]),
    ])  # fmt: skip
    write_rows(
        folder, "partition_ownership", [owned(0, "n-1", "02:02", group_id="narrow", topic="bills", topic_id=None)]
    )
    write_rows(folder, "topics", [{"cluster": "default", "topic": "bills", "topic_id": "C" * 22, "partition_count": 3}])
    tables = Tables(str(folder))
    found = [one for one in answers(tables, "slow-topic-changes") if one["group_id"] == "narrow"]
    assert [(one["topic_change"], one["noticed_at"], one["metadata_delay_ms"]) for one in found] == [
        ("bills never owned, partitions: 2", None, None)
    ]
    _, others = run_saved_query(tables, "slow-topic-changes", {"group": "payments"})
    assert all(row[0] == "payments" for row in others)


def consuming(group: str, topic: str, *partitions: int) -> dict[str, list[dict[str, Any]]]:
    """Return rows of a whole group with a member that owns partitions of a topic, by table."""
    name, own = f"{group}-1", {"topic": topic, "topic_id": None, "group_id": group}
    return {
        "group_timeline": [event(group, 0, "02:02", "GROUP_CREATED", ">Stable", member_count=1, epoch=1)],
        "member_timeline": [member(group, name, "02:02", None, 7, subscribed_topics=[topic])],
        "partition_ownership": [owned(partition, name, "02:02", **own) for partition in partitions],
    }


def topic(name: str, partitions: int | None, number: int = 0, **columns: Any) -> dict[str, Any]:
    about = {"cluster": "default", "topic": name, "topic_id": f"{name}-{number}"}
    return about | {"partition_count": partitions, **columns}


def test_partitions_never_owned_are_counted_beyond_those_that_are_listed(tmp_path: Path):
    groups = [
        consuming("a-big", "big", 0), consuming("z-small", "small", 0), consuming("unnamed", "no-metadata", 1, 4),
        # Created again with fewer partitions than it had, and deleted.
        consuming("fewer", "again", 0), consuming("deleted", "gone", 0),
    ]  # fmt: skip
    rows = {name: [row for group in groups for row in group[name]] for name in groups[0]}
    topics = [
        topic("big", 700), topic("small", 3), topic("gone", 9, removed_at=at("02:05")),
        topic("again", 40, removed_at=at("02:05")), topic("again", 2, 1),
    ]  # fmt: skip
    tables = Tables(str(write_small_warehouse(tmp_path, **rows, topics=topics)))
    found = {(one["group_id"], one["topic_change"], one["is_exact"]) for one in answers(tables, "slow-topic-changes")}
    assert found == {
        ("a-big", "big never owned, partitions: 699", True),
        ("z-small", "small never owned, partitions: 2", True),
        ("unnamed", "no-metadata never owned, partitions: at least 3", True),
        ("fewer", "again never owned, partitions: 1", True),
    }
    _, rows_of_one = run_saved_query(tables, "slow-topic-changes", {"group": "z-small"})
    assert [row[:2] for row in rows_of_one] == [("z-small", "small never owned, partitions: 2")]
    names, rows_of_one = run_saved_query(tables, "never-owned-partitions", {"group": "z-small"})
    assert [dict(zip(names, row, strict=True))["partition"] for row in rows_of_one] == [1, 2]
    assert {row[5:] for row in rows_of_one} == {(2, False, True)}


@pytest.mark.parametrize(
    ("first", "last", "what", "now"),
    [
        ("GROUP_CREATED", "MEMBER_JOINED", "never owned", "not owned now"),
        ("GROUP_DISCOVERED", "MEMBER_JOINED", "no owner on record", "not owned now"),
        ("GROUP_CREATED", "RECORDS_MISSING", "no owner on record", "no owner on record"),
    ],
)
def test_a_partition_was_never_owned_only_if_all_owners_are_on_record(
    tmp_path: Path, first: str, last: str, what: str, now: str
):
    rows = consuming("g", "bills", 0)
    owner = rows["partition_ownership"][0]
    rows["partition_ownership"].append(owner | {"partition": 1, "owned_to": at("02:03"), "to_offset": 200})
    rows["group_timeline"] = [
        event("g", 0, "02:02", first, ">Stable", member_count=1, epoch=1),
        event("g", 1, "02:03", last, "Stable>Stable", member_count=1, epoch=1),
    ]
    tables = Tables(str(write_small_warehouse(tmp_path, **rows, topics=[topic("bills", 3)])))
    found = [one for one in answers(tables, "never-owned-partitions") if one["group_id"] == "g"]
    assert {(one["partition"], one["what"]) for one in found} == {(2, what), (1, now)}
    assert all(one["is_exact"] is (what == "never owned") for one in found)
    changes = [one["topic_change"] for one in answers(tables, "slow-topic-changes") if one["group_id"] == "g"]
    assert changes == (["bills never owned, partitions: 1"] if what == "never owned" else [])


@pytest.mark.parametrize(("to_offset", "partitions", "is_exact"), [(100, 2, False), (102, 2, True), (102, 3, False)])
@pytest.mark.parametrize("clock", ["02:04", "02:01", None])
def test_a_partition_may_have_had_a_later_owner_among_missing_records(
    tmp_path: Path, to_offset: int, partitions: int, is_exact: bool, clock: str | None
):
    """Log offsets decide, because clocks jump. A third partition would have no owner on record."""
    rows = consuming("g", "bills", 0)
    owner = rows["partition_ownership"][0]
    rows["partition_ownership"].append(owner | {"partition": 1, "owned_to": at("02:03"), "to_offset": to_offset})
    complete = event("g", 1, "02:04", "RECORDS_COMPLETE", "Stable>Stable", member_count=1, epoch=1, is_exact=False)
    rows["group_timeline"] = [
        event("g", 0, "02:02", "GROUP_CREATED", ">Stable", member_count=1, epoch=1),
        complete | {"log_timestamp": None if clock is None else at(clock)},
        event("g", 2, "02:06", "MEMBER_JOINED", "Stable>Stable", member_count=1, epoch=2),
    ]
    tables = Tables(str(write_small_warehouse(tmp_path, **rows, topics=[topic("bills", partitions)])))
    found = [one for one in answers(tables, "never-owned-partitions") if one["group_id"] == "g"]
    assert {one["partition"]: one["is_exact"] for one in found if one["what"] == "not owned now"} == {1: is_exact}


def test_flapping_groups_say_how_long_it_took_who_came_and_went_and_what_failed(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)

    def rebalance(number: int, least: int, most: int | None, joined: list[str], left: list[str], attempts: int):
        return {
            "rebalance_id": f"f{number}", "cluster": "default", "group_id": "flap", "group_type": "classic",
            "completed_at": at(f"02:{number:02}"), "completed_offset": number, "epoch": number, "cause": "MEMBER_JOIN",
            "duration_ms_min": least, "duration_ms_max": most, "members_joined": joined, "members_left": left,
            "attempts": attempts, "is_exact": True,
        }  # fmt: skip

    names = {"a": "app-a", "b": "app-b", "c": "app-c", "d": "app-d"}
    write_rows(folder, "member_timeline", [
        member("flap", name, "02:02", None, place, client_id=client)
        for place, (name, client) in enumerate(names.items())
    ])  # fmt: skip
    rows = [
        rebalance(2, 5, 900, ["a", "b", "c", "d"], [], 1), rebalance(3, 70, 800, ["a", "stranger"], ["a"], 3),
        rebalance(4, 6, 950, [], ["a", "b"], 1),
    ]  # fmt: skip
    write_rows(folder, "rebalances", rows)
    (found,) = (one for one in answers(Tables(str(folder)), "flapping-groups") if one["group_id"] == "flap")
    assert (found["longest_ms_min"], found["longest_ms_max"], found["failed_attempts"]) == (70, 950, 2)
    assert found["who"] == "joined app-a (2), app-b (1), app-c (1) and 2 others; left app-a (2), app-b (1)"
    write_rows(folder, "rebalances", [rebalance(5, 1, None, [], [], 1)])
    (found,) = (one for one in answers(Tables(str(folder)), "flapping-groups") if one["group_id"] == "flap")
    assert (found["rebalances"], found["longest_ms_max"]) == (4, None), "no bound is known for one of them"
    assert (found["longest_ms_bound"], found["longest_unbounded"]) == (950, 1)


def test_a_single_client_beyond_the_most_frequent_ones_is_named(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    rows = [
        {"rebalance_id": f"n{count}", "cluster": "default", "group_id": f"of-{count}", "completed_at": at("02:05"),
         "members_joined": [f"app-{place}" for place in range(count)], "members_left": []}
        for count in (3, 4, 5)
    ]  # fmt: skip
    write_rows(folder, "rebalances", rows)
    _, found = run_saved_query(Tables(str(folder)), "flapping-groups", {"threshold": "1"})
    who = {row[0]: row[6] for row in found if row[0].startswith("of-")}
    assert who == {
        "of-3": "joined app-0 (1), app-1 (1), app-2 (1)",
        "of-4": "joined app-0 (1), app-1 (1), app-2 (1), app-3 (1)",
        "of-5": "joined app-0 (1), app-1 (1), app-2 (1) and 2 others",
    }


def test_triggers_stand_beside_the_total_of_their_group(tmp_path: Path):
    """Of clients that set off equally many rebalances, the client of the group with more rebalances comes first."""
    folder = write_small_warehouse(tmp_path)
    rows = [
        {"rebalance_id": f"{group}{place}", "cluster": "default", "group_id": group, "completed_at": at("02:05"),
         "cause": "MEMBER_JOIN", "trigger_members": members}
        for group, triggers in (("a", [["x"], ["x"]]), ("b", [["y"], ["y"], None]))
        for place, members in enumerate(triggers)
    ]  # fmt: skip
    write_rows(folder, "rebalances", rows)
    found = [row for row in answers(Tables(str(folder)), "rebalance-triggers") if row["group_id"] in ("a", "b")]
    assert [(row["group_id"], row["client"], row["rebalances"], row["group_total"]) for row in found] == [
        ("b", "y", 2, 3),
        ("a", "x", 2, 2),
    ]


def test_flapping_static_members_say_who_held_the_instance_id_when(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    held = {"instance_id": "one", "client_host": "/10.0.0.7"}
    write_rows(folder, "member_timeline", [
        member("static", "s-1", "02:02", "02:03", 1, **held, is_begin_open=True),
        member("static", "s-1", "02:03", "02:04", 2, **held),
        member("static", "s-2", "02:05", "02:06", 3, **held, is_client_inherited=True),
        member("static", "s-3", "02:06", None, 5, **held),
    ])  # fmt: skip
    (found,) = (one for one in answers(Tables(str(folder)), "flapping-static-members") if one["group_id"] == "static")
    assert found["holders"].split("; ") == [
        "2026-11-20T02:02:00Z or earlier to 2026-11-20T02:04:00Z s-1 on 10.0.0.7",
        "2026-11-20T02:05:00Z to 2026-11-20T02:06:00Z s-2",
        "2026-11-20T02:06:00Z to the end of the log s-3 on 10.0.0.7",
    ]


def test_a_silence_may_be_longer_if_the_ownership_may_have_begun_earlier(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "partition_ownership", [owned(2, "m-1", "02:05", is_begin_open=True)])
    found = Warehouse(str(folder)).sql(query="owned-but-silent", threshold=1)
    assert {row[2]: row[-1] for row in found} == {0: False, 2: True}


def test_two_owners(troubled: Tables, warehouse: Tables):
    (found,) = answers(troubled, "two-owners")
    assert ({found["member_id"], found["other_member_id"]}, found["overlap_from"], found["overlap_to"]) == (
        {"m-1", "m-2"},
        at("02:11"),
        None,
    )
    assert answers(warehouse, "two-owners") == []


def test_two_owners_by_records_without_times(tmp_path: Path):
    """Message format 0 has no times; the place in the log decides then."""
    folder = write_small_warehouse(tmp_path)

    def owner(partition: int, member_id: str, first: int, last: int | None):
        row = owned(partition, member_id, "02:00", topic="logs", topic_id="logs", from_offset=first)
        return row | {"owned_from": None, "to_offset": last}

    rows = [owner(0, "m-1", 5, 9), owner(0, "m-2", 7, None), owner(1, "m-1", 5, 9), owner(1, "m-2", 9, None)]
    write_rows(folder, "partition_ownership", rows)
    (overlap,) = answers(Tables(str(folder)), "two-owners")
    assert (overlap["partition"], overlap["member_id"], overlap["other_member_id"]) == (0, "m-1", "m-2")
    assert (overlap["overlap_from"], overlap["from_offset"]) == (None, 7)


def test_a_partition_of_any_number_costs_the_list_of_owners_nothing(tmp_path: Path):
    """Its topic would have two billion partitions that nobody owned."""
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "partition_ownership", [owned(2**31 - 1, "m-1", "02:11", topic="orders-by-region")])
    found = answers(Tables(str(folder)), "never-owned-partitions")
    assert [(one["topic"], one["partition"], one["what"]) for one in found] == [
        ("orders-by-region", number, "no owner on record") for number in range(500)
    ]


def test_manual_offset_changes(troubled: Tables):
    assert [(found["group_id"], found["lowest"]) for found in answers(troubled, "manual-offset-changes")] == [
        ("payments", 120)
    ]


def test_offsets_of_groups_without_members_are_told_apart(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)

    def committed(group: str, value: int, clock: str, end: str | None = None, **columns: Any) -> dict[str, Any]:
        return offset("logs", 0, value, clock, end, group_id=group, group_state="Empty", **columns)

    write_rows(folder, "group_timeline", [
        event("early", 0, "02:05", "GROUP_CREATED", ">Stable", group_type="classic", epoch=1, member_count=1),
        event("cut", 0, "02:05", "GROUP_DISCOVERED", ">Stable", group_type="classic", epoch=9, member_count=1),
    ])  # fmt: skip
    write_rows(folder, "offset_history", [
        committed("assign", 10, "02:01", "02:02"), committed("assign", 20, "02:02", previous_offset=10),
        committed("sought", 10, "02:01", "02:02"), committed("sought", 3, "02:02", previous_offset=10),
        committed("early", 10, "02:01"), committed("cut", 10, "02:01"), committed("restored", 10, "02:01"),
    ])  # fmt: skip
    found = {(one["group_id"], one["what"]) for one in answers(Tables(str(folder)), "manual-offset-changes")}
    assert found == {
        ("sought", "moved back; no members on record"),
        ("early", "before the first member joined"),
        ("restored", "its only commit on record, and no members"),
    }


def test_a_subscription_alternates_when_it_changes_back(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "member_timeline", [
        member("payments", name, f"02:1{place}", None, 200 + place, subscribed_topics=topics)
        for name, lists in (("once", [["a"], ["a", "b"], ["a", "b"]]), ("twice", [["a"], ["b", "a"], ["a"]]))
        for place, topics in enumerate(lists)
    ])  # fmt: skip
    (found,) = answers(Tables(str(folder)), "alternating-subscriptions")
    assert (found["member"], found["changes"], found["changes_back"], found["current_topics"]) == ("twice", 2, 1, ["a"])


def test_a_consumer_group_with_a_classic_member_is_listed(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    joined = {"cluster": "default", "group_id": "payments", "kind": "ConsumerGroupMemberMetadata", "log_partition": 3}
    rows = [
        {"member_id": "m-1", "log_offset": 200, "value_json": '{"classicMemberMetadata":null}'},
        {"member_id": "m-2", "log_offset": 201, "value_json": '{"classicMemberMetadata":{}}'},
    ]
    write_rows(folder, "group_records", [{**joined, **row, "log_timestamp": at("02:15")} for row in rows])
    listed = {one["group_id"]: one["what"] for one in answers(Tables(str(folder)), "classic-protocol-groups")}
    assert listed["payments"] == "has classic members"
    upgraded = {"member_id": "m-2", "log_offset": 202, "value_json": '{"classicMemberMetadata":null}'}
    write_rows(folder, "group_records", [{**joined, **upgraded, "log_timestamp": at("02:16")}])
    assert "payments" not in {one["group_id"] for one in answers(Tables(str(folder)), "classic-protocol-groups")}
    # The cleaner may have removed both the record and the tombstone of a member that left.
    left = {"member_id": "m-gone", "log_offset": 203, "value_json": '{"classicMemberMetadata":{}}'}
    write_rows(folder, "group_records", [{**joined, **left, "log_timestamp": at("02:16")}])
    assert "payments" not in {one["group_id"] for one in answers(Tables(str(folder)), "classic-protocol-groups")}


def test_what_stands_against_the_consumer_protocol_is_named_where_the_log_shows_it(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    kinds = {
        "plain": ("consumer", "range"),
        "sticky": ("consumer", "cooperative-sticky"),
        "workers": ("connect", "sessioned"),
        "own": ("consumer", "by-rack"),
    }
    for place, (group, (protocol_type, assignor)) in enumerate(kinds.items()):
        own = {"group_type": "classic", "assignor": assignor}
        write_rows(folder, "member_timeline", [member(group, f"{group}-1", "02:01", None, 300 + place, **own)])
        write_rows(folder, "group_timeline", [event(group, 0, "02:01", "MEMBER_JOINED", ">Stable", group_type="classic",
                                                    epoch=1, member_count=1)])  # fmt: skip
        value = json.dumps({"protocolType": protocol_type, "protocol": assignor})
        write_rows(folder, "group_records", [{"cluster": "default", "group_id": group, "kind": "GroupMetadata",
                                              "log_partition": 3, "log_offset": 300 + place, "value_json": value,
                                              "log_timestamp": at("02:01")}])  # fmt: skip
    found = {row["group_id"]: row["obstacle"] for row in answers(Tables(str(folder)), "classic-protocol-groups")}
    assert {group: found[group] for group in kinds} == {
        "plain": "none on record",
        "sticky": "none on record",
        "workers": "protocol type connect: only groups of the type consumer can change",
        "own": "assignor by-rack is none of Kafka's: the consumer protocol assigns on the brokers",
    }


def test_a_replaced_static_member_of_a_classic_group_goes_by_its_instance_id(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    own = {"group_type": "classic", "instance_id": "pod-0", "client_id": "gone", "client_host": "/10.9.9.9"}
    write_rows(folder, "member_timeline", [
        member("static", "pod-0-a", "02:01", "02:02", 300, **own, subscribed_topics=["a"]),
        member("static", "pod-0-b", "02:02", None, 301, **own, subscribed_topics=["b"], is_client_inherited=True),
        member("static", "pod-0-b", "02:03", None, 302, **own, subscribed_topics=["a"], is_client_inherited=True),
    ])  # fmt: skip
    write_rows(folder, "group_timeline", [event("static", 0, "02:01", "MEMBER_JOINED", ">Stable", group_type="classic",
                                                epoch=1, member_count=1)])  # fmt: skip
    write_rows(folder, "rebalances", [{"rebalance_id": "s", "cluster": "default", "group_id": "static",
                                       "cause": "MEMBER_LEAVE", "trigger_members": ["pod-0-b"]}])  # fmt: skip
    asked = Tables(str(folder))
    (found,) = (one for one in answers(asked, "rebalance-triggers") if one["group_id"] == "static")
    assert (found["client"], found["client_host"]) == ("pod-0", None)
    (found,) = (one for one in answers(asked, "classic-protocol-groups") if one["group_id"] == "static")
    assert found["clients"] == ["gone"], "as describe shows it"


def test_a_group_with_members_is_not_shown_as_gone(warehouse: Tables):
    found = {one["group_id"]: one for one in answers(warehouse, "last-commits")}
    assert (found["payments"]["state"], found["payments"]["member_count"]) == ("Stable", 2)
    assert (found["simple"]["state"], found["simple"]["member_count"]) == ("Empty", 0)
    assert list(found)[-1] == "payments"


def test_stuck_transactions_are_those_still_pending(warehouse: Tables):
    found = [(one["group_id"], one["partition"], one["pending_ms"]) for one in answers(warehouse, "stuck-transactions")]
    assert found == [("payments", 0, 300_000), ("payments", 2, 300_000), ("txn-only", 0, 120_000)]


def test_offsets_that_somebody_needs_are_told_before_they_expire(warehouse: Tables):
    assert [(one["group_id"], one["status"]) for one in answers(warehouse, "expiring-offsets-still-needed")] == [
        ("simple", "EXPIRING")
    ]


def test_offsets_of_topics_that_members_left_are_needed_by_nobody(tmp_path: Path):
    def expiring(topic: str, rule: str) -> dict[str, Any]:
        about = {"cluster": "default", "group_id": "payments", "topic": topic, "partition": 0, "status": "EXPIRING"}
        return about | {"rule": rule, "expire_at": at("05:00"), "committed_offset": 1, "is_exact": True}

    rows = [expiring("left", "unsubscribed_topic"), expiring("read", "empty_group")]
    warehouse = Tables(str(write_small_warehouse(tmp_path, expired_offsets=rows)))
    [found] = answers(warehouse, "expiring-offsets-still-needed")
    assert (found["topic"], found["expire_at"]) == ("read", at("05:00"))


def test_longest_downtime(warehouse: Tables):
    (found,) = answers(warehouse, "longest-partition-downtime")
    assert (found["partition"], found["unowned_ms"], found["unowned_to"]) == (1, 5000, at("02:10:20"))


def test_time_without_owner_that_ends_where_records_are_missing_is_a_lower_bound(tmp_path: Path):
    gap = {"since": at("02:02"), "until": at("02:03")}
    owned = {"cluster": "default", "topic": "orders", "partition": 0, "member_id": "m-1", "owned_to": at("02:02")}
    rows = [
        {**owned, "group_id": "whole", "unowned": [gap], "unowned_ms": 60_000},
        {**owned, "group_id": "cut", "unowned": [gap]},
        {**owned, "group_id": "emptied", "unowned": [gap]},
    ]
    event = {
        "cluster": "default",
        "group_id": "cut",
        "seq": 0,
        "log_timestamp": at("02:03"),
        "event": "RECORDS_MISSING",
    }
    timeline = [{**event, "log_partition": 1, "is_exact": False, "is_state_exact": False}]
    folder = write_small_warehouse(tmp_path, partition_ownership=rows, group_timeline=timeline)
    found = answers(Tables(str(folder)), "longest-partition-downtime")
    assert {row["group_id"]: row["is_at_least"] for row in found} == {"whole": False, "cut": True, "emptied": False}


def test_a_rebalance_whose_end_is_missing_counts_at_no_later_time(tmp_path: Path):
    shared = {"cluster": "default", "group_type": "consumer", "epoch": 3, "is_exact": False, "began_by": at("02:02")}
    shared |= {"started_at": at("02:02"), "trigger_members": ["m-1"]}
    rows = [
        {**shared, "rebalance_id": "lost", "group_id": "cut", "cause": "MEMBER_LEAVE", "settled_at_offset": 80},
        {**shared, "rebalance_id": "open", "group_id": "stuck", "cause": "MEMBER_JOIN"},
    ]
    tables = Tables(str(write_small_warehouse(tmp_path, rebalances=rows)))
    for start, expected in (("02:01", {"cut", "stuck"}), ("02:03", {"stuck"})):
        for query in ("flapping-groups", "rebalance-storms"):
            columns, found = run_saved_query(tables, query, {"from": start, "threshold": "1"})
            assert {row[columns.index("group_id")] for row in found} == expected, query
        columns, found = run_saved_query(tables, "downtime-by-cause", {"from": start})
        assert len(found) == len(expected)


def test_an_answer_on_time_without_owner_says_what_no_record_shows(warehouse: Tables):
    asked = Warehouse(warehouse.uri)
    for answer in (
        asked.sql(query="longest-partition-downtime"),
        asked.sql(query="longest-partition-downtime", group="x"),
    ):
        [note] = [note for note in answer.notes if note.startswith("Not in the rows: ")]
        assert "an answer without rows does not prove that there was no such time" in note


def test_blocking_members(warehouse: Tables):
    (found,) = answers(warehouse, "blocking-members")
    assert (found["member_id"], found["blocking_ms"], found["partition_count"]) == ("m-1", 15_000, 1)


def timeouts_of(folder: Path, *members: dict[str, Any], **tables: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    columns = ("session_timeout_ms", "set_by", "rebalance_timeout_ms", "members", "groups", "examples", "is_exact")
    warehouse = Tables(str(write_small_warehouse(folder, member_timeline=list(members), **tables)))
    return [tuple(row[name] for name in columns) for row in answers(warehouse, "session-timeouts")]


def timed(
    group: str, name: str, kind: str, session: int | None, rebalance: int | None, **columns: Any
) -> dict[str, Any]:
    about = {"group_type": kind, "session_timeout_ms": session, "rebalance_timeout_ms": rebalance}
    return member(group, name, "02:00", columns.pop("end", None), 1, **about, **columns)


def test_session_timeouts_count_members_and_groups_and_say_who_sets_them(tmp_path: Path):
    found = timeouts_of(
        tmp_path,
        *(timed(f"g{place}", "a", "classic", 45_000, 300_000) for place in range(5)),
        timed("g0", "b", "classic", 45_000, 300_000),
        timed("g0", "c", "classic", 45_000, 60_000, is_exact=False),
        # A classic member of a consumer group has its own; the others of it have none.
        timed("new", "a", "consumer", None, 300_000),
        timed("new", "b", "consumer", None, 300_000),
        timed("new", "old", "consumer", 6000, 300_000),
        timed("share", "a", "share", None, None),
        timed("gone", "a", "classic", 9000, 9000, end="02:10"),
    )
    assert found == [
        (45_000, "members", 300_000, 6, 5, ["g0", "g1", "g2"], True),
        (None, "brokers or group", 300_000, 2, 1, ["new"], True),
        (45_000, "members", 60_000, 1, 1, ["g0"], False),
        (6000, "members", 300_000, 1, 1, ["new"], True),
        (None, "brokers or group", None, 1, 1, ["share"], True),
    ]


def test_an_inexact_group_has_the_place_of_its_first_inexact_step(tmp_path: Path):
    """A group that moved has offsets of two log partitions: the smaller number need not be the earlier one."""

    def step(seq: int, partition: int, place: int, is_exact: bool) -> dict[str, Any]:
        about = {"log_partition": partition, "log_offset": place, "is_exact": is_exact}
        return event("moved", seq, f"02:0{seq}", "MEMBER_JOINED", ">Stable", **about)

    steps = [step(0, 7, 40, True), step(1, 7, 52, False), step(2, 7, 60, False), step(3, 2, 9, False)]
    warehouse = Tables(str(write_small_warehouse(tmp_path, group_timeline=steps)))
    [found] = answers(warehouse, "inexact-groups")
    assert (found["inexact_events"], found["log_partition"], found["log_offset"]) == (3, 7, 52)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'rewinds'"):
        saved_query("rewnds")


@pytest.mark.parametrize(
    ("typed", "name"),
    [("storms", "rebalance-storms"), ("rewind", "rewinds"), ("Rebalance_Storms", "rebalance-storms")],
)
def test_a_part_of_a_name_that_no_other_has_is_enough(typed: str, name: str):
    assert saved_query(typed).name == name


def test_a_part_of_several_names_is_none():
    with pytest.raises(UsageError, match="no saved query is called 'offsets'"):
        saved_query("offsets")


@pytest.fixture
def parametrised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A query of this test's own among the saved ones."""

    def write(text: str) -> None:
        (tmp_path / "own.sql").write_text(text)
        monkeypatch.setattr(saved, "queries_folder", lambda: tmp_path)
        monkeypatch.setattr(saved, "saved_queries", saved_queries.__wrapped__)

    return write


PARAMETRISED = """-- Rebalances of a group.
-- param group text: only this group
-- param from time = -1h: begun since then
-- param least number = 2: members that it must have left
SELECT rebalance_id FROM rebalances
WHERE cluster = $cluster AND coalesce(group_id = $group, true) AND coalesce(started_at, completed_at) >= $from
  AND coalesce(members_after, 0) >= $least ORDER BY 1
"""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ["r2"]),
        ({"least": "0"}, ["r1", "r2", "r3"]),
        ({"group": "legacy", "least": "0"}, ["r3"]),
        ({"from": "02:05", "least": "0"}, ["r2"]),
        ({"from": "-15m", "least": "2"}, ["r2"]),
        ({"group": "payments' OR true --"}, []),
    ],
)
def test_parameters_take_what_is_typed_or_their_defaults(
    parametrised, warehouse: Tables, values: dict[str, str], expected: list[str]
):
    parametrised(PARAMETRISED)
    assert [row[0] for row in run_saved_query(warehouse, "own", values)[1]] == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"groupp": "x"}, "saved query own takes no parameter 'groupp'; it takes group, from, least"),
        ({"least": "many"}, "parameter least: 'many' is no number"),
        ({"from": "soon"}, "invalid time 'soon'"),
    ],
)
def test_wrong_parameters_are_named(parametrised, warehouse: Tables, values: dict[str, str], message: str):
    parametrised(PARAMETRISED)
    with pytest.raises(UsageError, match=message):
        run_saved_query(warehouse, "own", values)


@pytest.mark.parametrize("path", sorted(queries_folder().glob("*.sql")), ids=lambda path: path.stem)
def test_a_file_says_what_it_answers_and_declares_the_parameters_that_it_uses(path: Path):
    query, text = saved_query(path.stem), path.read_text(encoding="utf-8")
    assert query.about
    assert query.sql.startswith(("SELECT", "WITH"))
    declared = [parameter.name for parameter in query.parameters]
    assert len(declared) == len(re.findall("^-- param ", text, re.MULTILINE))
    assert set(declared) == set(re.findall(r"\$([a-z_]+)", query.sql)) - {"cluster"}
    assert all(parameter.type in TYPES for parameter in query.parameters)


def test_an_answer_without_rows_names_what_was_asked_for_and_from_which_number_it_counts(warehouse):
    answer = Warehouse(warehouse.uri).sql(query="owned-but-silent", group="nobody", threshold=5)
    assert list(answer) == []
    assert answer.notes[1] == (
        "owned-but-silent: Partitions that a member owns at the end of the log, but for which nobody has committed an "
        "offset for long, although the group commits other partitions. If is_at_least is true, the time may be longer, "
        "because records from before owned_from are missing; group=nobody: only this group; threshold=5: shortest time "
        "without a commit that is shown, in milliseconds."
    )


def test_rates_are_of_the_time_that_the_log_covers(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    burst = [
        {"cluster": "default", "group_id": "burst", "topic": "orders", "partition": 0, "log_partition": 41,
         "log_offset": place, "log_timestamp": at("02:03") + timedelta(seconds=place), "record_bytes": 100,
         "is_tombstone": place == 12}
        for place in range(13)
    ]  # fmt: skip
    write_rows(folder, "offset_commits", burst)
    warehouse = Tables(str(folder))
    covered = warehouse.coverage.last - warehouse.coverage.first
    (grown,) = [row for row in answers(warehouse, "log-partition-growth") if row["log_partition"] == 41]
    assert grown["covered_ms"] == covered // timedelta(milliseconds=1) == 20 * 60_000
    assert grown["bytes_per_day"] == round(grown["bytes"] * 86_400_000 / grown["covered_ms"])
    (busy,) = [row for row in answers(warehouse, "hot-committers") if row["group_id"] == "burst"]
    assert (busy["commits"], busy["peak_per_minute"], busy["commits_per_minute"]) == (12, 12, 0.6)


FOLLOWED = sorted(name for name, query in saved_queries().items() if query.then)


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_to_type_next_are_commands_and_saved_queries_that_exist(warehouse: Tables, name: str):
    answer = Warehouse(warehouse.uri).sql(query=name)
    assert answer.notes[-1] == saved_query(name).then
    assert "then" not in saved_query(name).about.split()
    for sentence in saved_query(name).then.rstrip(".").split(". "):
        assert sentence.split()[0] in main.commands
        assert set(re.findall(r"--query ([a-z-]+)", sentence)) <= saved_queries().keys() - {name}


@pytest.mark.parametrize("name", ["flapping-groups", "slow-topic-changes", "jumps-ahead"])
def test_queries_that_ask_how_often_name_one_that_says_who_or_what(name: str):
    assert name in FOLLOWED


def notes_of(folder: Path, query: str, **values: Any) -> list[str]:
    return list(Warehouse(folder, "default").sql(query=query, **values).notes)


def test_an_answer_without_rows_points_to_the_query_that_has_them(tmp_path: Path):
    """A group without members is set forward in one, an offset of an unknown state is rewound in the other."""
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "group_timeline", [
        event("kept", 0, "02:01", "MEMBER_JOINED", ">Stable", member_count=1),
        event("left", 0, "02:01", "MEMBER_JOINED", ">Stable", member_count=1),
        event("left", 1, "02:02", "GROUP_EMPTIED", "Stable>Empty", member_count=0),
    ])  # fmt: skip
    write_rows(folder, "offset_history", [
        offset("t", 0, 7, "02:03", group_id="kept", from_offset=9, previous_offset=20),
        offset("t", 0, 50, "02:03", group_id="left", from_offset=9, previous_offset=20, group_state="Empty"),
    ])  # fmt: skip
    assert notes_of(folder, "manual-offset-changes", group="kept")[1:3] == [
        "No offset on record was set or moved back in this way. Not in the rows: commits that went forward in groups "
        "without any member on record, and commits of groups whose state is not known.",
        "Offsets that went back, also if the group's state or the topic is not known: 1 row of sql --query rewinds "
        "--param group=kept: kept t:0 from 20 to 7 at 2026-11-20T02:03:00.000Z (group: -; owner of the partition: -).",
    ]
    assert notes_of(folder, "rewinds", group="left", threshold=5)[1] == (
        "Offsets that were set or moved back, also forward if the group had no members: 1 row of sql --query "
        "manual-offset-changes --param group=left: left t at 2026-11-20T02:03:00.000Z (the group was "
        "Empty; committer: not known)."
    )
    for query, group in (("rewinds", "kept"), ("manual-offset-changes", "left"), ("rewinds", "nobody")):
        assert not any(" row of " in note for note in notes_of(folder, query, group=group))


def test_an_offset_that_went_back_while_the_group_had_members_was_set_by_a_member(tmp_path: Path):
    """Brokers refuse a commit without the id of a member then, unless the commit is transactional."""
    write_small_warehouse(tmp_path)
    back = {"from_offset": 9, "previous_offset": 20, "group_state": "Stable"}
    write_rows(tmp_path, "offset_history", [
        offset("t", 0, 7, "02:03", group_id="kept", owner_member_id="m-9", leader_epoch=4, metadata="by hand", **back),
        offset("t", 1, 8, "02:04", group_id="kept", is_transactional=True, **back),
        offset("t", 2, 30, "02:04", group_id="kept", **back),
    ])  # fmt: skip
    shown = ("partition", "committer", "replaced_offset", "lowest", "leader_epoch", "metadata")
    found = [one for one in answers(Tables(str(tmp_path)), "manual-offset-changes") if one["group_id"] == "kept"]
    assert [tuple(one[name] for name in shown) for one in found] == [
        (1, "a transactional producer", 20, 8, None, ""),
        (0, "a member of the group; owner of the partition: m-9", 20, 7, 4, "by hand"),
    ]
    assert {one["what"] for one in found} == {"moved back; the group had members"}


def test_slow_topic_changes_say_whether_partitions_have_no_owner(tmp_path: Path):
    write_small_warehouse(tmp_path, **consuming("g", "bills", 0), topics=[topic("bills", 3)])
    [note] = [one for one in notes_of(tmp_path, "slow-topic-changes", group="g") if one.startswith("Partitions ")]
    assert note == (
        "Partitions without an owner, added ones or others: 2 rows of sql --query never-owned-partitions --param "
        "group=g."
    )
    [note] = [one for one in notes_of(tmp_path, "slow-topic-changes", group="x") if one.startswith("Partitions ")]
    assert note.endswith(": none on record (sql --query never-owned-partitions --param group=x).")


def test_a_command_in_a_note_can_be_pasted_whatever_the_group_is_called(tmp_path: Path):
    group = "it's $g"
    write_small_warehouse(tmp_path, **consuming(group, "bills", 0), topics=[topic("bills", 3)])
    [note] = [one for one in notes_of(tmp_path, "slow-topic-changes", group=group) if one.startswith("Partitions ")]
    command = note.removesuffix(".").partition("2 rows of ")[2]
    assert shlex.split(command) == ["sql", "--query", "never-owned-partitions", "--param", f"group={group}"]


def test_no_inexact_group_is_said_in_a_sentence(tmp_path: Path):
    write_small_warehouse(tmp_path, group_timeline=[event("g", 0, "02:01", "MEMBER_JOINED", ">Stable")])
    conclusion = "No record of a group is missing: all steps of all groups are proven."
    assert conclusion in notes_of(tmp_path, "inexact-groups")
    write_rows(tmp_path, "group_timeline", [event("h", 0, "02:01", "MEMBER_JOINED", ">Stable", is_exact=False)])
    assert conclusion not in notes_of(tmp_path, "inexact-groups")


MODERN = ("Metadata", "MemberMetadata", "TargetAssignmentMember", "CurrentMemberAssignment")


def test_records_at_which_some_brokers_stop_loading_are_listed(tmp_path: Path):
    """The records of ``sound`` are those of a member that joins and leaves, and of a group that is deleted."""
    whole = "M G T C c t m g"
    lives = {"sound": whole, "again": f"{whole} {whole}", "no-group": "g M G", "no-member": "M1 G m2",
             "early": "C M G T", "kept": "M G T C c m", "after": f"{whole} C"}  # fmt: skip
    kinds = dict(zip("GMTC", MODERN, strict=True))
    write_small_warehouse(tmp_path, group_records=[
        {"cluster": "default", "group_id": group, "kind": f"ConsumerGroup{kinds[word[0].upper()]}", "log_partition": 3,
         "member_id": None if word[0] in "Gg" else f"m{word[1:]}", "is_tombstone": word.islower(), "log_offset": place,
         "log_timestamp": at("02:03")}
        for group, words in lives.items()
        for place, word in enumerate(words.split())
    ])  # fmt: skip
    write_rows(tmp_path, "quarantine", [
        {"cluster": "default", "log_partition": 3, "log_offset": 70, "error_class": kind, "error_message": "x"}
        for kind in ("DecodeError", "UnknownRecordType")
    ])  # fmt: skip
    found = {
        (row["group_id"], row["log_offset"]): row["risk"] for row in answers(Tables(str(tmp_path)), "loading-risks")
    }
    assert found == {
        ("no-group", 0): "tombstone of a group that is not on record",
        ("no-member", 2): "tombstone of a member that is not on record",
        ("early", 0): "record of a member before the record of its group",
        ("after", 8): "record of a member before the record of its group",
        ("kept", 5): "tombstone of a member that still has an assignment",
        (None, 70): "record that can't be decoded",
    }
    assert "Brokers' logs were not audited: slow and failed loadings are not on record." in notes_of(
        tmp_path, "loading-risks"
    )


def test_the_rebalances_of_a_group_are_summed_up(tmp_path: Path):
    """Attempts count generations since the last one on record, so two of three left no record."""
    one = {"cluster": "default", "group_id": "g", "group_type": "classic", "is_exact": True}
    write_small_warehouse(tmp_path, group_timeline=[event("g", 0, "02:01", "GROUP_CREATED", ">Stable")], rebalances=[
        {**one, "rebalance_id": "a", "epoch": 1, "attempts": 1, "completed_at": at("02:01"), "duration_ms_min": 9,
         "members_joined": ["m", "n"]},
        {**one, "rebalance_id": "b", "epoch": 4, "attempts": 3, "completed_at": at("02:02"), "duration_ms_min": 4,
         "duration_ms_max": 800, "members_joined": ["m"], "members_left": ["n"]},
    ])  # fmt: skip
    warehouse = Warehouse(tmp_path, "default")
    assert warehouse.rebalances("g").notes[0] == (
        "2 rebalances; 2 failed attempts (before generation 4); the longest took 9 ms to 800 ms (1 without an upper "
        "bound); joined m 2, n 1; left n 1."
    )
    assert not any("failed attempt" in note for note in warehouse.rebalances("g", last=1).notes)


def test_slow_and_failed_loadings_of_brokers_logs_are_listed(tmp_path: Path):
    change = {"cluster": "default", "log_partition": 3, "is_exact": True, "loaded_at": at("02:03")}
    write_small_warehouse(tmp_path, group_records=[], coordinator_changes=[
        {**change, "leader_epoch": 1, "broker": 2, "loading_ms": 12_000},
        {**change, "leader_epoch": 2, "loading_ms": 9},
    ], broker_log=[
        {"cluster": "default", "log_partition": 3, "logged_at": at("02:04"), "event": "LOADING_FAILED", "reason": "x"},
    ])  # fmt: skip
    assert {row["risk"] for row in answers(Tables(str(tmp_path)), "loading-risks")} == {
        "slow loading: 12000 ms by broker 2", "failed loading: x"
    }  # fmt: skip
    assert "The brokers' logs that were audited show 2 loadings, the longest of 12,000 ms." in notes_of(
        tmp_path, "loading-risks"
    )


def test_times_without_an_owner_are_summed_up_over_more_rows_than_are_shown(tmp_path: Path):
    gone = [owned(place, "m-1", "02:01", "02:02", unowned_ms=2000, released_by="REVOKED") for place in range(60)]
    write_small_warehouse(tmp_path, partition_ownership=gone)
    notes = notes_of(tmp_path, "longest-partition-downtime")
    assert (
        "unowned_ms in all: 120,000 (60 rows). By topic:partition: orders:0 2,000, orders:1 2,000, orders:10 2,000, "
        "orders:11 2,000 and 56 more."
    ) in notes
    assert not any(" in all: " in note for note in notes_of(tmp_path, "longest-partition-downtime", group="x"))


@pytest.mark.parametrize("name", sorted(saved_queries()))
def test_a_query_that_an_answer_counts_exists_and_takes_the_same_group(name: str):
    query = saved_query(name)
    for other in filter(None, (query.instead, query.also)):
        assert other[0] in saved_queries().keys() - {name}
        assert query.parameter("group").type == saved_query(other[0]).parameter("group").type
    assert not query.total or query.total in query.sql


def test_a_rate_counts_from_the_first_commit(tmp_path: Path):
    """The first commit is near the end of its minute, the last near the beginning of another."""
    commits = [
        {"cluster": "default", "group_id": "g", "topic": "t", "partition": 0, "log_partition": 3, "log_offset": place,
         "log_timestamp": when, "record_bytes": 10, "is_tombstone": False}
        for place, when in enumerate([at("02:00:50"), *[at("02:01:30")] * 5, at("02:02:50")])
    ]  # fmt: skip
    write_small_warehouse(tmp_path, offset_commits=commits, group_records=[], log_partitions=[])
    [found] = answers(Tables(str(tmp_path)), "hot-committers")
    assert (found["commits"], found["commits_per_minute"]) == (7, 3.5)


def test_last_commits_come_in_their_order_with_their_age(tmp_path: Path):
    write_small_warehouse(tmp_path)
    found = [(one["last_commit_at"], one["age_ms"]) for one in answers(Tables(str(tmp_path)), "last-commits")]
    known = [when for when, _ in found if when is not None]
    assert [when for when, _ in found] == sorted(known) + [None] * (len(found) - len(known))
    assert known
    assert all(age == (at("02:20") - when).total_seconds() * 1000 for when, age in found if when)


def test_what_a_step_and_a_delta_mean_stands_below_the_rows(troubled: Tables):
    folder = Path(troubled.uri)
    assert any("1000 offsets" in note for note in notes_of(folder, "skipped-or-read-again"))
    assert any(note.startswith("delta: by how many offsets") for note in notes_of(folder, "rewinds"))
