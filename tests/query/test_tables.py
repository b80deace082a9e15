import shutil
from pathlib import Path

import pytest

from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.query.diff import Side
from coordinator_replay.query.similar import nearest
from coordinator_replay.query.tables import Tables
from coordinator_replay.query.times import parse_time
from tests.query.small_warehouse import at, log_partition, write_rows, write_small_warehouse


def test_coverage_is_that_of_the_cluster_and_its_last_finished_audit(warehouse: Tables):
    assert warehouse.clusters == ("default", "other")
    covered = warehouse.coverage
    assert (covered.first, covered.last, covered.audited_at) == (at("02:00"), at("02:20"), at("03:00"))


def test_coverage_of_a_cluster_that_shares_files_with_others_is_its_own(folder: Path):
    covered = Tables(str(folder), "other").coverage
    assert (covered.first, covered.last) == (at("01:00"), at("05:00"))


def test_times_count_from_the_end_of_the_log_where_a_control_record_is_its_last(tmp_path: Path):
    ends = [log_partition(1, "02:02", "02:25"), log_partition(3, "02:00", "02:20")]
    warehouse = Tables(str(write_small_warehouse(tmp_path, log_partitions=ends)), "default")
    assert warehouse.completeness.log_end == at("02:25")
    assert warehouse.coverage.last == at("02:25")
    times = [parse_time(text) for text in ("now", "-5m")]
    assert [warehouse.resolve(time) for time in times] == [at("02:25"), at("02:20")]
    assert Side(warehouse, at("02:25")).exact_partitions == Side(warehouse).exact_partitions


def test_moments_that_no_record_can_tell_are_refused(warehouse: Tables):
    with pytest.raises(
        UsageError, match=r"01:59:59.000Z lies before the start of the log: .* from 2026-11-20T02:00:00.000Z to"
    ):
        warehouse.check_moment(at("01:59:59"))
    with pytest.raises(UsageError, match="lies after the last audit"):
        warehouse.check_moment(at("03:00:01"))
    assert warehouse.check_moment(at("02:00")) is None
    assert warehouse.check_moment(at("02:20")) is None
    assert warehouse.check_moment(None) is None
    assert "ends at 2026-11-20T02:20:00.000Z" in (warehouse.check_moment(at("02:59")) or "")


def test_time_ranges_must_touch_what_is_covered(warehouse: Tables):
    warehouse.check_range(at("01:00"), at("02:00:01"))
    warehouse.check_range(at("02:20"), None)
    for start, end in ((at("02:21"), None), (None, at("02:00")), (at("02:10"), at("02:10"))):
        with pytest.raises(UsageError, match="time range"):
            warehouse.check_range(start, end)


def test_unknown_cluster_names_those_there_are(folder: Path):
    with pytest.raises(UsageError, match="does not know the cluster 'prod'; it has 'default', 'other'"):
        _ = Tables(str(folder), "prod").coverage


def test_missing_warehouse_and_missing_table_are_told_apart(tmp_path: Path):
    with pytest.raises(WarehouseError, match=r"no warehouse at .*nowhere: the folder does not exist"):
        Tables(str(tmp_path / "nowhere")).rows("SELECT 1 FROM rebalances")
    with pytest.raises(WarehouseError, match=r"the ledger audit_runs is not there; run coordinator-replay audit"):
        Tables(str(tmp_path)).rows("SELECT 1 FROM rebalances")


def test_a_damaged_table_is_one_sentence(tmp_path: Path):
    write_rows(tmp_path, "audit_runs", [])
    log = tmp_path / "rebalances" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{damaged")
    with pytest.raises(WarehouseError, match="can't be read"):
        Tables(str(tmp_path)).rows("SELECT 1 FROM rebalances")


def test_names_alike_are_found_by_spelling_and_by_part():
    assert nearest("paymnts", ["payments", "orders"]) == "payments"
    assert nearest("pay", ["payments-eu-service", "orders"]) == "payments-eu-service"
    assert nearest("ORDERS", ["orders"]) == "orders"
    assert nearest("xyz", ["payments", "orders"]) is None
    assert nearest("group-7", [f"group-{number}" for number in range(30_000)]) == "group-7"


def test_a_table_that_no_run_has_written_yet_is_empty(tmp_path: Path):
    folder = write_small_warehouse(tmp_path / "warehouse")
    shutil.rmtree(folder / "findings")
    opened = Tables(str(folder))
    assert opened.rows("SELECT finding_id, severity FROM findings WHERE cluster = $cluster") == []
    assert opened.rows("SELECT count(*) FROM rebalances WHERE cluster = $cluster") == [(3,)]
