"""The warehouse: a folder of Delta tables, each made from its definition, with comments a person can read."""

import re
from collections.abc import Sequence

from delta.tables import DeltaTable
from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.errors import WarehouseError
from coordinator_replay.log.dump import open_filesystem
from coordinator_replay.pipeline.evolution import bring_up
from coordinator_replay.pipeline.keeping import kept
from coordinator_replay.tables.definition import Table
from coordinator_replay.tables.definition import table as declared
from coordinator_replay.tables.migrations import SCHEMA_VERSION, SCHEMA_VERSION_PROPERTY

STAGING = "_staging"
_COMMIT = re.compile(r"\d{20}\.json")


def _sentence(problem: AnalysisException) -> str:
    """What Spark says, without its plan."""
    return str(problem).strip().splitlines()[0]


def _literal(text: str) -> str:
    """A string as SQL writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


class Warehouse:
    """Writes tables under one path or object-store URI.

    Args:
        spark: a session that knows Delta.
        uri: where each table is a folder of its own name.
        database: also register the tables by name in the session's catalog.
    """

    def __init__(self, spark: SparkSession, uri: str, database: str | None = None) -> None:
        self.spark = spark
        self.uri = uri.rstrip("/")
        self.database = database

    def path(self, name: str) -> str:
        """Where a table lies."""
        return f"{self.uri}/{name}"

    def staging(self, run_id: str, step: str) -> str:
        """Where a run keeps what no table holds yet; a run removes it when it ends."""
        return f"{self.uri}/{STAGING}/{run_id}/{step}"

    def ensure(self, name: str) -> Table:
        """Make a table as its definition says, if it is not there; bring one that an older release made up to this.

        Raises:
            WarehouseError: something else lies in its place, or a table of a newer release.
        """
        table = declared(name)
        try:
            if not DeltaTable.isDeltaTable(self.spark, self.path(name)):
                self._create(table)
            else:
                bring_up(self.spark, self.path(name), table)
        except AnalysisException as problem:
            raise WarehouseError(f"{self.path(name)}: can't be used as table {name}: {_sentence(problem)}") from problem
        if self.database:
            self._register(name)
        return table

    def _create(self, table: Table) -> None:
        builder = DeltaTable.createIfNotExists(self.spark).location(self.path(table.name)).comment(table.about)
        for column in table.columns:
            builder = builder.addColumn(column.name, column.type, nullable=not column.is_required, comment=column.about)
        if table.clustering:
            builder = builder.clusterBy(*table.clustering)
        builder.property(SCHEMA_VERSION_PROPERTY, str(SCHEMA_VERSION)).execute()

    def _register(self, name: str) -> None:
        self.spark.sql(f"CREATE DATABASE IF NOT EXISTS `{self.database}`")
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS `{self.database}`.`{name}` USING DELTA LOCATION '{self.path(name)}'"
        )

    def read(self, name: str) -> DataFrame:
        """A table as it is now."""
        return self.spark.read.format("delta").load(self.path(name))

    def version(self, name: str) -> int:
        """The table's newest Delta version, by the names of its commits: asking Delta would cost a Spark job."""
        filesystem, path = open_filesystem(f"{self.path(name)}/_delta_log")
        commits = (info.base_name for info in filesystem.get_file_info(fs.FileSelector(path)))
        return max(int(commit.removesuffix(".json")) for commit in commits if _COMMIT.fullmatch(commit))

    def _latest(self, name: str):  # type: ignore[no-untyped-def]  # pyspark's Row has no type of its own
        return (
            DeltaTable.forPath(self.spark, self.path(name))
            .history(1)
            .select("version", "operationMetrics", "userMetadata")
            .first()
        )

    def _conform(self, name: str, df: DataFrame) -> DataFrame:
        """The table's own columns, others left out and missing ones null; without rows that were given up."""
        there = set(df.columns)
        rows = df.select(
            *(
                (F.col(column.name) if column.name in there else F.lit(None)).cast(column.type).alias(column.name)
                for column in declared(name).columns
            )
        )
        return kept(rows, name, self.path(name))

    def replace_cluster(self, name: str, df: DataFrame, cluster: str) -> int:
        """Put rows in place of all rows of a cluster, in one commit; returns the version after that."""
        rows = self._conform(name, df)
        if self.read(name).where(F.col("cluster") == cluster).isEmpty():
            rows.write.format("delta").mode("append").save(self.path(name))
        else:
            writer = rows.write.format("delta").mode("overwrite")
            writer.option("replaceWhere", f"cluster = {_literal(cluster)}").save(self.path(name))
        return self.version(name)

    def replace_groups(self, name: str, df: DataFrame, run_id: str) -> int:
        """Put rows in place of all rows of the same groups, in one commit; returns the version after that."""
        rows = self._conform(name, df)
        if self.read(name).isEmpty():
            rows.write.format("delta").mode("append").option("userMetadata", run_id).save(self.path(name))
        else:
            writer = rows.write.format("delta").mode("overwrite").option("replaceUsing", "cluster,group_id")
            writer.option("userMetadata", run_id).save(self.path(name))
        return self.version(name)

    def go_on(self, name: str, df: DataFrame, touched: DataFrame, cluster: str) -> int:
        """Add rows of groups, and take away what they replace, in one commit; returns the version after that.

        A group's rows go away that were not final, or became so by a record that its replay saw again. So the same
        rows stand in the table however often, and after whatever interruption, this is done.

        Args:
            name: a table with ``settled_at_offset``.
            df: the rows to add.
            touched: group_id, and from_offset: the first record that the replay saw.
            cluster: whose groups.
        """
        rows = self._conform(name, df)
        if self.read(name).isEmpty():
            rows.write.format("delta").mode("append").save(self.path(name))
            return self.version(name)
        erasers = touched.select("group_id", F.col("from_offset").alias("erases_from"))
        source = rows.withColumn("erases_from", F.lit(None).cast("bigint")).unionByName(
            erasers, allowMissingColumns=True
        )
        is_replaced = (
            f"held.cluster = {_literal(cluster)} AND held.group_id = new.group_id AND new.erases_from IS NOT NULL "
            "AND (held.settled_at_offset IS NULL OR held.settled_at_offset >= new.erases_from)"
        )
        merge = DeltaTable.forPath(self.spark, self.path(name)).alias("held").merge(source.alias("new"), is_replaced)
        values: dict[str, str | Column] = {f"`{c.name}`": f"new.`{c.name}`" for c in declared(name).columns}
        merge.whenMatchedDelete().whenNotMatchedInsert("new.erases_from IS NULL", values).execute()
        return self.version(name)

    def update(self, name: str, new: DataFrame, keys: Sequence[str], column: str, cluster: str) -> None:
        """Change one column where it differs, in one commit.

        Args:
            name: the table.
            new: the keys, and the column as it should be.
            keys: columns that name a row within the cluster.
            column: what to change.
            cluster: whose rows.
        """
        same = " AND ".join(f"held.`{key}` = new.`{key}`" for key in keys)
        merge = DeltaTable.forPath(self.spark, self.path(name)).alias("held")
        matched = merge.merge(new.alias("new"), f"held.cluster = {_literal(cluster)} AND {same}")
        changed = f"NOT (held.`{column}` <=> new.`{column}`)"
        matched.whenMatchedUpdate(changed, {f"`{column}`": f"new.`{column}`"}).execute()

    def append(self, name: str, df: DataFrame, run_id: str) -> tuple[int, int]:
        """Append rows in the table's own columns, others left out and missing ones null.

        Returns:
            How many rows were written, as Delta counted them, and the table's version after that.
        """
        conformed = self._conform(name, df)
        conformed.write.format("delta").mode("append").option("userMetadata", run_id).save(self.path(name))
        latest = self._latest(name)
        # An append of no rows makes no commit: the newest one is then somebody else's.
        written = latest["operationMetrics"].get("numOutputRows", 0) if latest["userMetadata"] == run_id else 0
        return int(written), int(latest["version"])
