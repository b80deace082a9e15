"""Bringing tables that an older release has made up to this one's contract, before anything is written to them."""

from contextlib import suppress

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.tables.definition import Table
from coordinator_replay.tables.migrations import (
    SCHEMA_VERSION,
    SCHEMA_VERSION_PROPERTY,
    Migration,
    check_version,
    steps,
    version_of,
)


def properties_of(spark: SparkSession, path: str) -> dict[str, str]:
    """The properties of the table at a path; from its log, where that is in reach without Spark, which takes longer."""
    with suppress(DeltaError, OSError):
        return {key: value for key, value in _opened(path).metadata().configuration.items() if value is not None}
    return {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES delta.`{path}`").collect()}


def _opened(path: str) -> DeltaTable:
    return DeltaTable(path)


def _columns_of(spark: SparkSession, path: str) -> list[str]:
    with suppress(DeltaError, OSError):
        return [field.name for field in _opened(path).schema().fields]
    return spark.read.format("delta").load(path).columns


def set_property(spark: SparkSession, path: str, name: str, value: str) -> None:
    """Set one property of the table at a path."""
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{name}' = '{value}')")


def bring_up(spark: SparkSession, path: str, table: Table) -> int:
    """Let a table follow the contract of this release: add its new columns, apply its migrations.

    The version is raised after each migration, so one that is killed is applied again and none is left out.

    Args:
        spark: a session that knows Delta.
        path: where the table lies.
        table: its definition.

    Returns:
        The version that it followed before.

    Raises:
        WarehouseError: a newer release has made it.
    """
    found = version_of(properties_of(spark, path))
    check_version(found, path)
    _add_columns(spark, path, table)
    for migration in steps(table.name, found):
        _apply(spark, path, migration)
        set_property(spark, path, SCHEMA_VERSION_PROPERTY, str(migration.to_version))
    if found < SCHEMA_VERSION:
        set_property(spark, path, SCHEMA_VERSION_PROPERTY, str(SCHEMA_VERSION))
    return found


def _add_columns(spark: SparkSession, path: str, table: Table) -> None:
    there = set(_columns_of(spark, path))
    for column in table.columns:
        if column.name not in there:
            about = column.about.replace("\\", "\\\\").replace("'", "\\'")
            added = f"`{column.name}` {column.type} COMMENT '{about}'"
            spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN {added}")


def _apply(spark: SparkSession, path: str, migration: Migration) -> None:
    for statement in migration.statements:
        spark.sql(statement.replace("{table}", f"delta.`{path}`"))
    if migration.values:
        held = spark.read.format("delta").load(path)
        # Comments travel with the schema's metadata, which a plain expression would lose.
        columns = [
            F.expr(migration.values[field.name]).alias(field.name, metadata=field.metadata)
            if field.name in migration.values
            else F.col(field.name)
            for field in held.schema.fields
        ]
        rewritten = held.select(*columns).write.format("delta").mode("overwrite")
        rewritten.option("overwriteSchema", "true").save(path)
