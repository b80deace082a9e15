import json
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.errors import DefinitionError
from coordinator_replay.tables.definition import MOST_COMMENT_BYTES, SCALARS, parse_type, table, tables
from coordinator_replay.tables.names import table_names
from coordinator_replay.tables.views import views, views_in

FOLDER = Path(__file__).parents[2] / "schemas" / "tables"
ENTRIES = {"name", "about", "keys", "clustering", "partitioned_by", "columns"}
MOST_CLUSTERING = 4
"""Delta takes no more clustering columns."""


def test_names_are_those_of_the_definitions():
    assert table_names() == tuple(sorted(tables()))
    assert {name: definition.name for name, definition in tables().items()} == {name: name for name in table_names()}


def test_definition_files_stand_one_column_a_line():
    for path in FOLDER.glob("*.json"):
        lines = path.read_text(encoding="utf-8").splitlines()
        columns = json.loads(path.read_text(encoding="utf-8"))["columns"]
        assert [json.loads(line.strip().removesuffix(",")) for line in lines if line.startswith("    {")] == columns


def test_pending_offsets_have_the_columns_of_offset_history_but_for_expiry_and_the_producer():
    apart = {"bucket", "is_open", "rule", "base_timestamp", "is_protected", "last_owner_member_id", "last_state"}
    history, pending = (
        [(column.name, column.type) for column in table(name).columns if column.name not in apart]
        for name in ("offset_history", "pending_offsets")
    )
    assert pending == [
        *history,
        ("producer_id", "bigint"),
        ("producer_epoch", "smallint"),
        ("pending_since", "timestamp"),
        ("pending_since_offset", "bigint"),
    ]


def test_a_column_has_one_type_in_all_tables():
    types: dict[str, set[str]] = {}
    for definition in tables().values():
        for column in definition.columns:
            # The minute of group_metrics has the name that other tables have for a partition column.
            if (definition.name, column.name) != ("group_metrics", "bucket"):
                types.setdefault(column.name, set()).add(column.type)
    assert {name: found for name, found in types.items() if len(found) > 1} == {}


def test_arrow_schema_has_utc_microseconds_and_comments():
    schema = table("member_timeline").arrow_schema()
    assert schema.field("valid_from").type == pa.timestamp("us", tz="UTC")
    assert schema.field("assigned").type == pa.list_(
        pa.struct([("topic_id", pa.string()), ("topic", pa.string()), ("partitions", pa.list_(pa.int32()))])
    )
    assert schema.field("valid_from").metadata == {
        b"comment": table("member_timeline").column("valid_from").about.encode()
    }
    assert all(field.nullable for field in schema)


def test_arrow_schema_can_be_a_selection_in_an_order_of_its_own():
    assert table("findings").arrow_schema(["rule", "cluster"]).names == ["rule", "cluster"]
    with pytest.raises(DefinitionError, match="findings has no column 'ruel'"):
        table("findings").arrow_schema(["ruel"])


def test_unknown_table_is_refused_by_name():
    with pytest.raises(DefinitionError, match="no table 'offsets'"):
        table("offsets")


scalar_types = st.sampled_from(sorted(SCALARS))
names = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)
any_type = st.recursive(
    scalar_types,
    lambda inner: st.one_of(
        inner.map("array<{}>".format),
        st.tuples(inner, inner).map(lambda pair: f"map<{pair[0]},{pair[1]}>"),
        st.lists(st.tuples(names, inner), min_size=1, max_size=3).map(
            lambda fields: f"struct<{','.join(f'{name}:{type_}' for name, type_ in fields)}>"
        ),
    ),
    max_leaves=6,
)


def spelled(type_: pa.DataType) -> str:
    """The text form of an Arrow type, found independently of the parser."""
    if pa.types.is_list(type_):
        return f"array<{spelled(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{spelled(type_.key_type)},{spelled(type_.item_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{','.join(f'{field.name}:{spelled(field.type)}' for field in type_)}>"
    return next(name for name, scalar in SCALARS.items() if scalar == type_)


@given(any_type)
def test_every_type_of_the_grammar_reads_back_as_written(text):
    assert spelled(parse_type(text)) == text


@pytest.mark.parametrize("text", ["text", "array<text>", "struct<a:int,b:date>", "", "array", "map<int,x>"])
def test_what_is_no_type_is_refused(text):
    with pytest.raises(DefinitionError, match="is no type"):
        parse_type(text)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_definition_keeps_the_grammar(path):
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert set(raw) - {"internal"} == ENTRIES
    assert raw.get("internal", True) is True
    assert (raw["name"], bool(raw["about"])) == (path.stem, True)
    for column in raw["columns"]:
        assert {"name", "type", "about"} <= set(column) <= {"name", "type", "required", "about"}, column
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", column["name"]), column
        assert column["about"] and column.get("required", True) is True, column
        assert spelled(parse_type(column["type"])) == column["type"], column
    types = {column["name"]: column["type"] for column in raw["columns"]}
    assert len(types) == len(raw["columns"])
    assert "cluster" in types and raw["keys"] and len(raw["clustering"]) <= MOST_CLUSTERING
    # What is nested can be no key, clustering or partition column.
    assert all(types[name] in SCALARS for part in ("keys", "clustering", "partitioned_by") for name in raw[part])


@pytest.mark.parametrize("view", views().values(), ids=lambda view: view.name)
def test_a_view_is_a_comment_that_says_what_it_is_for_and_a_select(view):
    assert view.about
    assert view.sql.startswith("SELECT")


def test_views_run_over_the_tables_of_the_contract():
    connection = duckdb.connect()
    for name, definition in tables().items():
        connection.register(name, definition.arrow_schema().empty_table())
    for view in views_in(" ".join(views())):
        connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
    columns = [column[0] for column in connection.execute("SELECT * FROM event_log").description]
    assert columns[:3] == ["case_id", "activity", "timestamp"]


def test_timestamps_read_as_moments_and_durations_end_in_ms():
    for definition in tables().values():
        for column in definition.columns:
            if column.name.endswith("_ms"):
                assert column.type == "bigint"
            if column.type == "timestamp" and column.name not in ("valid_from", "valid_to"):
                assert "UTC" in column.about, f"{definition.name}.{column.name}"


@pytest.mark.parametrize("definition", tables().values(), ids=lambda definition: definition.name)
def test_comments_of_columns_are_as_long_as_catalogs_allow(definition):
    for column in definition.columns:
        assert 0 < len(column.comment.encode()) <= MOST_COMMENT_BYTES, column.name
        assert column.about.startswith(column.comment.removesuffix(" …")), column.name
        assert column.comment.endswith((" …", column.about)), column.name
