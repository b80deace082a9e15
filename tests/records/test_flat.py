import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.records.arrays import MachineColumns
from coordinator_replay.records.flat import run_flat
from coordinator_replay.records.kinds import record_kinds
from coordinator_replay.records.machine import run
from coordinator_replay.records.program import compile_struct
from coordinator_replay.records.scalar import encode_value
from tests.records.strategies import structs

COMMIT = record_kinds()[1]
FLAT = [
    version
    for version in range(5)
    if version in COMMIT.value.versions and compile_struct(COMMIT.value, version).is_flat
]


def spans(values):
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    return np.frombuffer(b"".join(values), np.uint8), ends - [len(value) for value in values], ends


def fields_of(program, columns):
    """The values of every field."""
    widths = {"int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}
    fields = {}
    for node in program.root.fields:
        match node.field.type:
            case "string":
                array = columns.strings(node.column)
            case "uuid":
                array = columns.ids(node.column)
            case number:
                array = columns.integers(node.column, widths[number])
        array.validate(full=True)
        fields[node.field.name] = array.to_pylist()
    return fields


@st.composite
def commit_values(draw):
    version = draw(st.sampled_from(FLAT))
    values = draw(st.lists(structs(COMMIT.value, version), min_size=1, max_size=6))
    return version, [encode_value(COMMIT.name, version, value)[2:] for value in values]


@given(commit_values())
def test_what_runs_flat_is_what_the_machine_says(drawn):
    version, values = drawn
    program = compile_struct(COMMIT.value, version)
    data, *bounds = spans(values)
    flat, whole = run_flat(program, data, *bounds), run(program, data, *bounds)
    if flat is None:
        return
    assert not whole.status.any()
    assert fields_of(program, flat) == fields_of(program, MachineColumns(whole, data))


def test_all_versions_of_a_commit_run_flat():
    assert FLAT == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("version", FLAT)
def test_plain_commits_run_flat_however_many_there_are(version):
    value = {"offset": 5, "leaderEpoch": 3, "metadata": "é", "commitTimestamp": 7, "expireTimestamp": -1}
    known = {field.name for field in COMMIT.value.fields if version in field.versions}
    plain = encode_value(COMMIT.name, version, {name: value[name] for name in value if name in known})[2:]
    program = compile_struct(COMMIT.value, version)
    columns = run_flat(program, *spans([plain] * 5000))
    assert columns is not None
    for name, values in fields_of(program, columns).items():
        assert values == [value.get(name)] * 5000


@given(commit_values(), st.data())
def test_any_row_that_is_damaged_leaves_all_to_the_machine(drawn, data):
    version, values = drawn
    place = data.draw(st.integers(0, len(values) - 1))
    values[place] = values[place][:-1]
    program = compile_struct(COMMIT.value, version)
    if run(program, *spans(values)).status.any():
        assert run_flat(program, *spans(values)) is None
