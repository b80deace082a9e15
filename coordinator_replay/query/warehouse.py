"""The warehouse as questions see it: SQL over its tables by name, and what they cover.

"As of T" is answered from ``valid_from``/``valid_to`` and log positions; the newest version of each table is read.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.query.delta_files import is_plain, local_path, select_files
from coordinator_replay.tables.migrations import KEPT_SINCE_PROPERTY, check_version, version_of
from coordinator_replay.tables.names import table_names
from coordinator_replay.times import EPOCH, LATEST

END = LATEST
"""Point in time that means the end of the log: only what was never ended is valid then."""

AS_OF = "(valid_from <= $at OR valid_from IS NULL) AND (valid_to > $at OR valid_to IS NULL)"
"""Condition of rows that hold at a point in time: half-open intervals; an unknown start counts as always.

Written so that the engine can look at it while it reads a file.
"""

_LEDGER = "audit_runs"
"""The table that every run writes: where it is, there is a warehouse."""

_UNSHOWN = """CASE
    WHEN epoch_us(#{place}) BETWEEN -62135596800000000 AND 253402300799999999 THEN NULL
    ELSE #{place}::VARCHAR
END"""
"""The text of a moment outside the years 1 to 9999; null for all others."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"\$([a-z_]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What the tables know of a cluster.

    Attributes:
        first: timestamp of the first record read.
        last: timestamp of the last one.
        audited_at: when the last audit ended, None where no finished one is on record. A record written later can't
            have been read.
    """

    first: datetime
    last: datetime
    audited_at: datetime | None

    def __str__(self) -> str:
        return f"{shown(self.first)} to {shown(self.last)}"


def _no_rows(name: str) -> Any:
    """A table of the contract without rows, in the types of its columns."""
    # Parsing definitions asks for pyarrow, which most questions do without.
    from coordinator_replay.tables.definition import table

    return table(name).arrow_schema().empty_table()


def shown(moment: datetime) -> str:
    """A moment in the form that every command takes back."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def nearest(name: str, names: Sequence[str], count: int = 1) -> list[str]:
    """Names most like the given one, best first."""
    lowered = name.lower()
    alike = [other for other in names if lowered in other.lower() or (other and other.lower() in lowered)]
    if len(alike) < count and len(names) > 20_000:
        names = [other for other in names if other[:1].lower() == lowered[:1]]
    close = difflib.get_close_matches(name, names, n=count, cutoff=0.5)
    return list(dict.fromkeys([*close, *sorted(alike, key=len)]))[:count]


class Warehouse:
    """Reads tables under one path or object-store URI.

    Args:
        uri: where each table is a folder of its own name.
        cluster: the cluster that questions are about.

    Attributes:
        notes: what to say beside the answers given so far.
    """

    def __init__(self, uri: str, cluster: str = "default") -> None:
        self.uri = uri.rstrip("/") or uri
        self.cluster = cluster
        self.notes: list[str] = []
        self._open: dict[str, DeltaTable] = {}

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The embedded engine; it keeps nothing on disk."""
        return self.new_connection()

    def new_connection(self) -> duckdb.DuckDBPyConnection:
        """An engine of its own, which knows no table so far."""
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        return connection

    def path(self, name: str) -> str:
        """Where a table lies."""
        return f"{self.uri}/{name}"

    def table(self, name: str) -> DeltaTable:
        """Open a table.

        Raises:
            WarehouseError: it is not there, can't be read, or is of a newer release.
        """
        if name not in self._open:
            try:
                opened = DeltaTable(self.path(name))
                check_version(version_of(opened.metadata().configuration), self.path(name))
                self._open[name] = opened
            except TableNotFoundError as problem:
                raise self._missing(name) from problem
            except (DeltaError, OSError, ValueError) as problem:
                raise WarehouseError(f"{self.path(name)} can't be read as a Delta table: {problem}") from problem
        return self._open[name]

    def _is_unwritten(self, name: str) -> bool:
        """Whether the warehouse is one, and no run has written this table of the contract into it so far."""
        if name in self._open:
            return False
        try:
            return not DeltaTable.is_deltatable(self.path(name)) and DeltaTable.is_deltatable(self.path(_LEDGER))
        except (DeltaError, OSError, ValueError):
            # What is wrong is said by the attempt to open it.
            return False

    def _missing(self, name: str) -> WarehouseError:
        root = local_path(self.uri)
        if root is not None and not Path(root).is_dir():
            return WarehouseError(f"there is no warehouse at {self.uri}: the folder does not exist")
        return WarehouseError(f"the warehouse {self.uri} has no table {name}: run coordinator-replay audit first")

    def offer(
        self,
        name: str,
        bounds: Mapping[str, str] | None = None,
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        """Make a table known to SQL by its name.

        Args:
            name: the table.
            bounds: values that the rows asked for have; the rest of the table may be missing.
            connection: which engine is to know it; the warehouse's own if None.

        Raises:
            WarehouseError: it is not there, or can't be read.
        """
        connection = connection or self.connection
        if self._is_unwritten(name):
            connection.register(name, _no_rows(name))
            return
        table = self.table(name)
        try:
            if is_plain(table, self.path(name)):
                source = select_files(table, self.path(name), bounds or {})
                connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {source}")
            else:
                connection.register(name, table.to_pyarrow_dataset())
        except (DeltaError, duckdb.Error, OSError, ValueError, KeyError) as problem:
            raise WarehouseError(f"{self.path(name)} can't be read without Spark: {problem}") from problem

    def rows(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        """Answer a question over the tables that it names.

        Args:
            sql: a SELECT; ``$cluster`` in it is the warehouse's cluster.
            parameters: values for the other ``$names``; ones the statement does not use are left out. ``group``
                also keeps files without that group from being read.

        Returns:
            Plain values; timestamps in UTC.

        Raises:
            UsageError: rows of the time asked about were given up.
            WarehouseError: a table is missing, lacks a column, or is damaged.
        """
        given = {"cluster": self.cluster, **parameters}
        used = {name: given[name] for name in set(_PARAMETER.findall(sql))}
        bounds = {
            column: str(used[name]) for column, name in (("cluster", "cluster"), ("group_id", "group")) if name in used
        }
        for name in set(_WORD.findall(sql)).intersection(table_names()):
            self.offer(name, bounds)
            self._check_kept(name, given)
        # Each thread holds a row group: one is enough for one group's rows, and bounds memory on a large machine.
        self.connection.execute("SET threads = 1" if "group_id" in bounds else "RESET threads")
        try:
            return fetch(self.connection.sql(sql, params=used))[1]
        except duckdb.BinderException as problem:
            raise WarehouseError(
                f"the tables of {self.uri} are not those of this release: {first_line(problem)}; run "
                f"coordinator-replay audit with it once"
            ) from problem
        except duckdb.Error as problem:
            raise WarehouseError(f"the tables of {self.uri} can't be read: {first_line(problem)}") from problem

    def _check_kept(self, name: str, asked: Mapping[str, object]) -> None:
        """Make sure that a table still has what was at the time asked about: ``at``, or from ``start`` to ``end``."""
        written = self._open[name].metadata().configuration.get(KEPT_SINCE_PROPERTY) if name in self._open else None
        if written is None:
            return
        since = datetime.fromisoformat(written)
        told = f"{name} has nothing from before {shown(since)}: maintain --keep deleted older rows"
        last = asked.get("at") or asked.get("end")
        if isinstance(last, datetime) and last < since:
            raise UsageError(f"{told}; ask about a later time")
        start = asked.get("start", since)
        is_partly_gone = start is None or (isinstance(start, datetime) and start < since)
        if is_partly_gone and told not in self.notes:
            self.notes.append(told)

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """Clusters that were audited into this warehouse."""
        return tuple(name for (name,) in self.rows("SELECT DISTINCT cluster FROM audit_runs ORDER BY cluster"))

    @cached_property
    def coverage(self) -> Coverage:
        """From when to when the tables know the cluster.

        Raises:
            UsageError: they don't know it at all.
        """
        if self.cluster not in self.clusters:
            known = ", ".join(map(repr, self.clusters)) or "none yet"
            raise UsageError(f"the warehouse {self.uri} does not know the cluster {self.cluster!r}; it has {known}")
        found = self.rows(
            "SELECT max(coalesce(finished_at, started_at)) FROM audit_runs WHERE cluster = $cluster AND status = 'done'"
        )
        ranges = [self._range(name) for name in ("offset_commits", "group_records")]
        firsts = [first for first, _ in ranges if first is not None]
        lasts = [last for _, last in ranges if last is not None]
        if not firsts or not lasts:
            raise UsageError(f"the warehouse {self.uri} holds no records of the cluster {self.cluster!r}")
        return Coverage(first=min(firsts), last=max(lasts), audited_at=found[0][0])

    def _range(self, name: str) -> tuple[datetime | None, datetime | None]:
        """First and last log timestamp of the cluster in a table: from file statistics where these tell."""
        actions = self.table(name).get_add_actions(flatten=True)
        columns = ("min.cluster", "max.cluster", "min.log_timestamp", "max.log_timestamp")
        if set(columns) <= set(actions.schema.names):
            files = list(zip(*(actions.column(column).to_pylist() for column in columns), strict=True))
            if all(low == high and None not in (low, first, last) for low, high, first, last in files):
                own = [(first, last) for low, _, first, last in files if low == self.cluster]
                if own:
                    return min(first for first, _ in own), max(last for _, last in own)
        sql = f"SELECT min(log_timestamp), max(log_timestamp) FROM {name} WHERE cluster = $cluster"  # noqa: S608
        first, last = self.rows(sql)[0]
        return first, last

    def check_moment(self, at: datetime | None) -> str | None:
        """Make sure that the tables know a moment.

        Returns:
            What to say beside the answer, where the moment lies after the last record read.

        Raises:
            UsageError: it lies before the first record, or after the last audit.
        """
        if at is None:
            return None
        covered = self.coverage
        if at < covered.first:
            raise UsageError(
                f"{shown(at)} lies before the start of the log: cluster {self.cluster!r} is covered from {covered}"
            )
        if covered.audited_at is not None and at > max(covered.audited_at, covered.last):
            raise UsageError(
                f"{shown(at)} lies after the last audit of cluster {self.cluster!r} ({shown(covered.audited_at)}): it "
                f"is covered from {covered}; leave the time out for the end of the log"
            )
        if at > covered.last:
            return f"The log ends at {shown(covered.last)}; this is the state at its end."
        return None

    def check_range(self, start: datetime | None, end: datetime | None) -> None:
        """Make sure that the tables know a part of a time range.

        Raises:
            UsageError: they don't, or it ends before it begins.
        """
        if start is not None and end is not None and end <= start:
            raise UsageError(f"the time range ends at {shown(end)}, before it begins at {shown(start)}")
        covered = self.coverage
        if (start is not None and start > covered.last) or (end is not None and end <= covered.first):
            raise UsageError(f"that time range is not covered: cluster {self.cluster!r} is covered from {covered}")


def first_line(problem: Exception) -> str:
    """What an engine's error says, without the statement it repeats."""
    return str(problem).split("\n", 1)[0]


def fetch(relation: duckdb.DuckDBPyRelation) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and rows of a relation; timestamps as UTC datetimes, those outside its calendar as text."""
    names = relation.columns
    moments = [place for place, type_ in enumerate(relation.types) if str(type_) == "TIMESTAMP WITH TIME ZONE"]
    if not moments:
        return names, relation.fetchall()
    # DuckDB's own conversion asks for pytz; counting microseconds needs nothing.
    columns = [f"epoch_us(#{place + 1})" if place in moments else f"#{place + 1}" for place in range(len(names))]
    columns += [_UNSHOWN.format(place=place + 1) for place in moments]
    rows = [list(row) for row in relation.project(", ".join(columns)).fetchall()]
    for row in rows:
        for place, unshown in zip(moments, row[len(names) :], strict=True):
            if unshown is not None:
                row[place] = unshown
            elif row[place] is not None:
                row[place] = EPOCH + timedelta(microseconds=row[place])
    return names, [tuple(row[: len(names)]) for row in rows]
