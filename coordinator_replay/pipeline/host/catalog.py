"""Names for the tables in a session's catalog, so that SQL finds them without their paths."""

from collections.abc import Mapping

from pyspark.sql import SparkSession


def register_tables(spark: SparkSession, database: str, paths: Mapping[str, str]) -> None:
    """Register tables by name, as external Delta tables.

    Args:
        spark: a session that knows Delta.
        database: made if it is not there.
        paths: where each table lies, by name.
    """
    spark.sql(f"CREATE DATABASE IF NOT EXISTS `{database}`")
    for name, path in paths.items():
        place = path.replace("\\", "\\\\").replace("'", "\\'")
        spark.sql(f"CREATE TABLE IF NOT EXISTS `{database}`.`{name}` USING DELTA LOCATION '{place}'")
