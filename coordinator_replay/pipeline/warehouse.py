"""The warehouse: a folder of Delta tables, each made from its definition, with comments a person can read."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from delta.tables import DeltaTable
from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from coordinator_replay.errors import InputError, WarehouseError
from coordinator_replay.log.dump import open_filesystem
from coordinator_replay.pipeline.as_left import cluster_of, is_as_left
from coordinator_replay.pipeline.data_files import (
    DataFile,
    Part,
    in_columns,
    part_of,
    read_files,
    read_paths,
    write_frame,
)
from coordinator_replay.pipeline.delta_log import (
    HeldFile,
    can_commit,
    commit_files,
    commit_info,
    first_properties,
    held_files,
    make_table,
    newest_version,
    plain_files,
)
from coordinator_replay.pipeline.evolution import bring_up
from coordinator_replay.pipeline.keeping import given_up, kept
from coordinator_replay.tables.definition import Table
from coordinator_replay.tables.definition import table as declared
from coordinator_replay.tables.types import parse_type

STAGING = "_staging"
TABLES_AT_ONCE = 4
"""How many tables are worked on side by side: most of a commit is waiting for the driver."""


Change = Callable[[DataFrame], DataFrame]

_PLACE = "input_file_name"


def _sentence(problem: AnalysisException) -> str:
    """What Spark says, without its plan."""
    return str(problem).strip().splitlines()[0]


def literal(text: str) -> str:
    """A string as SQL writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def spark_type(table: Table) -> StructType:
    """A table's columns with their comments, as Spark has them."""
    return StructType(
        [
            StructField(
                column.name,
                from_arrow_type(parse_type(column.type)),
                nullable=not column.is_required,
                metadata={"comment": column.about},
            )
            for column in table.columns
        ]
    )


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
            if newest_version(self.path(name)) is None:
                self._create(table)
            else:
                bring_up(self.spark, self.path(name), table)
        except AnalysisException as problem:
            raise WarehouseError(f"{self.path(name)}: can't be used as table {name}: {_sentence(problem)}") from problem
        except (OSError, InputError) as problem:
            raise WarehouseError(f"{self.path(name)}: can't be used as table {name}: {problem}") from problem
        if self.database:
            self._register(name)
        return table

    def _create(self, table: Table) -> None:
        path = self.path(table.name)
        filesystem, folder = open_filesystem(path)
        there = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        # A log without a commit is what a run has left that was killed while it made the table.
        if any(info.base_name != "_delta_log" for info in there):
            raise WarehouseError(f"{path}: can't be used as table {table.name}: the folder holds other files")
        schema = spark_type(table)
        if make_table(path, table, schema):
            return
        builder = DeltaTable.createIfNotExists(self.spark).location(path).comment(table.about).addColumns(schema)
        if table.clustering:
            builder = builder.clusterBy(*table.clustering)
        for key, value in first_properties(table).items():
            builder = builder.property(key, value)
        builder.execute()

    def _register(self, name: str) -> None:
        self.spark.sql(f"CREATE DATABASE IF NOT EXISTS `{self.database}`")
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS `{self.database}`.`{name}` USING DELTA LOCATION '{self.path(name)}'"
        )

    def read(self, name: str) -> DataFrame:
        """A table as it is now."""
        files = plain_files(self.path(name)) if can_commit(self.spark) else None
        if files is None:
            return self.spark.read.format("delta").load(self.path(name))
        # Delta itself asks Spark which files there are: each scan of a run would begin with one or two jobs more.
        return read_paths(self.spark, files, spark_type(declared(name)))

    def count(self, name: str, cluster: str) -> int:
        """How many rows a cluster has."""
        mine = self._files_of(name, cluster)
        told = None if mine is None else [file.rows for file in mine]
        if told is not None and None not in told:
            return sum(filter(None, told))
        return self.read(name).where(F.col("cluster") == cluster).count()

    def version(self, name: str) -> int:
        """The table's newest Delta version."""
        newest = newest_version(self.path(name))
        if newest is None:
            raise WarehouseError(f"{self.path(name)}: the table is gone")
        return newest

    def is_as_left(self, name: str, version: int | None, cluster: str) -> bool:
        """Whether nobody has added or taken away rows of a cluster since a version of the table."""
        return is_as_left(self.path(name), version, cluster)

    def is_new(self, name: str) -> bool:
        """Whether nothing was ever written to the table."""
        return self.version(name) == 0

    def part(self, name: str, staging: str) -> Part:
        """Where workers write rows of a table: into its folder if it is empty, to be added as they are; else aside."""
        return self.own_part(name) if self.is_new(name) else part_of(declared(name), f"{staging}/{name}")

    def rows(self, name: str, files: Sequence[DataFile]) -> DataFrame:
        """What files of a part hold."""
        return read_files(self.spark, files, spark_type(declared(name)))

    def own_part(self, name: str) -> Part:
        """Where workers write rows into a table's own folder, to be committed as they are."""
        gone = given_up(self.spark, name, self.path(name))
        return replace(part_of(declared(name), self.path(name)), given_up=gone)

    def held(self, name: str) -> list[HeldFile] | None:
        """The files of a table that can be put in place of each other; None where only Spark can do that."""
        return held_files(self.path(name)) if can_commit(self.spark) else None

    def takes_files(self, name: str) -> bool:
        """Whether rows may reach a table as files, past Spark."""
        return self.held(name) is not None

    def swap(self, name: str, files: Sequence[DataFile], removed: Collection[str]) -> int:
        """Put files that workers wrote into the table's folder in place of others, in one commit; the version."""
        if not files and not removed:
            return self.version(name)
        return commit_files(self.spark, self.path(name), files, removed)

    def add_files(self, name: str, files: Sequence[DataFile]) -> int:
        """Let files that workers wrote into the table's folder be part of it, in one commit; returns the version."""
        if not files:
            return self.version(name)
        if can_commit(self.spark):
            return commit_files(self.spark, self.path(name), files)
        self.rows(name, files).write.format("delta").mode("append").save(self.path(name))
        return self.version(name)

    def _conform(self, name: str, df: DataFrame) -> DataFrame:
        """The table's own columns, others left out and missing ones null; without rows that were given up."""
        rows = in_columns(df, spark_type(declared(name)))
        return rows if self.is_new(name) else kept(rows, name, self.path(name))

    def replace_cluster(self, name: str, df: DataFrame, cluster: str) -> int:
        """Put rows in place of all rows of a cluster, in one commit; returns the version after that."""
        rows = self._conform(name, df)
        mine = self._files_of(name, cluster)
        if mine is not None:
            return self.swap(name, write_frame(rows, name, self.own_part(name)), [file.path for file in mine])
        if self.is_new(name) or self.read(name).where(F.col("cluster") == cluster).isEmpty():
            rows.write.format("delta").mode("append").save(self.path(name))
        else:
            writer = rows.write.format("delta").mode("overwrite")
            writer.option("replaceWhere", f"cluster = {literal(cluster)}").save(self.path(name))
        return self.version(name)

    def replace_where(self, name: str, df: DataFrame, cluster: str, condition: str) -> int:
        """Put rows in place of those rows of a cluster that a condition holds for, in one commit; returns the version.

        Args:
            name: the table.
            df: the rows; the condition holds for all of them.
            cluster: whose rows.
            condition: in SQL.
        """
        rows, replaced = self._conform(name, df), f"cluster = {literal(cluster)} AND ({condition})"
        if self.held(name) is not None:
            goes = F.coalesce(F.expr(replaced), F.lit(False))
            return self._put(name, rows, lambda held: held.where(goes), lambda held: held.where(~goes))
        rows.write.format("delta").mode("overwrite").option("replaceWhere", replaced).save(self.path(name))
        return self.version(name)

    def _put(self, name: str, rows: DataFrame, going: Change, staying: Change) -> int:
        """Put rows in place of others, in one commit: files that hold some of those are written anew without them."""
        placed = going(self.read(name).withColumn(_PLACE, F.input_file_name())).select(_PLACE).distinct()
        paths = [row[_PLACE].removeprefix("file://") for row in placed.collect()]
        stay = staying(read_paths(self.spark, paths, spark_type(declared(name))))
        return self.swap(name, write_frame(rows.unionByName(stay), name, self.own_part(name)), paths)

    def are_in_place(self, name: str, files: Sequence[DataFile]) -> bool:
        """Whether files lie in the table's own folder already."""
        return all(file.path.startswith(f"{self.path(name)}/") for file in files)

    def _files_of(self, name: str, cluster: str) -> list[HeldFile] | None:
        """The files that hold a cluster's rows and no others; None where some may hold rows of several clusters."""
        held = self.held(name)
        if held is None or any(cluster_of(file) is None for file in held):
            return None
        return [file for file in held if cluster_of(file) == cluster]

    def replacing_part(self, name: str, staging: str, cluster: str) -> Part:
        """Where workers write rows for ``put_files``: into the table's folder where that takes them as they are."""
        is_plain = self._files_of(name, cluster) is not None
        return self.own_part(name) if is_plain else self.part(name, staging)

    def put_files(self, name: str, files: Sequence[DataFile], cluster: str) -> int:
        """Put what files of a part hold in place of all rows of a cluster, in one commit; returns the version."""
        if self.is_new(name):
            return self.add_files(name, files)
        mine = self._files_of(name, cluster)
        if mine is not None and self.are_in_place(name, files):
            return self.swap(name, files, [file.path for file in mine])
        return self.replace_cluster(name, self.rows(name, files), cluster)

    def replace_groups(self, name: str, df: DataFrame) -> int:
        """Put rows in place of those of the same groups, in one commit; returns the version after that.

        Args:
            name: a table with one row a group.
            df: the rows.
        """
        rows, keys = self._conform(name, df), ["cluster", "group_id"]
        if self.held(name) is not None:
            groups = df.select(*keys)
            return self._put(
                name, rows, lambda held: held.join(groups, keys, "semi"), lambda held: held.join(groups, keys, "anti")
            )
        # Not by replaceUsing: Delta 4.4 fails where the new rows are too many to be broadcast.
        merge = DeltaTable.forPath(self.spark, self.path(name)).alias("held")
        same = " AND ".join(f"held.{key} = new.{key}" for key in keys)
        merge.merge(rows.alias("new"), same).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
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
        if self.is_new(name):
            rows.write.format("delta").mode("append").save(self.path(name))
            return self.version(name)
        erasers = touched.select("group_id", F.col("from_offset").alias("erases_from"))
        source = rows.withColumn("erases_from", F.lit(None).cast("bigint")).unionByName(
            erasers, allowMissingColumns=True
        )
        is_replaced = (
            f"held.cluster = {literal(cluster)} AND held.group_id = new.group_id AND new.erases_from IS NOT NULL "
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
        matched = merge.merge(new.alias("new"), f"held.cluster = {literal(cluster)} AND {same}")
        changed = f"NOT (held.`{column}` <=> new.`{column}`)"
        matched.whenMatchedUpdate(changed, {f"`{column}`": f"new.`{column}`"}).execute()

    def append(self, name: str, df: DataFrame, run_id: str) -> tuple[int, int]:
        """Append rows in the table's own columns, others left out and missing ones null.

        Returns:
            How many rows were written, and the table's version after that.
        """
        conformed = self._conform(name, df)
        if self.held(name) is not None:
            files = write_frame(conformed, name, self.own_part(name))
            return sum(file.rows for file in files), self.add_files(name, files)
        conformed.write.format("delta").mode("append").option("userMetadata", run_id).save(self.path(name))
        version = self.version(name)
        latest = commit_info(self.path(name), version)
        # An append of no rows makes no commit: the newest one is then somebody else's.
        written = (
            latest.get("operationMetrics", {}).get("numOutputRows", 0) if latest.get("userMetadata") == run_id else 0
        )
        return int(written), version
