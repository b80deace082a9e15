"""Shares of commits: each event in one of them, in order, whatever files hold it."""

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.commit_intervals import Event
from coordinator_replay.pipeline.commit_shares import (
    EVERYWHERE,
    SORTED_BY,
    Share,
    kept_context,
    kept_others,
    plan_shares,
    share_of_events,
    shares_of,
)
from coordinator_replay.pipeline.data_files import aside, conform, part_of
from coordinator_replay.pipeline.delta_log import HeldFile
from coordinator_replay.pipeline.offset_events import EVENTS, Sources
from coordinator_replay.pipeline.offset_stage import STAGED
from coordinator_replay.pipeline.offsets import (
    HELD_PART,
    HISTORY_PART,
    OPEN_PART,
    PENDING_PART,
    REMOVED_PART,
    WAITING_PART,
    offset_history,
    pending_offsets,
    staged_offsets,
    write_offsets,
)
from coordinator_replay.pipeline.warehouse import Warehouse
from coordinator_replay.tables.definition import table
from tests.pipeline.offset_rows import POSITION, dicts, expiry_rules, moment, sample_records

COMMITS = table("offset_commits").arrow_schema().remove_metadata()
KEY = ("group_id", "topic", "partition", "log_partition")


def held(path="f", low=0, high=0, rows=10, nulls=0):
    bounds = [{} if at is None else {"log_partition": at} for at in (low, high)]
    return HeldFile(path, *bounds, {"log_partition": nulls}, rows)


@given(
    spans=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9), st.integers(1, 3_000_000)), min_size=1),
    tasks=st.integers(1, 16),
)
def test_every_log_partition_is_in_shares_that_read_all_files_of_it(spans, tasks):
    files = [held(str(i), low, low + more, rows) for i, (low, more, rows) in enumerate(spans)]
    shares = plan_shares(files, tasks)
    if shares is None:
        return
    for i, (low, more, _) in enumerate(spans):
        for partition in range(low, low + more + 1):
            mine = [one for one in shares if one.low <= partition <= one.high]
            assert sorted(one.number for one in mine) == list(range(mine[0].parts))
            assert all(str(i) in one.paths for one in mine)


def test_what_held_in_log_partitions_without_commits_is_in_a_share_too():
    shares = plan_shares([held("a", 3, 4, 100_000), held("b", 9, 9, 300_000)], 2)
    for partition in (0, 3, 6, 9, 1000):
        mine = [share for share in shares if share.low <= partition <= share.high]
        assert sorted(share.number for share in mine) == list(range(mine[0].parts))
    assert plan_shares([], 2) == []


def test_of_older_files_only_what_may_be_newer_counts():
    def file(path, partition, rows, *times):
        bounds = [{"log_partition": partition, "log_timestamp": moment(at)} for at in times]
        return HeldFile(path, *bounds, {"log_partition": 0, "log_timestamp": 0}, rows)

    class Files:
        spark = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))

        def held(self, _):
            return [file("old", 0, 990_000, 0, 99), file("new", 1, 40_000, 95, 99)]

    assert [(share.paths, share.parts) for share in shares_of(Files(), moment(95))] == [(["old"], 1), (["new"], 1)]
    assert [share.paths for share in shares_of(Files(), moment(100)) or []] == [[]]
    # Half a million is what a task is given of all of them.
    assert max(share.parts for share in shares_of(Files())) == 2


@pytest.mark.spark
def test_a_night_without_commits_has_a_share(spark, tmp_path):
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.ensure("offset_commits")
    assert shares_of(warehouse) == [EVERYWHERE]


def test_files_that_do_not_tell_enough_are_not_shared():
    assert plan_shares([held(low=None)], 2) is None
    assert plan_shares([held(nulls=1)], 2) is None
    assert plan_shares([held(rows=None)], 2) is None
    assert plan_shares([held(high=2_000_000_000)], 2) is None
    # Fifty files that each hold a bit of every log partition would be read again for each share.
    assert plan_shares([held(str(i), 0, 49, 1_000_000) for i in range(50)], 2) is None
    assert len(plan_shares([held(str(i), i, i, 1_000_000) for i in range(50)], 2)) == 50


def commit(place, **columns):
    at, key = place
    row = dict.fromkeys(COMMITS.names) | dict(zip(KEY, key, strict=True))
    row |= {"cluster": "c", "is_tombstone": False, "producer_id": -1, "missing_before": 0}
    return row | {"log_offset": at, "log_timestamp": moment(at), "committed_offset": at} | columns


def context(kind, group, topic, partition, at):
    row = dict.fromkeys([*EVENTS.names, *SORTED_BY.names])
    row |= {"group_id": group, "topic": topic, "partition": partition, "kind": int(kind), "at_timestamp": moment(at)}
    return row | {"first": at, "second": 0, "log_offset": -1}


KEYS = [(f"g{g}", f"t{t}", p, g % 3) for g in range(5) for t in range(2) for p in range(3)]
WRITTEN = {"plain": {}, "tombstone": {"is_tombstone": True}, "unknown": {"producer_id": None}}
LEFT_OUT = {"waiting": {"producer_id": 7}, "foreign": {"cluster": "d"}}


def order(row, first, second):
    return [[(row[name] is not None, row[name]) for name in KEY], first, second]


@given(
    told=st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([*WRITTEN, *LEFT_OUT, "other"])), max_size=60),
    files=st.integers(1, 3),
    parts=st.integers(1, 3),
    most=st.sampled_from([0, 5, 1000]),
)
def test_shares_hold_each_event_once_in_order_with_what_is_known_of_its_group(
    tmp_path_factory, told, files, parts, most
):
    folder = tmp_path_factory.mktemp("shares")
    kinds = WRITTEN | LEFT_OUT
    rows = [commit(place, **kinds[kind]) for *place, kind in ((i, *one) for i, one in enumerate(told)) if kind in kinds]
    others = [
        context(Event.OPENED, *key[:3], i) | {"log_partition": key[3], "at_offset": i, "log_offset": i}
        for i, (key, kind) in enumerate(told)
        if kind == "other"
    ]
    known = [context(Event.STATE, f"g{g}", None, None, at) for g in range(5) for at in (1, 3)]
    known += [context(Event.OWNER, *key[:3], 2) for key in KEYS]
    paths = []
    for i in range(files):
        path = str(folder / f"{i}.parquet")
        # Backwards, so that nothing comes in order by itself.
        pq.write_table(pa.Table.from_pylist(rows[i::files][::-1], COMMITS), path, row_group_size=7)
        paths.append(path)
    beside = {name: [str(folder / name)] for name in ("others", "context")}
    for name, events in (("others", others), ("context", known)):
        pq.write_table(pa.Table.from_pylist(events, pa.schema([*EVENTS, *SORTED_BY])), *beside[name])
    found = []
    for low, high in ((0, 1), (2, 2)):
        for number in range(parts):
            share = Share(paths, low, high, number, parts)
            told_beside = kept_others(beside["others"]), kept_context(beside["context"])
            batches = list(share_of_events(share, "c", *told_beside, most=most))
            mine = pa.Table.from_batches(batches, EVENTS).to_pylist()
            in_order = [
                order(row, row["at_offset"] if row["at_offset"] is not None else row["at_timestamp"].timestamp(), 0)
                for row in mine
            ]
            assert in_order == sorted(in_order)
            commits = [row for row in mine if row["kind"] > Event.OWNER]
            states = {row["group_id"] for row in mine if row["kind"] == Event.STATE}
            assert states == {row["group_id"] for row in commits}
            owned = {tuple(row[name] for name in KEY[:3]) for row in mine if row["kind"] == Event.OWNER}
            assert owned >= {tuple(row[name] for name in KEY[:3]) for row in commits}
            found += commits
    expected = {i: kind for i, (_, kind) in enumerate(told) if kind in WRITTEN or kind == "other"}
    named = {Event.TOMBSTONE: {"tombstone"}, Event.PLAIN: {"plain", "unknown"}, Event.OPENED: {"other"}}
    assert sorted(row["log_offset"] for row in found) == sorted(expected)
    assert all(expected[row["log_offset"]] in named[Event(row["kind"])] for row in found)


@pytest.mark.spark
def test_shares_give_the_offsets_that_a_shuffle_gives(spark, tmp_path):
    records = sample_records(spark)
    commits = records.where("commit IS NOT NULL").select(*POSITION, "commit.*").withColumn("cluster", F.lit("c"))
    path = str(tmp_path / "commits.parquet")
    pq.write_table(pa.Table.from_batches([conform(one, COMMITS) for one in commits.toArrow().to_batches()]), path)
    shares = [Share([path], *span, number, 2) for span in ((0, 250), (251, 999)) for number in range(2)]
    markers = records.where("control_type IS NOT NULL").select(*POSITION, "control_type")
    sources = Sources(commits=commits, markers=markers, rules=expiry_rules(records))
    parts = {name: part_of(table(name), str(tmp_path / name)) for name in (HISTORY_PART, PENDING_PART)}
    parts |= {HELD_PART: parts[HISTORY_PART], WAITING_PART: parts[PENDING_PART]}
    parts |= {name: aside(str(tmp_path / name), STAGED) for name in (OPEN_PART, REMOVED_PART)}
    written = write_offsets(sources, parts, "c", shares=shares, staging=str(tmp_path / "staging"))
    staged = staged_offsets(sources).localCheckpoint()

    def of(*names):
        return [file.path for name in names for file in written.get(name, [])]

    def told(rows):
        return sorted(map(repr, rows))

    removed = told(dicts(offset_history(spark.read.parquet(*of(REMOVED_PART)), "c")))
    history = told(dicts(offset_history(staged, "c")))
    assert removed
    assert sorted([*told(dicts(spark.read.parquet(*of(HISTORY_PART, HELD_PART)))), *removed]) == history
    assert told(dicts(spark.read.parquet(*of(PENDING_PART, WAITING_PART)))) == told(dicts(pending_offsets(staged, "c")))
