"""What commits come to, against counting them one by one."""

from collections import defaultdict
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.pipeline import commit_sums
from coordinator_replay.pipeline.commit_shares import Share, commits_of
from coordinator_replay.pipeline.commit_sums import (
    COMMIT,
    GROUP_PART,
    GROUPS,
    HISTORY,
    MINUTE_PART,
    MINUTES,
    PARTITION_PART,
    PARTITIONS,
    REWIND_PART,
    REWINDS,
    group_sums,
    history_sums,
)
from coordinator_replay.pipeline.data_files import aside
from coordinator_replay.pipeline.minute_states import NUMBERED, SIMPLE, STATES
from coordinator_replay.tables.definition import table
from tests.pipeline.offset_rows import START, ms

COMMITS = table("offset_commits").arrow_schema().remove_metadata()
SHOWN = table("offset_history").arrow_schema().remove_metadata()
HOT, UNTIL = 2, 3

SECONDS = st.one_of(st.none(), st.integers(0, 400))
COMMITTED = st.tuples(
    st.sampled_from("gh"), st.sampled_from("tu"), st.integers(0, 1), SECONDS, st.booleans(), st.sampled_from("ccd")
)


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr(commit_sums, "_AT_ONCE", 7)


def moment(seconds):
    return None if seconds is None else START + timedelta(seconds=seconds)


def minute(seconds):
    return ms(seconds) // 60_000


def commit(offset, told):
    group, topic, partition, seconds, is_tombstone, cluster = told
    return {
        "cluster": cluster,
        "group_id": group,
        "topic": topic,
        "partition": partition,
        "log_partition": "gh".index(group),
        "log_offset": offset,
        "log_timestamp": moment(seconds),
        "record_bytes": 10 + offset,
        "is_tombstone": is_tombstone,
    }


def written(batches, **schemas):
    found = {name: [] for name in schemas}
    for batch in batches:
        for file in batch.to_pylist():
            found[file["part"]] += pq.read_table(file["path"]).cast(schemas[file["part"]]).to_pylist()
    return found


def state_at(states, group, at):
    mine = [(minute, kind) for name, minute, kind in states if name == group and minute <= at]
    return max(mine)[1] if mine else SIMPLE


@given(
    told=st.lists(COMMITTED, max_size=40),
    states=st.dictionaries(st.tuples(st.sampled_from("ghi"), st.integers(0, 6)), st.integers(1, 5), max_size=6),
    since=st.sampled_from([None, 120]),
    parts=st.integers(1, 2),
)
def test_commits_of_groups_and_minutes_are_counted(tmp_path_factory, told, states, since, parts):
    folder = tmp_path_factory.mktemp("sums")
    commits = [commit(offset, one) for offset, one in enumerate(told)]
    path = str(folder / "commits.parquet")
    pq.write_table(pa.Table.from_pylist(commits, COMMITS), path, row_group_size=5)
    kinds = [(group, minute(0) + number, kind) for (group, number), kind in states.items()]
    names = [f"{group_type}/{state}" for group_type, state in NUMBERED]
    told_states = [
        {"group_id": group, "tag": int(Evidence.STATE), "at": at * 60_000 + 7, "name": names[kind - 1], "seq": 0}
        for group, at, kind in kinds
    ]
    known = pa.Table.from_pylist(told_states, STATES)
    schemas = {GROUP_PART: GROUPS, MINUTE_PART: MINUTES}
    places = {name: aside(str(folder / name), schema) for name, schema in schemas.items()}
    given = {"hot": HOT, "until": moment(60 * UNTIL), "since": moment(since)}
    add_up = group_sums(places, **given)
    found = {name: [] for name in schemas}
    for number in range(parts):
        rows = commits_of(Share([path], 0, 1, number, parts), "c", COMMIT, whole_groups=True)
        for name, more in written(add_up(rows, lambda: known), **schemas).items():
            found[name] += more
    counted = [
        one
        for one in commits
        if one["cluster"] == "c" and not one["is_tombstone"] and one["log_timestamp"] is not None
        if since is None or one["log_timestamp"] >= moment(since)
    ]
    by_minute = defaultdict(list)
    for one in counted:
        by_minute[one["group_id"], minute((one["log_timestamp"] - START).total_seconds())].append(one)
    kinds_of = defaultdict(int)
    groups = defaultdict(list)
    for (group, at), mine in by_minute.items():
        kinds_of[at, state_at(kinds, group, at)] += len(mine)
        groups[at < minute(60 * UNTIL), group].append(mine)
    sums = defaultdict(int)
    for row in found[MINUTE_PART]:
        sums[row["minute"], row["kind"]] += row["commits"]
    assert sums == kinds_of
    expected = {}
    for (is_over, group), minutes in groups.items():
        every = [one for mine in minutes for one in mine]
        times = [ms((one["log_timestamp"] - START).total_seconds()) for one in every]
        each = [len(mine) // len({(one["topic"], one["partition"]) for one in mine}) for mine in minutes]
        hot = [
            ms((one["log_timestamp"] - START).total_seconds())
            for mine, most in zip(minutes, each, strict=True)
            for one in mine
            if most >= HOT
        ]
        expected[is_over, group] = {
            "log_partition": "gh".index(group),
            "commits": len(every),
            "bytes": sum(one["record_bytes"] for one in every),
            "first_at": min(times),
            "last_at": max(times),
            "last_offset": max(one["log_offset"] for one in every),
            "most_a_minute": max(each),
            "hot_minutes": sum(most >= HOT for most in each),
            "hot_from": min(hot, default=None),
            "hot_to": max(hot, default=None),
        }
    told_of = {(row.pop("is_over"), row.pop("group_id")): row for row in found[GROUP_PART]}
    assert told_of == expected


INTERVAL = st.tuples(
    st.sampled_from("gh"),
    st.sampled_from("tu"),
    SECONDS,
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(0, 3)),
    st.sampled_from(["Empty", "Stable", None]),
)


def interval(offset, told):
    group, topic, seconds, committed, previous, state = told
    row = dict.fromkeys(SHOWN.names)
    row |= {"group_id": group, "topic": topic, "partition": 0, "log_partition": 1, "from_offset": offset}
    row |= {"valid_from": moment(seconds), "committed_offset": committed, "previous_offset": previous}
    return row | {"group_state": state, "metadata": "é" * (offset % 3), "commits_merged": offset % 2}


@given(st.lists(INTERVAL, max_size=40))
def test_intervals_of_partitions_are_counted_and_rewinds_told(tmp_path_factory, told):
    folder = tmp_path_factory.mktemp("history")
    rows = [interval(offset, one) for offset, one in enumerate(told)]
    schemas = {PARTITION_PART: PARTITIONS, REWIND_PART: REWINDS}
    places = {name: aside(str(folder / name), schema) for name, schema in schemas.items()}
    batches = pa.Table.from_pylist(rows, SHOWN).select(list(HISTORY)).to_batches(max_chunksize=100)
    found = written(history_sums(places, moment(60 * UNTIL))(iter(batches)), **schemas)

    def ms_of(row):
        return None if row["valid_from"] is None else ms((row["valid_from"] - START).total_seconds())

    def is_over(row):
        return row["valid_from"] is not None and row["valid_from"] < moment(60 * UNTIL)

    keys = {(is_over(row), row["group_id"], row["topic"]) for row in rows}
    expected = []
    for key in keys:
        mine = [row for row in rows if (is_over(row), row["group_id"], row["topic"]) == key]
        times = [ms_of(row) for row in mine if row["valid_from"] is not None]
        empty = [row for row in mine if row["group_state"] == "Empty"]
        last = dict.fromkeys(SHOWN.names) if not empty else empty[-1]
        expected.append(
            {
                **dict(zip(("is_over", "group_id", "topic"), key, strict=True)),
                "partition": 0,
                "log_partition": 1,
                "commits": sum(1 + row["commits_merged"] for row in mine),
                "first_at": min(times, default=None),
                "last_at": max(times, default=None),
                "metadata_bytes": max(len(row["metadata"].encode()) for row in mine),
                "from_offset": mine[-1]["from_offset"],
                "committed_offset": mine[-1]["committed_offset"],
                "empty_count": len(empty),
                "empty_first_at": min((ms_of(row) for row in empty if row["valid_from"] is not None), default=None),
                "empty_from_offset": last["from_offset"],
                "empty_valid_from": None if not empty else ms_of(last),
                "empty_committed_offset": last["committed_offset"],
                "empty_previous_offset": last["previous_offset"],
            }
        )
    # All rows come in one batch, so that a key comes once.
    assert sorted(map(repr, found[PARTITION_PART])) == sorted(map(repr, expected))
    back = [
        row["from_offset"]
        for row in rows
        if row["previous_offset"] is not None and row["committed_offset"] < row["previous_offset"]
        if row["group_state"] != "Empty"
    ]
    assert sorted(row["from_offset"] for row in found[REWIND_PART]) == back
