"""Names in a catalog: every public table, view and saved query answers in Spark as it does in the embedded engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from pyspark.sql import SparkSession
from sqlglot import exp

from coordinator_replay.errors import PrerequisiteError, UsageError, WarehouseError
from coordinator_replay.query.saved import run_saved_query, saved_queries
from coordinator_replay.query.spark_sql import spark_statement
from coordinator_replay.query.sql import run_sql
from coordinator_replay.query.tables import Tables
from coordinator_replay.spark import catalog
from coordinator_replay.spark.catalog import Database, saved_view
from coordinator_replay.tables.definition import public_tables, tables
from coordinator_replay.tables.views import views
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit_here as audit
from tests.samples import Sample

NAME = "spark_catalog.named_audit"

ASKED = ("downtime-by-cause", "flapping-groups")
"""Saved queries with what differs most between the engines: intervals, filters, lists. The nightly run asks all."""

BY_DAY = {
    name: query for place, (name, query) in enumerate(saved_queries().items()) if place % 16 == 0 or name in ASKED
}
"""Saved queries that get names by day: Spark takes most of a second to plan each. The nightly run names all."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A recorded life with rebalances, offsets that expired and transactions, in a folder whose name needs quoting."""
    folder = tmp_path_factory.mktemp("it's here")
    audit(folder, Sample("variants").segments)
    return str(folder)


@contextmanager
def registered(spark: SparkSession, name: str, warehouse: str) -> Iterator[str]:
    """Name a warehouse in a schema; the schema's name."""
    database = Database.of(name)
    database.prepare(spark)
    database.register(spark, warehouse, "default")
    yield name
    spark.sql(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture(scope="module")
def named(spark: SparkSession, warehouse: str) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "saved_queries", lambda: BY_DAY)
        with registered(spark, NAME, warehouse) as name:
            yield name


@pytest.fixture(scope="module")
def named_whole(spark: SparkSession, warehouse: str) -> Iterator[str]:
    with registered(spark, f"{NAME}_whole", warehouse) as name:
        yield name


def plain(value: Any) -> Any:
    """A value in a form that both engines share."""
    if hasattr(value, "asDict"):
        return plain(value.asDict())
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return round(value, 6)
    if hasattr(value, "timestamp"):
        return value.timestamp()
    return int(value) if hasattr(value, "as_integer_ratio") and not isinstance(value, bool) else value


def rows_of(spark: SparkSession, schema: str, name: str) -> tuple[list[str], list[Any]]:
    answer = spark.table(f"{schema}.{name}")
    return answer.columns, sorted(map(repr, (plain(list(row)) for row in answer.collect())))


def names_in(spark: SparkSession, schema: str) -> set[str]:
    shown = spark.sql(f"SHOW TABLES IN {schema}").collect()
    # A session also lists the temporary views of other tests, in every schema.
    return {row["tableName"] for row in shown if not row["isTemporary"]}


@pytest.mark.spark
def test_public_tables_views_and_saved_queries_have_names_with_comments(spark, named):
    listed = names_in(spark, named)
    assert listed == {*public_tables(), *views(), *map(saved_view, BY_DAY)}
    assert not listed & {name for name, table in tables().items() if table.is_internal}
    described = {row["col_name"]: row for row in spark.sql(f"DESCRIBE TABLE EXTENDED {named}.rebalances").collect()}
    assert described["facts"]["comment"] == tables()["rebalances"].column("facts").comment
    view = {
        row["col_name"]: row["data_type"] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {named}.event_log").collect()
    }
    assert view["Comment"] == views()["event_log"].about


@pytest.mark.spark
def test_a_view_is_made_anew_only_if_it_is_another(spark, named, warehouse, monkeypatch):
    made = []
    monkeypatch.setattr(Database, "_name_view", lambda _self, _spark, *view: made.append(view[:3]))
    monkeypatch.setattr(catalog, "saved_queries", lambda: BY_DAY)
    database = Database.of(named)
    database.register(spark, warehouse, "default")
    assert made == []
    *_, (name, about, statement) = database._views()
    for other in ((name, f"{about} No.", statement), (name, about, f"{statement} LIMIT 1")):
        monkeypatch.setattr(Database, "_views", lambda _self, other=other: iter([other]))
        database.register(spark, warehouse, "default")
        assert made.pop() == other
    assert made == []
    monkeypatch.setattr(Database, "_views", lambda _self: iter([(name, about, statement)]))
    monkeypatch.setattr(catalog, "__version__", catalog.__version__[:-1])
    database.register(spark, warehouse, "default")
    assert [view[0] for view in made] == [name, *map(saved_view, BY_DAY)]


@pytest.mark.spark
def test_a_view_under_the_name_of_a_table_is_refused(spark, warehouse):
    database = Database.of(f"{NAME}_taken")
    database.prepare(spark)
    try:
        spark.sql(f"CREATE VIEW {database}.offset_history AS SELECT 1 AS cluster")
        with pytest.raises(WarehouseError, match="offset_history is a view there"):
            database.register(spark, warehouse, "default")
    finally:
        spark.sql(f"DROP SCHEMA {database} CASCADE")


@pytest.mark.spark
@pytest.mark.parametrize("sql", [*saved_queries().values(), *views().values()], ids=lambda found: found.name)
def test_spark_can_read_every_saved_query_and_view(spark, sql):
    statement = spark_statement(sql.sql, {"cluster": "default"}, ("spark_catalog", "somewhere"))
    spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    unknown = {node.name.lower() for node in sqlglot.parse_one(statement, dialect="spark").find_all(exp.Anonymous)}
    assert unknown <= {row["function"] for row in spark.sql("SHOW FUNCTIONS").collect()}


@pytest.mark.long
@pytest.mark.spark
def test_every_saved_query_has_a_name(spark, named_whole):
    assert names_in(spark, named_whole) == {*public_tables(), *views(), *map(saved_view, saved_queries())}


@pytest.mark.spark
@pytest.mark.parametrize("name", rest_at_night(ASKED, ASKED[:1]))
def test_a_saved_query_answers_in_spark_as_in_duckdb(spark, named, warehouse, name):
    columns, rows = run_saved_query(Tables(warehouse), name)
    assert rows_of(spark, named, saved_view(name)) == (columns, sorted(map(repr, map(plain, rows))))


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(saved_queries()))
def test_every_saved_query_answers_in_spark_as_in_duckdb(spark, named_whole, warehouse, name):
    test_a_saved_query_answers_in_spark_as_in_duckdb(spark, named_whole, warehouse, name)


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(views()))
def test_a_view_answers_in_spark_as_in_duckdb(spark, named, warehouse, name):
    columns, rows = run_sql(Tables(warehouse), f"SELECT * FROM {name}")
    assert rows_of(spark, named, name) == (columns, sorted(map(repr, map(plain, rows))))


@pytest.mark.parametrize("name", ["", "a.b.c", "a b", "1st", "a..b", "x; drop table y", "prod.", "`a"])
def test_a_name_that_is_none_is_refused_before_anything_is_read(name):
    with pytest.raises(UsageError, match=r"CATALOG\.SCHEMA"):
        Database.of(name)


@pytest.mark.spark
def test_a_catalog_that_is_not_there_is_told_before_the_run(spark):
    with pytest.raises(PrerequisiteError, match=r"nowhere\.audit"):
        Database.of("nowhere.audit").prepare(spark)


@pytest.mark.spark
def test_a_name_that_another_warehouse_has_is_refused_and_the_audit_is_said_to_be_committed(
    spark, named, tmp_path: Path
):
    audit(tmp_path, Sample("transactions").segments)
    with pytest.raises(WarehouseError, match=r"the audit is committed.*another table there"):
        Database.of(named).register(spark, str(tmp_path), "default")
