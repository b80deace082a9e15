"""Files that workers write: what they hold, and what Delta's log has of them."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.errors import CoordinatorReplayError
from coordinator_replay.store.writer import FileWriter, Part, Purge, batch_of, conform

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema([("name", pa.string()), ("number", pa.int64()), ("at", MOMENT), ("many", pa.list_(pa.int32()))])


def write(folder, rows, **options):
    files = FileWriter()
    files.add(Part("p", str(folder), SCHEMA, **options), pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    return files.close()


def moment(text):
    return datetime.fromisoformat(text)


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "name": st.none() | st.text(st.characters(codec="utf-8"), max_size=50),
                "number": st.none() | st.integers(-(2**63), 2**63 - 1),
                "at": st.none() | st.integers(0, 7 * 10**15).map(lambda us: EPOCH + timedelta(microseconds=us)),
            }
        ),
        min_size=1,
        max_size=20,
    )
)
def test_bounds_enclose_every_value_and_nulls_are_counted(tmp_path_factory, rows):
    [file] = write(tmp_path_factory.mktemp("part"), rows, bounded=("name", "number", "at"))
    stats = json.loads(file.stats)
    assert stats["numRecords"] == file.rows == len(rows)
    for column in ("name", "number", "at"):
        values = [row[column] for row in rows if row[column] is not None]
        assert stats["nullCount"][column] == len(rows) - len(values)
        low, high = stats["minValues"].get(column), stats["maxValues"].get(column)
        if column == "at":
            low, high = (bound and moment(bound) for bound in (low, high))
        if column == "name":
            values = [value.encode() for value in values]
            low, high = (bound if bound is None else bound.encode() for bound in (low, high))
        assert low is None or all(low <= value for value in values)
        assert high is None or all(value <= high for value in values)


def test_a_bound_of_time_is_written_in_milliseconds_and_never_too_tight(tmp_path):
    at = datetime(2026, 11, 21, 2, 13, 0, 1500, tzinfo=UTC)
    [file] = write(tmp_path, [{"at": at}], bounded=("at",))
    stats = json.loads(file.stats)
    assert stats["minValues"] == {"at": "2026-11-21T02:13:00.001Z"}
    assert stats["maxValues"] == {"at": "2026-11-21T02:13:00.002Z"}


def test_what_is_read_back_is_what_was_written(tmp_path):
    rows = [{"name": "a", "number": 1, "at": datetime(2026, 1, 1, tzinfo=UTC), "many": [1, 2]}, {"name": "b"}]
    [file] = write(tmp_path, rows)
    table = pq.read_table(file.path)
    assert table.schema.field("at").type == MOMENT
    assert table.to_pylist() == [{name: row.get(name) for name in SCHEMA.names} for row in rows]
    assert (tmp_path / file.path.rsplit("/", 1)[1]).stat().st_size == file.size


def test_no_rows_make_no_file(tmp_path):
    files = FileWriter()
    files.add(Part("p", str(tmp_path / "p"), SCHEMA), pa.RecordBatch.from_pylist([], schema=SCHEMA))
    assert files.close() == []
    assert not (tmp_path / "p").exists()


def test_a_missing_value_where_every_row_must_have_one_is_an_error(tmp_path):
    with pytest.raises(CoordinatorReplayError, match=r"p\.name: a row has no value"):
        write(tmp_path, [{"name": "a"}, {"number": 1}], required=("name",))


def test_rows_of_plain_values_have_times_in_milliseconds():
    batch = batch_of([{"at": 1_500, "many": [7]}, {}], SCHEMA)
    assert batch.column("at").to_pylist() == [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=1500), None]
    assert batch.column("many").to_pylist() == [[7], None]


def test_what_no_column_can_hold_is_null_and_its_neighbours_stay():
    batch = batch_of([{"name": "\ud800", "number": 2**70, "at": 2**62}, {"name": "a", "number": 1, "at": 0}], SCHEMA)
    assert batch.to_pylist() == [
        {"name": None, "number": None, "at": None, "many": None},
        {"name": "a", "number": 1, "at": datetime(1970, 1, 1, tzinfo=UTC), "many": None},
    ]


def test_conform_takes_given_values_before_those_of_the_batch():
    batch = pa.RecordBatch.from_pydict({"number": pa.array([1, 2], pa.int32()), "other": ["x", "y"]})
    rows = conform(batch, SCHEMA, name="all", at=pa.nulls(2, MOMENT))
    assert rows.to_pylist() == [{"name": "all", "number": n, "at": None, "many": None} for n in (1, 2)]


def test_rows_that_a_table_has_purged_are_not_written(tmp_path):
    purge = Purge("at", datetime(2026, 1, 2, tzinfo=UTC), "number")
    moments = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 1, 2)]
    rows = [{"name": "old", "number": 1}, {"name": "not final"}, {"name": "young", "number": 1}, {"name": "open"}]
    for row, at in zip(rows, moments, strict=False):
        row["at"] = at
    [file] = write(tmp_path, rows, purge=purge)
    assert pq.read_table(file.path).column("name").to_pylist() == ["not final", "young", "open"]
