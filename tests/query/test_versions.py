"""Which version of a table is read: the one that finished runs have left, on a folder and behind an S3 API alike."""

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from coordinator_replay.errors import WarehouseError
from coordinator_replay.query.tables import Tables
from coordinator_replay.store.opening import delta_uri
from coordinator_replay.store.warehouse import Store
from tests.nightly import rest_at_night
from tests.store.warehouses import Run

OFFSETS = "SELECT log_offset FROM offset_commits ORDER BY 1"
EPOCHS = "SELECT epoch FROM rebalances WHERE cluster = $cluster ORDER BY 1"


@pytest.fixture(params=rest_at_night(["local", "s3"], ["local"]))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    place = str(tmp_path) if request.param == "local" else request.getfixturevalue("s3")
    return Store(f"{place}/it's a warehouse")


def ask(store: Store, sql: str) -> list[int]:
    return [value for (value,) in Tables(store.uri).rows(sql)]


def opened(store: Store, name: str) -> DeltaTable:
    return DeltaTable(delta_uri(store.path(name)))


def test_what_an_unfinished_run_has_written_is_not_seen(store: Store):
    Run(store, 1).whole()
    second = Run(store, 2)
    second.commit("offset_commits")
    assert ask(store, OFFSETS) == [1]
    second.commit("rebalances")
    assert ask(store, EPOCHS) == [1, 2]
    second.finish()
    assert ask(store, OFFSETS) == [1, 2]
    assert ask(store, EPOCHS) == [1, 2, 3]


def test_a_first_run_that_was_killed_leaves_a_warehouse_without_rows(store: Store):
    Run(store, 1).commit("offset_commits")
    assert ask(store, OFFSETS) == []


def test_upkeep_by_others_does_not_matter_and_its_files_are_read(store: Store):
    Run(store, 1).whole()
    Run(store, 2, "it's % other").whole()
    Run(store, 3).whole()
    opened(store, "offset_commits").optimize.compact()
    assert ask(store, OFFSETS) == [1, 2, 3]
    Run(store, 4).commit("offset_commits")
    assert ask(store, OFFSETS) == [1, 2, 3]


def test_damage_is_told_in_a_sentence(store: Store, remove: Callable[[str], None]):
    Run(store, 1).whole()
    Run(store, 2).whole()
    opened(store, "offset_commits").delete("log_offset = 1")
    with pytest.raises(WarehouseError, match="offset_commits was changed by somebody else: version 3 is a DELETE"):
        ask(store, OFFSETS)
    opened(store, "rebalances").restore(1)
    with pytest.raises(WarehouseError, match=r"version 3 is a RESTORE.*--full"):
        ask(store, EPOCHS)
    remove(store.path("rebalances"))
    with pytest.raises(WarehouseError, match=r"rebalances: the table is missing, the last audit left it at version 2"):
        ask(store, EPOCHS)
    # Others are not concerned.
    assert ask(store, "SELECT count(*) FROM findings") == [2]


def test_a_table_that_lost_a_file_is_told_in_a_sentence(store: Store, remove: Callable[[str], None]):
    Run(store, 1).whole()
    snapshot = store.snapshot("rebalances")
    assert snapshot is not None
    remove(snapshot.every[0].uri)
    with pytest.raises(WarehouseError, match="can't be read"):
        ask(store, EPOCHS)
