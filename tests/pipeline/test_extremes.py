"""The first and last records of stretches: files, Spark and a plain loop say the same."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_replay.pipeline.delta_log import HeldFile
from coordinator_replay.pipeline.extremes import Extremes, extremes_of, moment_of
from coordinator_replay.pipeline.positions import Stretch

pytestmark = pytest.mark.spark

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = pa.schema(
    [
        ("cluster", pa.string()),
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("missing_before", pa.int64()),
        ("log_timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
BOUNDED = [name for name in COLUMNS.names if name != "missing_before"]


class Tables:
    """A warehouse of files; ``knows_files`` says whether it lets tasks read them."""

    def __init__(self, spark, folder, tables):
        self.spark = spark
        self.files = {}
        self.knows_files = True
        for name, files in tables.items():
            self.files[name] = [
                self.write(f"{folder}/{name}-{number}.parquet", rows) for number, rows in enumerate(files)
            ]

    def write(self, path, rows):
        pq.write_table(pa.Table.from_pylist(rows, COLUMNS), path, row_group_size=3)
        told = {name: [row[name] for row in rows if row[name] is not None] for name in BOUNDED}
        lowest, highest = ({name: how(of) for name, of in told.items() if of} for how in (min, max))
        return HeldFile(path, lowest, highest, {}, len(rows))

    def held(self, name):
        return self.files[name] if self.knows_files else None

    def read(self, name):
        paths = [file.path for file in self.files[name]]
        return self.spark.read.parquet(*paths)


def second(number):
    return None if number is None else BEGIN + timedelta(seconds=number)


def micros(moment):
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


seconds = st.none() | st.integers(0, 9)
positions = st.tuples(st.integers(0, 3), st.integers(0, 20))
stretch = st.builds(
    Stretch,
    st.none() | st.integers(0, 2),
    st.integers(0, 15),
    st.none() | st.integers(1, 21),
    seconds.map(second),
)


def lies_in(row, stretches):
    named = {one.log_partition for one in stretches if one.log_partition is not None}
    for one in stretches:
        is_there = row["log_partition"] not in named if one.log_partition is None else True
        is_there &= one.log_partition in (None, row["log_partition"]) and row["log_offset"] >= one.first
        is_there &= one.end is None or row["log_offset"] < one.end
        if is_there and (one.since is None or (row["log_timestamp"] and row["log_timestamp"] >= one.since)):
            return True
    return False


@settings(max_examples=8)
@given(
    placed=st.dictionaries(positions, st.tuples(seconds, st.sampled_from("ccd"), st.integers(0, 4)), min_size=1),
    stretches=st.lists(stretch, min_size=1, max_size=3),
)
def test_files_and_spark_say_what_a_loop_says(spark, tmp_path_factory, placed, stretches):
    rows = [
        {
            "cluster": cluster,
            "log_partition": partition,
            "log_offset": offset,
            "missing_before": offset // 2,
            "log_timestamp": second(at),
            "file": file,
        }
        for (partition, offset), (at, cluster, file) in sorted(placed.items())
    ]
    by_file = [[row for row in rows if row["file"] == number] or rows[:1] for number in range(5)]
    tables = Tables(
        spark, tmp_path_factory.mktemp("tables"), {"offset_commits": by_file[:2], "group_records": by_file[2:]}
    )
    expected = {}
    for row in rows:
        if row["cluster"] == "c" and lies_in(row, stretches):
            times = () if row["log_timestamp"] is None else (micros(row["log_timestamp"]),) * 2
            told = Extremes(row["log_offset"], row["log_offset"], row["missing_before"], *(times or (None, None)))
            mine = expected.get(row["log_partition"])
            expected[row["log_partition"]] = told if mine is None else mine.both(told)
    for tables.knows_files in (True, False):
        assert extremes_of(tables, "c", ["offset_commits", "group_records"], stretches) == expected


def test_what_two_parts_reach_to_is_told_by_both():
    one, other = Extremes(1, 5, 2, None, None), Extremes(3, 9, 4, 10, 20)
    assert one.both(other) == other.both(one) == Extremes(1, 9, 4, 10, 20)


def test_moments_are_exact():
    assert moment_of(micros(BEGIN) + 1) == BEGIN + timedelta(microseconds=1)


def test_files_that_cannot_hold_a_stretch_are_not_opened(spark, tmp_path):
    row = {"cluster": "c", "log_partition": 0, "log_offset": 5, "missing_before": 0, "log_timestamp": BEGIN}
    later = row | {"log_offset": 50, "log_timestamp": second(9)}
    tables = Tables(spark, tmp_path, {"offset_commits": [[row], [later]]})
    (tmp_path / "offset_commits-0.parquet").unlink()
    near = Extremes(50, 50, 0, micros(second(9)), micros(second(9)))
    for stretches in ([Stretch(0, 6)], [Stretch(None, since=second(1))], [Stretch(0, 6), Stretch(None)]):
        assert extremes_of(tables, "c", ["offset_commits"], stretches) == {0: near}
    assert extremes_of(tables, "d", ["offset_commits"], [Stretch(None)]) == {}
    assert extremes_of(tables, "c", ["offset_commits"], []) == {}
