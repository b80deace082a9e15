"""A log audited in slices ends in the tables that one audit of all of it gives."""

import shutil
from pathlib import Path

import pytest
from coordinator_replay.pipeline.evolution import set_property
from coordinator_replay.pipeline.keeping import FORGETFUL
from coordinator_replay.pipeline.night_fold import fold_night
from coordinator_replay.pipeline.offset_tables import OFFSET_TABLES
from coordinator_replay.pipeline.replay import GROUP_TABLES
from coordinator_replay.pipeline.warehouse import Warehouse

from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.log.segment import walk_batches
from coordinator_replay.pipeline import audit as audit_module
from coordinator_replay.pipeline import group_tables
from coordinator_replay.pipeline.audit import FOUND_TABLES, Options, run_audit
from coordinator_replay.store.maintain import Upkeep, run_maintain
from coordinator_replay.tables.migrations import KEPT_SINCE_PROPERTY
from tests.samples import Sample

pytestmark = pytest.mark.spark


def cut(segments: str, into: list[Path]) -> None:
    """Cut each segment at batch boundaries into as many files as there are folders."""
    for file in Path(segments).rglob("*.log"):
        raw = file.read_bytes()
        starts = [(int(p), int(o)) for s in walk_batches(raw) for p, o in zip(s.positions, s.base_offsets, strict=True)]
        marks = [starts[len(starts) * part // len(into)] for part in range(len(into))] if starts else []
        for (start, base), end, folder in zip(marks, [mark[0] for mark in marks[1:]] + [len(raw)], into, strict=False):
            place = folder / file.parent.name
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{base:020d}.log").write_bytes(raw[start:end])


TABLES = ("offset_commits", "group_records", "control_records", "topics", *GROUP_TABLES, *OFFSET_TABLES, *FOUND_TABLES)


QUICK = Thresholds(stuck_ms=2000, storm_rebalances=6, silent_ms=5000, patience=1, never_committed_ms=5000)
"""So that lives of seconds have findings."""


def content(spark, warehouse, table):
    rows = spark.read.format("delta").load(f"{warehouse}/{table}").drop("run_id").collect()
    return sorted(repr(row.asDict(recursive=True)) for row in rows)


@pytest.fixture(scope="module")
def sample():
    return Sample("java-clients")


@pytest.fixture(scope="module")
def nights(sample, tmp_path_factory):
    """The log in two parts, as two nights would bring them."""
    folder = tmp_path_factory.mktemp("nights")
    slices = [folder / f"night-{number}" for number in (1, 2)]
    cut(sample.segments, slices)
    return slices


@pytest.fixture(scope="module")
def whole(spark, sample, tmp_path_factory):
    """What one run over everything leaves, by table."""
    warehouse = str(tmp_path_factory.mktemp("whole") / "warehouse")
    run_audit(spark, Options(inputs=[sample.segments], warehouse=warehouse, thresholds=QUICK))
    found = spark.read.format("delta").load(f"{warehouse}/findings").select("rule").distinct().collect()
    assert {row["rule"] for row in found} >= {"stuck_group", "rebalance_storm", "offset_rewind", "silent_group"}
    return {table: content(spark, warehouse, table) for table in (*TABLES, "group_state")}


@pytest.mark.parametrize(
    ("order", "by_spark"),
    [((0, 1), False), ((0, 1), True), pytest.param((1, 0), False, marks=pytest.mark.long)],
    ids=["in order", "in order, by Spark alone", "one late"],
)
def test_nights_end_in_the_tables_of_one_run_over_everything(
    order, by_spark, spark, nights, whole, tmp_path, monkeypatch
):
    folded = []
    monkeypatch.setattr(group_tables, "fold_night", lambda *of: folded.append(fold_night(*of)) or folded[-1])
    if by_spark:
        # As on an object store, whose files tasks do not look for by themselves.
        monkeypatch.setattr(Warehouse, "held", lambda *_: None)
    warehouse = str(tmp_path / "warehouse")
    for night in order:
        summary = run_audit(spark, Options(inputs=[str(nights[night])], warehouse=warehouse, thresholds=QUICK))
    went_on = any("went on from where it ended" in note for note in summary.run.notes)
    assert went_on == (order == (0, 1))
    assert [one is not None for one in folded] == [True] * (went_on and not by_spark)
    for table, rows in whole.items():
        assert content(spark, warehouse, table) == rows, table
    # Other thresholds, no news: every group is judged anew.
    again = run_audit(spark, Options(inputs=[str(nights[0])], warehouse=warehouse))
    assert again.findings == {"warning": 1}


@pytest.mark.parametrize("between", ["upkeep", "a limit to what is kept", "another cluster"])
def test_a_night_is_folded_from_files_whatever_else_the_warehouse_has_seen(
    between, spark, nights, whole, tmp_path, monkeypatch
):
    warehouse, folded = str(tmp_path / "warehouse"), []
    monkeypatch.setattr(group_tables, "fold_night", lambda *of: folded.append(fold_night(*of)) or folded[-1])

    def audit(*dumps, cluster="default"):
        inputs = [str(dump) for dump in dumps]
        run_audit(spark, Options(inputs=inputs, warehouse=warehouse, thresholds=QUICK, cluster=cluster))

    if between == "a limit to what is kept":
        tables = Warehouse(spark, warehouse)
        for name in FORGETFUL:
            tables.ensure(name)
            set_property(spark, tables.path(name), KEPT_SINCE_PROPERTY, "2000-01-01T00:00:00+00:00")
    audit(nights[0])
    if between == "upkeep":
        run_maintain(Upkeep(warehouse=warehouse))
    elif between == "another cluster":
        audit(*nights, cluster="another")
    audit(nights[1])
    assert [one is not None for one in folded] == [True]
    for table, rows in whole.items():
        mine = [row for row in content(spark, warehouse, table) if "'cluster': 'default'" in row]
        assert mine == rows, table


@pytest.mark.long
def test_nights_of_hours_add_what_is_new_to_what_commits_came_to(spark, tmp_path, monkeypatch):
    """The samples last minutes, and what the last ten of a log come to is always added up again."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    from benchmarks.dump import make_dump

    from coordinator_replay.pipeline import audit

    dump = make_dump(tmp_path / "dump", records=40_000, partitions=1)
    slices = [tmp_path / f"night-{number}" for number in (1, 2, 3)]
    cut(str(dump), slices)
    since = []
    ask = audit.totals_since
    monkeypatch.setattr(audit, "totals_since", lambda *asked: since.append(ask(*asked)) or since[-1])
    for night in slices:
        run_audit(spark, Options(inputs=[str(night)], warehouse=str(tmp_path / "nights")))
    # With several log partitions, a night may begin before the totals, since they end at times far apart.
    assert len(since) == 2
    assert all(since)
    run_audit(spark, Options(inputs=[str(dump)], warehouse=str(tmp_path / "whole")))
    for table in (*TABLES, "group_state"):
        assert content(spark, tmp_path / "nights", table) == content(spark, tmp_path / "whole", table), table


def joined(nights: list[Path], folder: Path) -> str:
    """Two nights in one folder: the log as the second night finds it, with a segment more in each partition."""
    for night in nights:
        shutil.copytree(night, folder, dirs_exist_ok=True)
    return str(folder)


def test_what_held_in_a_log_partition_that_is_silent_for_a_night_goes_on(spark, tmp_path, monkeypatch):
    """Its last commits are older than all of the night's, so that no file of them is read."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    from benchmarks.dump import make_dump

    dump = make_dump(tmp_path / "dump", records=20_000, partitions=2)
    slices = [tmp_path / f"part-{number}" for number in range(4)]
    cut(str(dump), slices)
    for number in (1, 2, 3):
        shutil.rmtree(slices[number] / "__consumer_offsets-1")
    nights = [[str(part) for part in slices[:3]], [str(slices[3])]]
    for night in nights:
        run_audit(spark, Options(inputs=night, warehouse=str(tmp_path / "nights")))
    run_audit(spark, Options(inputs=[one for night in nights for one in night], warehouse=str(tmp_path / "whole")))
    for name in TABLES:
        assert content(spark, tmp_path / "nights", name) == content(spark, tmp_path / "whole", name), name
    held = Warehouse(spark, str(tmp_path / "nights")).read("offset_history").where("to_offset IS NULL")
    assert {row["log_partition"] for row in held.select("log_partition").distinct().collect()} == {0, 1}


@pytest.mark.long
def test_a_dump_that_has_grown_costs_what_is_new(spark, sample, nights, whole, tmp_path):
    warehouse = str(tmp_path / "warehouse")

    def audit(dump):
        return run_audit(spark, Options(inputs=[dump], warehouse=warehouse, thresholds=QUICK)).run

    first = audit(str(nights[0]))
    grown = audit(joined(nights, tmp_path / "grown"))
    assert grown.records_read == len(sample.decoded) - first.records_read
    assert any(note.startswith("4 files of ") and " not opened: " in note for note in grown.notes), grown.notes
    assert (grown.already_audited, grown.duplicates_dropped, grown.gaps) == (0, 0, [])
    for table, rows in whole.items():
        assert content(spark, warehouse, table) == rows, table
    nothing = audit(sample.segments)
    assert (nothing.records_read, nothing.gaps) == (0, [])
    assert (nothing.from_offsets, nothing.to_offsets) == (grown.from_offsets, grown.to_offsets)
    assert any(note.startswith(f"nothing new: {len(sample.decoded)} records of others") for note in nothing.notes)
    for table, rows in whole.items():
        assert content(spark, warehouse, table) == rows, table


def test_what_is_missing_is_counted_on_over_what_was_passed_over(spark, tmp_path):
    """A compacted log, whose records lie apart; the second dump holds the first one's stretch in the same files."""
    sample, slices = Sample("compacted"), [tmp_path / "night-1", tmp_path / "night-2"]
    cut(sample.segments, slices)

    def audit(warehouse, *dumps, **options):
        chosen = {"warehouse": str(tmp_path / warehouse), "records_only": True, "thresholds": QUICK, **options}
        return [run_audit(spark, Options(inputs=[str(dump)], **chosen)).run for dump in dumps]

    (once,) = audit("once", sample.segments)
    first, second = audit("twice", slices[0], sample.segments)
    assert 0 < second.records_read < once.records_read
    assert once.records_read <= first.records_read + second.records_read < once.records_read + 20
    records = ("offset_commits", "group_records", "control_records")
    for table in records:
        assert content(spark, tmp_path / "twice", table) == content(spark, tmp_path / "once", table), table
    # Files that the log has lost are read for what else they hold, wherever it lies.
    audit("late", sample.segments, sample.segments, include_deleted=True)
    (everything,) = audit("all", sample.segments, include_deleted=True)
    assert everything.records_read > once.records_read
    for table in records:
        late, complete = (content(spark, tmp_path / name, table) for name in ("late", "all"))
        assert len(late) == len(complete), table


@pytest.mark.long
def test_what_a_killed_run_left_is_made_up_for(spark, nights, whole, tmp_path, monkeypatch):
    """Killed after two of the group tables were written: these have rows that the snapshots know nothing of."""
    warehouse = str(tmp_path / "warehouse")
    run_audit(spark, Options(inputs=[str(nights[0])], warehouse=warehouse, thresholds=QUICK))
    write = Warehouse.swap

    def killed(self, name, *arguments):
        if name == GROUP_TABLES[2]:
            raise KeyboardInterrupt
        return write(self, name, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "swap", killed)
        with pytest.raises(KeyboardInterrupt):
            run_audit(spark, Options(inputs=[str(nights[1])], warehouse=warehouse, thresholds=QUICK))
    run_audit(spark, Options(inputs=[str(nights[1])], warehouse=warehouse, thresholds=QUICK))
    for table, rows in whole.items():
        assert content(spark, warehouse, table) == rows, table


def test_records_that_a_killed_run_left_behind_the_end_are_not_written_twice(
    spark, nights, whole, tmp_path, monkeypatch
):
    """Not even where a run without news came in between, in whose eyes the tables are as they should be."""
    warehouse = str(tmp_path / "warehouse")

    def audit(night):
        run_audit(spark, Options(inputs=[str(nights[night])], warehouse=warehouse, thresholds=QUICK))

    def killed(*_, **__):
        raise KeyboardInterrupt

    audit(0)
    with monkeypatch.context() as patch:
        patch.setattr(audit_module, "write_group_tables", killed)
        with pytest.raises(KeyboardInterrupt):
            audit(1)
    audit(0)
    audit(1)
    for table, rows in whole.items():
        assert content(spark, warehouse, table) == rows, table


@pytest.mark.long
def test_a_full_run_makes_up_for_one_that_wrote_records_only(spark, sample, whole, tmp_path):
    warehouse = str(tmp_path / "warehouse")
    run_audit(spark, Options(inputs=[sample.segments], warehouse=warehouse, thresholds=QUICK, records_only=True))
    assert not content(spark, warehouse, "offset_history")
    run_audit(spark, Options(inputs=[sample.segments], warehouse=warehouse, thresholds=QUICK))
    for table, rows in whole.items():
        assert content(spark, warehouse, table) == rows, table
