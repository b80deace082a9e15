"""Names for a warehouse in a session's catalog, so that SQL finds its tables without their paths."""

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Self

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from coordinator_replay.errors import PrerequisiteError, UsageError, WarehouseError
from coordinator_replay.pipeline.host.failure import reason
from coordinator_replay.query.saved import saved_queries
from coordinator_replay.query.spark_sql import spark_statement
from coordinator_replay.query.tables import Tables
from coordinator_replay.safe_text import neutral
from coordinator_replay.tables.definition import public_tables
from coordinator_replay.tables.views import View, views, views_in
from coordinator_replay.version import __version__

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_QUOTED = re.compile(r"^`(.*)`$")

_REFUSALS = (PySparkException, Py4JJavaError)
"""Errors by which a session refuses a statement; Spark 3.5 passes some errors of its JVM on unchanged."""

_MADE_BY = "coordinator_replay.made_by"
"""Name of a view's property, see ``_made_by``."""

_SAME_STORE = {"s3a": "s3", "s3n": "s3", "file": ""}


@dataclass(frozen=True, slots=True)
class Database:
    """A schema of a catalog, in which the tables, views and saved queries of a warehouse get names.

    Attributes:
        parts: the catalog, if one is named, and the schema.
    """

    parts: tuple[str, ...]

    @classmethod
    def of(cls, name: str) -> Self:
        """Return the database that a user has named: ``audit`` or ``prod.audit``.

        Raises:
            UsageError: the name has more than two parts, or a part has characters other than letters, digits, _ and -.
        """
        parts = tuple(_QUOTED.sub(r"\1", part) for part in name.split("."))
        if len(parts) > 2 or not all(_NAME.fullmatch(part) for part in parts):
            raise UsageError(
                f"--database {name}: give SCHEMA or CATALOG.SCHEMA, each of letters, digits, _ and -, as prod.audit"
            )
        return cls(parts)

    def __str__(self) -> str:
        return ".".join(self.parts)

    @property
    def _quoted(self) -> str:
        return ".".join(f"`{part}`" for part in self.parts)

    def prepare(self, spark: SparkSession) -> None:
        """Create the schema if it does not exist, before an audit begins.

        Raises:
            PrerequisiteError: the session has no such catalog, or the schema can't be created.
        """
        try:
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {self._quoted}")
        except _REFUSALS as problem:
            raise PrerequisiteError(
                f"--database {self}: the session can't make or use this schema: {_reason(problem)}"
            ) from problem

    def register(self, spark: SparkSession, warehouse: str, cluster: str) -> None:
        """Name the tables, views and saved queries of a warehouse whose audit is committed.

        A saved query becomes a view, see ``saved_view``. The view is about one cluster, and has the default value of
        each parameter.

        Args:
            spark: a session that knows Delta.
            warehouse: path or URI of the tables.
            cluster: the cluster that the saved queries are about.

        Raises:
            WarehouseError: the catalog refuses a name, or the name already belongs to another table.
        """
        root = warehouse.rstrip("/") or warehouse
        try:
            for name in public_tables():
                self._name_table(spark, name, f"{root}/{name}")
            named, made_by = self._named_views(spark), _made_by(spark)
            for name, about, statement in (*self._views(), *self._saved_views(root, cluster)):
                if not _is_unchanged(named.get(name, ""), about, statement, made_by):
                    self._name_view(spark, name, about, statement, made_by)
        except (*_REFUSALS, WarehouseError) as problem:
            raise WarehouseError(
                f"the audit is committed and complete in {root}, but not all of its tables got names in {self}: "
                f"{_reason(problem)}; the next audit with --database tries again"
            ) from problem

    def _name_table(self, spark: SparkSession, name: str, path: str) -> None:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {self._quoted}.`{name}` USING DELTA LOCATION {_text(path)}")
        # DESCRIBE DETAIL has the location, too. But it counts the table's files, which takes ten times as long.
        described = spark.sql(f"DESCRIBE TABLE EXTENDED {self._quoted}.`{name}`").collect()
        # Rows of the table follow those of its columns.
        location = [row["data_type"] for row in described if row["col_name"] == "Location"][-1:]
        if not location:
            raise WarehouseError(f"{self}.{name} is a view there, or has no path: choose another schema, or drop it")
        if _place(location[0]) != _place(path):
            raise WarehouseError(
                f"{self}.{name} is another table there, at {location[0]}: choose another schema, or drop it"
            )

    def _views(self) -> Iterator[tuple[str, str, str]]:
        for view in _views_in_order():
            yield view.name, view.about, spark_statement(view.sql, schema=self.parts)

    def _saved_views(self, root: str, cluster: str) -> Iterator[tuple[str, str, str]]:
        with closing(Tables(root, cluster)) as tables:
            for query in saved_queries().values():
                values = {"cluster": cluster, **query.defaults(tables)}
                about = f"Cluster {cluster}. {query.about} {query.note}".rstrip()
                yield saved_view(query.name), about, spark_statement(query.sql, values, self.parts)

    def _named_views(self, spark: SparkSession) -> Mapping[str, str]:
        """Return the catalog's description of each of our views that it has, by name of the view.

        Return an empty mapping if the catalog can't list views.
        """
        ours = "|".join([saved_view("*"), *views()])
        with suppress(*_REFUSALS):
            listed = spark.sql(f"SHOW TABLE EXTENDED IN {self._quoted} LIKE '{ours}'").collect()
            return {row["tableName"]: row["information"] for row in listed if not row["isTemporary"]}
        return {}

    def _name_view(self, spark: SparkSession, name: str, about: str, statement: str, made_by: str) -> None:
        properties = f"TBLPROPERTIES ('{_MADE_BY}' = {_text(made_by)})"
        spark.sql(f"CREATE OR REPLACE VIEW {self._quoted}.`{name}` COMMENT {_text(about)} {properties} AS {statement}")


def _made_by(spark: SparkSession) -> str:
    """Return the releases of this program and of Spark, and two settings of the session, as one text.

    If this text changes, the views must be created again.
    """
    # Spark stores the settings with a view. A new release may add columns to tables, and so to a view that selects all
    # columns.
    settings = (_setting(spark, key) for key in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled"))
    return " ".join([f"coordinator-replay {__version__} Spark {spark.version}", *settings])


def _setting(spark: SparkSession, key: str) -> str:
    # Serverless platforms refuse to show some settings.
    with suppress(*_REFUSALS):
        return spark.conf.get(key) or "-"
    return "-"


def _is_unchanged(information: str, about: str, statement: str, made_by: str) -> bool:
    """Return whether a view already has the wanted comment and statement, and was made with the same releases.

    Args:
        information: what ``SHOW TABLE EXTENDED`` says of the view.
        about: the comment.
        statement: the view's SELECT.
        made_by: the result of ``_made_by``.
    """
    expected = (f"\nComment: {about}\n", f"\nView Text: {statement}\n")
    is_same = any(f"{_MADE_BY}={made_by}{end}" in information for end in (",", "]"))
    return is_same and all(part in information for part in expected)


def saved_view(name: str) -> str:
    """Return the name of the view of a saved query: ``saved_rebalance_storms`` of ``rebalance-storms``."""
    return f"saved_{name.replace('-', '_')}"


def _views_in_order() -> list[View]:
    """Return all views, each after the views that it uses."""
    return list(dict.fromkeys(view for name in views() for view in views_in(name)))


def _text(value: str) -> str:
    """Return a text as a string literal of Spark's SQL."""
    return "'{}'".format(value.replace("\\", "\\\\").replace("'", "\\'"))


def _place(uri: str) -> str:
    """Return a table's path in a form that is the same for all spellings of the path.

    Hadoop has its own names for some schemes, such as ``s3a`` for ``s3``.
    """
    scheme, _, rest = uri.rpartition("://")
    path = rest if scheme else uri.removeprefix("file:")
    return f"{_SAME_STORE.get(scheme, scheme)}://{'/' if scheme in ('', 'file') else ''}{path.strip('/')}"


def _reason(problem: Exception) -> str:
    """Return the cause of an error, without Spark's stack traces."""
    return neutral(reason(problem))
