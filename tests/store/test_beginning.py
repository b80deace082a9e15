import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from coordinator_replay.errors import WarehouseError
from coordinator_replay.store.beginning import begin
from coordinator_replay.store.duckdb_connection import connected
from coordinator_replay.store.layout import LEDGER, RUN_PROPERTY, STATS_PROPERTY
from coordinator_replay.store.opening import delta_uri
from coordinator_replay.store.versions import TableState, last_finished, state_of
from coordinator_replay.store.warehouse import Store
from tests.nightly import rest_at_night
from tests.store.warehouses import WRITTEN, Run, held, prepare


def opened(store: Store, name: str) -> DeltaTable:
    return DeltaTable(delta_uri(store.path(name)))


def state(store: Store, name: str, newest: int) -> TableState:
    with connected() as connection:
        last = last_finished(connection, store.snapshot(LEDGER))
        return state_of(connection, store.path(name), name, newest, last)


def test_a_place_without_tables_is_ready(store: Store):
    begun = begin(store)
    assert begun.versions == {}
    assert begun.undone == ()
    assert begun.last.run_id == ""


def test_the_newest_finished_run_of_any_cluster_counts(store: Store):
    Run(store, 1).whole()
    Run(store, 2, "other").whole()
    third = Run(store, 3).whole()
    last = begin(store).last
    assert last.run_id == third.run_id
    assert last.versions["offset_commits"] == 3
    assert last.versions[LEDGER] == 3
    assert begin(store).undone == ()


@pytest.mark.parametrize("done", rest_at_night(range(len(WRITTEN) + 1), [1, len(WRITTEN)]))
@pytest.mark.parametrize("finished", [0, 2])
def test_a_run_that_ended_before_its_ledger_row_is_undone(store: Store, finished: int, done: int):
    for number in range(1, finished + 1):
        Run(store, number).whole()
    before = [held(store, name, key) for name, key in _KEYS] if finished else [[]] * 3
    killed = Run(store, 7)
    for name in WRITTEN[:done]:
        killed.commit(name)
    again = Run(store, 8)
    assert set(again.begun.undone) == set(WRITTEN[:done])
    assert [held(store, name, key) for name, key in _KEYS] == before
    # What was undone is not undone again, and the next run goes on from it.
    assert begin(store).undone == ()
    again.whole()
    assert held(store, "offset_commits", "log_offset") == [*range(1, finished + 1), 8]
    assert begin(store).undone == ()


_KEYS = (("offset_commits", "log_offset"), ("rebalances", "epoch"), ("findings", "finding_id"))


def test_two_killed_runs_after_each_other_are_undone(store: Store):
    Run(store, 1).whole()
    Run(store, 2).commit("offset_commits")
    third = Run(store, 3)
    third.commit("offset_commits")
    third.commit("findings")
    assert set(begin(store).undone) == {"offset_commits", "findings"}
    assert held(store, "offset_commits", "log_offset") == [1]


def test_what_only_moves_rows_is_fine_and_an_undo_keeps_it(store: Store):
    Run(store, 1).whole()
    Run(store, 2).whole()
    table = opened(store, "offset_commits")
    table.optimize.compact()
    table.vacuum(retention_hours=1000, dry_run=False)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    compacted = table.version()
    assert begin(store).undone == ()
    Run(store, 3).commit("offset_commits")
    found = state(store, "offset_commits", compacted + 1)
    assert (found.counts, found.is_ahead, found.damage) == (compacted, True, "")
    assert begin(store).undone == ("offset_commits",)
    assert held(store, "offset_commits", "log_offset") == [1, 2]
    snapshot = store.snapshot("offset_commits")
    assert snapshot is not None
    assert len(snapshot.every) == 1


def test_a_table_that_is_missing_is_noticed(store: Store, remove):
    Run(store, 1).whole()
    remove(store.path("rebalances"))
    with pytest.raises(
        WarehouseError, match=r"rebalances: the table is missing, the last audit left it at version 1; run a"
    ):
        begin(store)
    # It is rebuilt by --full.
    begun = begin(store, except_derived=True)
    assert "rebalances" not in begun.versions
    remove(store.path("offset_commits"))
    with pytest.raises(WarehouseError, match=r"offset_commits: the table is missing.*1; restore a backup"):
        begin(store, except_derived=True)


def test_a_ledger_that_is_missing_is_noticed(store: Store, remove):
    Run(store, 1).whole()
    remove(store.path(LEDGER))
    with pytest.raises(WarehouseError, match="audit_runs: the ledger is missing"):
        begin(store)


def test_a_table_whose_log_lost_its_end_is_noticed(store: Store, remove):
    Run(store, 1).whole()
    Run(store, 2).whole()
    remove(f"{store.path('findings')}/_delta_log/{2:020}.json")
    with pytest.raises(WarehouseError, match="findings is at version 1, the last audit left it at version 2"):
        begin(store)
    begin(store, except_derived=True)


def test_a_table_that_lost_a_file_is_noticed(store: Store, remove):
    Run(store, 1).whole()
    Run(store, 2).whole()
    remove(f"{store.path('findings')}/{opened(store, 'findings').get_add_actions().column('path')[0].as_py()}")
    with pytest.raises(WarehouseError, match=r"findings: 1 of its 2 files are missing, .*run audit with --full"):
        begin(store)
    begin(store, except_derived=True)


def test_an_older_ledger_undoes_what_it_does_not_know(store: Store, remove):
    Run(store, 1).whole()
    Run(store, 2).whole()
    remove(f"{store.path(LEDGER)}/_delta_log/{2:020}.json")
    assert set(begin(store).undone) == set(WRITTEN)
    assert held(store, "offset_commits", "log_offset") == [1]


def test_a_change_by_somebody_else_is_refused_until_it_is_taken_back(store: Store):
    Run(store, 1).whole()
    opened(store, "rebalances").delete("epoch = 1")
    with pytest.raises(
        WarehouseError, match=r"version 2 is a DELETE.*know is 1; restore it to version 1, run audit with"
    ):
        begin(store)
    assert begin(store, except_derived=True).versions["rebalances"] == 2
    opened(store, "rebalances").restore(1)
    assert begin(store).undone == ()


def test_rolled_back_by_a_commit_is_refused(store: Store):
    Run(store, 1).whole()
    Run(store, 2).whole()
    opened(store, "offset_commits").restore(1)
    with pytest.raises(WarehouseError, match=r"version 3 is a RESTORE.*restore it to version 2, restore a backup"):
        begin(store)


def test_rows_taken_out_of_the_ledger_are_noticed_and_nothing_is_undone(store: Store):
    Run(store, 1).whole()
    second = Run(store, 2).whole()
    opened(store, LEDGER).delete(f"run_id = '{second.run_id}'")
    with pytest.raises(WarehouseError, match="audit_runs was changed by somebody else: version 3 is a DELETE"):
        begin(store)
    assert held(store, "offset_commits", "log_offset") == [1, 2]


def test_a_change_by_somebody_else_after_a_killed_run_is_not_undone(store: Store):
    Run(store, 1).whole()
    Run(store, 2).commit("offset_commits")
    opened(store, "offset_commits").delete("log_offset = 1")
    with pytest.raises(WarehouseError, match="version 3 is a DELETE"):
        begin(store)


def test_a_log_that_was_cleaned_up_does_not_matter(store: Store, remove):
    Run(store, 1).whole()
    table = opened(store, "offset_commits")
    table.optimize.compact()
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    table.create_checkpoint()
    remove(f"{store.path('offset_commits')}/_delta_log/{1:020}.json")
    assert begin(store).undone == ()


def test_an_undo_without_its_files_is_refused_in_a_sentence(store: Store, remove):
    Run(store, 1).whole()
    before = store.snapshot("rebalances")
    assert before is not None
    Run(store, 2).commit("rebalances")
    [open_file] = [file for file in before.every if file.is_open]
    remove(open_file.uri)
    with pytest.raises(WarehouseError, match="can't be undone by restoring version 1"):
        begin(store)
    # What --full is going to rebuild may lack files.
    assert begin(store, except_derived=True).undone == ("rebalances",)


def test_tables_of_an_older_layout_are_refused(store: Store):
    prepare(store)
    DeltaTable.create(
        delta_uri(store.path("findings")), opened(store, "findings").schema(), mode="overwrite", configuration={}
    )
    with pytest.raises(WarehouseError, match=r"findings was written by an older release.*into a new warehouse"):
        begin(store)


def older(store: Store, lacks: str) -> Store:
    """A warehouse whose findings lack a column of the contract."""
    table = opened(store, "findings")
    remade = Store(f"{store.uri}/older")
    DeltaTable.create(
        delta_uri(remade.path("findings")),
        type(table.schema())([field for field in table.schema().fields if field.name != lacks]),
        partition_by=["cluster"],
        configuration={
            key: value for key, value in table.metadata().configuration.items() if key.startswith("coordinatorReplay")
        },
        raise_if_key_not_exists=False,
    )
    return remade


def test_a_table_whose_rows_lack_what_each_row_has_is_refused(store: Store):
    Run(store, 1).whole()
    with pytest.raises(WarehouseError, match=r"findings was written by an older release, whose rows have no rule; .*"):
        older(store, "rule").create("findings", 10)


def test_columns_that_are_new_in_the_contract_are_added_with_their_comments(store: Store):
    Run(store, 1).whole()
    table, remade = opened(store, "findings"), older(store, "detail")
    snapshot = remade.create("findings", 10)
    # One version has the column, the next says which columns have bounds.
    assert snapshot.version == 2
    configuration = opened(remade, "findings").metadata().configuration
    assert configuration[STATS_PROPERTY] == table.metadata().configuration[STATS_PROPERTY]
    [added] = [field for field in opened(remade, "findings").schema().fields if field.name == "detail"]
    assert added.metadata["comment"]
    assert state(remade, "findings", 2).damage == ""
    assert remade.create("findings", 10).version == 2


@pytest.mark.parametrize("place", ["ware%20house", "s3://bucket/a%2Fb"])
def test_a_place_that_the_delta_library_reads_otherwise_is_refused(place: str):
    with pytest.raises(WarehouseError, match="percent sign before two hexadecimal digits"):
        Store(place)


def test_a_commit_of_a_run_carries_its_id(store: Store):
    run = Run(store, 1).whole()
    assert opened(store, "findings").history(1)[0][RUN_PROPERTY] == run.run_id


def test_a_path_with_special_characters_is_like_any(tmp_path: Path):
    store = Store(str(tmp_path / "it's 100% #1? [a]*"))
    Run(store, 1).whole()
    Run(store, 2).commit("findings")
    assert begin(store).undone == ("findings",)
    shutil.rmtree(store.path("findings"))
    with pytest.raises(WarehouseError, match="the table is missing"):
        begin(store)
