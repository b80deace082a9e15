"""Upkeep: what is compacted, purged and removed, and what is not; on a folder and behind an S3 API alike."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable

from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.query.rebalances import rebalances_of
from coordinator_replay.query.tables import Tables
from coordinator_replay.store import compaction
from coordinator_replay.store.beginning import begin
from coordinator_replay.store.compaction import groups_of_small
from coordinator_replay.store.keeping import PURGED_BY, kept_since, purge_of
from coordinator_replay.store.layout import RUN_PROPERTY
from coordinator_replay.store.maintain import Kept, Upkeep, run_maintain
from coordinator_replay.store.opening import delta_uri
from coordinator_replay.store.scan import read_table
from coordinator_replay.store.snapshot import Snapshot, TableFile
from coordinator_replay.store.warehouse import Store
from coordinator_replay.store.writer import FileWriter, table_part
from coordinator_replay.tables.definition import table
from tests.store.warehouses import Row, Run, commit_row, held, millis, write

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)
LATER = datetime.now(UTC) + 2 * DAY


def maintain(store: Store, now: datetime | None = None, **asked: object) -> dict[str, Kept]:
    done = run_maintain(Upkeep(warehouse=store.uri, **asked), now=now)  # type: ignore[arg-type]
    return {kept.name: kept for kept in done}


def snapshot(store: Store, name: str) -> Snapshot:
    found = store.snapshot(name)
    assert found is not None
    return found


def opened(store: Store, name: str) -> DeltaTable:
    return DeltaTable(delta_uri(store.path(name)))


def test_small_files_become_one_and_old_files_go_when_their_time_has_come(store: Store):
    for number in range(1, 4):
        Run(store, number).whole()
    Run(store, 4, "it's % another").whole()
    before = held(store, "offset_commits", "log_offset")
    kept = maintain(store)["offset_commits"]
    assert (kept.before.files, kept.after.files, kept.rows_removed) == (4, 2, 0)
    assert kept.after.stored_files == 5
    kept = maintain(store, LATER, vacuum_after=timedelta(), force=True)["offset_commits"]
    assert kept.after.stored_files == kept.after.files == 2
    assert held(store, "offset_commits", "log_offset") == before
    assert {file.cluster for file in snapshot(store, "offset_commits").every} == {"default", "it's % another"}
    # A run goes on from there, and one that is killed is undone to there.
    Run(store, 5).whole()
    maintain(store)
    Run(store, 6).commit("rebalances")
    assert begin(store).undone == ("rebalances",)
    assert held(store, "offset_commits", "log_offset") == sorted([*before, 5])
    assert [file.is_open for file in snapshot(store, "rebalances").files(cluster="default")].count(False) == 1


def test_rows_are_sorted_by_what_questions_ask_by(store: Store):
    run = Run(store, 1)
    groups = ["b", "c", "a", "b", "a"]
    files = [file for n, group in enumerate(groups) for file in write(store, "offset_commits", [commit_row(n, group)])]
    run.versions["offset_commits"] = store.commit(
        run.snapshots["offset_commits"], files, [], {RUN_PROPERTY: run.run_id}
    )
    run.finish()
    maintain(store)
    [file] = snapshot(store, "offset_commits").every
    rows = [(row["group_id"], row["log_offset"]) for batch in read_table([file], ["group_id", "log_offset"])
            for row in batch.to_pylist()]  # fmt: skip
    assert rows == [("a", 2), ("a", 4), ("b", 0), ("b", 3), ("c", 1)]
    assert (file.lowest["group_id"], file.highest["group_id"], file.rows) == ("a", "c", 5)


def test_upkeep_that_finds_nothing_to_do_changes_nothing(store: Store):
    Run(store, 1).whole()
    maintain(store)
    versions = begin(store).versions
    maintain(store)
    assert begin(store).versions == versions


def table_file(size: int, **values: object) -> TableFile:
    return TableFile("t", "u", "p", size, 1, **{"cluster": "c", "bucket": 0, "is_open": False, **values})  # type: ignore[arg-type]


def test_only_small_files_of_the_same_values_are_joined(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compaction, "LARGE_FILE", 100)
    monkeypatch.setattr(compaction, "_TOGETHER", 200)
    sizes = (10, 20, 99, 100, 90, 5)
    files = [table_file(size) for size in sizes] + [table_file(1, bucket=1), table_file(1, is_open=True)]
    assert [[file.size for file in group] for group in groups_of_small(files)] == [[5, 10, 20, 90]]


def test_what_a_killed_run_never_committed_is_removed_in_time(store: Store):
    Run(store, 1).whole()
    write(store, "offset_commits", [commit_row(7)])
    assert maintain(store)["offset_commits"].after.stored_files == 2
    assert maintain(store, LATER, vacuum_after=timedelta(), force=True)["offset_commits"].after.stored_files == 1
    assert held(store, "offset_commits", "log_offset") == [1]


def test_files_that_somebody_may_be_reading_stay_unless_forced(store: Store):
    with pytest.raises(UsageError, match="7d or longer"):
        maintain(store, vacuum_after=6 * DAY)


def test_a_folder_without_tables_is_no_warehouse(store: Store):
    with pytest.raises(WarehouseError, match="no warehouse"):
        maintain(store)


def test_upkeep_undoes_what_a_killed_run_left_and_refuses_what_others_changed(store: Store):
    Run(store, 1).whole()
    Run(store, 2).commit("offset_commits")
    maintain(store)
    assert held(store, "offset_commits", "log_offset") == [1]
    opened(store, "findings").delete()
    with pytest.raises(WarehouseError, match="findings was changed by somebody else"):
        maintain(store)


def rebalance(number: str, ended: datetime | None, settled: int | None = 1) -> Row:
    return {
        "group_id": "payments",
        "group_type": "consumer",
        "rebalance_id": number,
        "cause": "MEMBER_JOIN",
        "confidence": "certain",
        "is_exact": True,
        "started_at": millis(ended or NOW),
        "completed_at": None if ended is None else millis(ended),
        "settled_at_offset": settled,
    }


def test_history_that_was_over_is_purged_and_does_not_come_back(store: Store):
    run = Run(store, 1)
    old, open_long = rebalance("old", NOW - 100 * DAY), rebalance("open-long", None, settled=None)
    files = [
        *write(store, "rebalances", [old, rebalance("young", NOW - DAY)]),
        *write(store, "rebalances", [rebalance("older", NOW - 101 * DAY)]),
        *write(store, "rebalances", [rebalance("not-final", NOW - 100 * DAY, settled=None), open_long], is_open=True),
    ]
    run.versions["rebalances"] = store.commit(run.snapshots["rebalances"], files, [], {RUN_PROPERTY: run.run_id})
    commits = [{**commit_row(place), "log_timestamp": millis(NOW - days * DAY)} for place, days in ((1, 200), (2, 0))]
    added = write(store, "offset_commits", commits)
    run.versions["offset_commits"] = store.commit(
        run.snapshots["offset_commits"], added, [], {RUN_PROPERTY: run.run_id}
    )
    run.finish()
    assert maintain(store, NOW, keep=90 * DAY)["rebalances"].rows_removed == 2
    assert held(store, "rebalances", "rebalance_id") == ["not-final", "open-long", "young"]
    assert begin(store).undone == ()
    # What a later run derives again is held against it before it is written.
    since = kept_since(snapshot(store, "rebalances").properties)
    purge = purge_of(snapshot(store, "rebalances"))
    values = {"cluster": "default", "bucket": 3, "is_open": False}
    writer = FileWriter()
    part = table_part(table("rebalances"), store.path("rebalances"), values, purge)
    writer.add_rows(part, [old, rebalance("new", NOW)])
    next_run = Run(store, 2)
    [file] = writer.close()
    next_run.versions["rebalances"] = store.commit(
        next_run.snapshots["rebalances"], [file], [], {RUN_PROPERTY: next_run.run_id}
    )
    next_run.finish()
    assert held(store, "rebalances", "rebalance_id") == ["new", "not-final", "open-long", "young"]
    # What was purged stays so, even if more is to be kept from now on.
    assert maintain(store, NOW, keep=1000 * DAY)["rebalances"].rows_removed == 0
    assert kept_since(snapshot(store, "rebalances").properties) == since
    asked = Tables(store.uri)
    with pytest.raises(UsageError, match="nothing from before 2026-08-22"):
        rebalances_of(asked, None, end=NOW - 95 * DAY)
    assert len(rebalances_of(asked, None, start=NOW - 2 * DAY)) == 3
    assert asked.notes == []
    rebalances_of(asked, None)
    assert len(asked.notes) == 1


def test_what_dead_runs_left_aside_is_removed_after_a_day(store: Store):
    Run(store, 1).whole()
    writer = FileWriter()
    part = table_part(table("topics"), f"{store.staging('dead')}/x", {"cluster": "c"})
    writer.add_rows(part, [{"topic_id": "id", "topic": "orders"}])
    writer.close()
    kept = maintain(store)["_staging"]
    assert kept.before.stored_files == kept.after.stored_files == 1
    kept = maintain(store, LATER)["_staging"]
    assert (kept.before.stored_files, kept.after.stored_files) == (1, 0)


def test_a_damaged_file_is_named_in_a_sentence(store: Store):
    Run(store, 1).whole()
    Run(store, 2).whole()
    filesystem, path = open_filesystem(snapshot(store, "offset_commits").every[0].uri)
    with filesystem.open_output_stream(path) as damaged:
        damaged.write(b"PAR1 and then nothing that is Parquet")
    with pytest.raises(WarehouseError, match="offset_commits can't be compacted"):
        maintain(store)


def test_a_lost_file_is_named_in_a_sentence(store: Store, remove: Callable[[str], None]):
    Run(store, 1).whole()
    Run(store, 2).whole()
    remove(snapshot(store, "offset_commits").every[0].uri)
    with pytest.raises(WarehouseError, match=r"offset_commits: 1 of its 2 files are missing, .*; restore a backup"):
        maintain(store)


def test_every_row_of_tables_that_forget_says_when_it_was_over():
    for name, column in PURGED_BY.items():
        assert table(name).column(column).type == "timestamp"
