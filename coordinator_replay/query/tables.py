"""Reading of a warehouse's tables: ``Tables`` runs SQL statements on the tables.

Statements read the version of each table that the last finished run made. So they don't see rows of an audit that is
still running or was killed. The columns ``valid_from`` and ``valid_to`` show which rows belong to a point in time
(``AS_OF``).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property, partial
from itertools import filterfalse
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from coordinator_replay.answer_columns import Row, row_of, select_list
from coordinator_replay.completeness.past import Completeness, LogPartition
from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.query.fetch import fetch
from coordinator_replay.query.group_moves import MOVES, GroupMove, Moves, by_group
from coordinator_replay.query.table_files import Engine, select_files
from coordinator_replay.query.times import LogTime, parse_end_time, parse_time
from coordinator_replay.store.duckdb_files import file_names, first_line
from coordinator_replay.store.layout import LEDGER
from coordinator_replay.store.local_paths import local_path
from coordinator_replay.store.opening import check_place, open_table
from coordinator_replay.store.snapshot import Snapshot
from coordinator_replay.store.versions import Finished, last_finished, refuse, state_of, ways_out
from coordinator_replay.tables.migrations import KEPT_SINCE_PROPERTY
from coordinator_replay.tables.names import table_names
from coordinator_replay.times import LATEST, moment_text

DEFAULT_CLUSTER = "default"
"""Name of the cluster if its audits were given no name."""

END = LATEST
"""The point in time that stands for the end of the log. Only rows without an end are valid at this time."""

AS_OF = f"""(valid_from <= $at OR valid_from IS NULL)
      AND (valid_to > $at OR (valid_to IS NULL AND (to_offset IS NULL OR $at < TIMESTAMPTZ '{END}')))"""
"""SQL condition on rows that are valid at a point in time. Intervals are half-open; a row with an unknown start counts
as valid from the beginning. If the record that ended a row has no time, the row counts as valid at every time but the
end of the log.

The condition is written so that the engine can apply it while it reads a file.
"""

MEMBERS_AS_OF = (
    "(valid_from <= $at OR valid_from IS NULL) AND (valid_to > $at OR (valid_to IS NULL AND to_offset IS NULL))"
)
"""The condition ``AS_OF`` for ``member_timeline``. A row that has ended without a time of its end is valid at no time,
because it ended before every time on record."""

MEMBER_END_IS_OPEN = """EXISTS (
        SELECT 1 FROM group_timeline AS loss
        WHERE loss.cluster = $cluster AND loss.group_id = member_timeline.group_id AND loss.event = 'RECORDS_MISSING'
          AND loss.log_partition = member_timeline.log_partition AND loss.log_offset = member_timeline.to_offset
    )"""
"""SQL condition on rows of ``member_timeline`` that end where records of the group are missing.

The member may have been in the row's state for longer.
"""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"\$([a-z_]+)")
_LACKING = re.compile(r'Referenced column "([^"]+)" not found')
_QUOTED = re.compile(r'"([^"]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Time range of a cluster in the tables.

    Attributes:
        first: timestamp of the first record read.
        last: the end of the log: the latest timestamp of a record, control records included.
        audited_at: the time at which the last audit ended; None if no audit has finished. Records that were written
            after this time can't have been read.
    """

    first: datetime
    last: datetime
    audited_at: datetime | None

    def __str__(self) -> str:
        return f"{moment_text(self.first)} to {moment_text(self.last)}"


def _no_rows(name: str) -> Any:
    """Return an empty table with the columns and types of a table's definition."""
    # Parsing definitions needs pyarrow, which most questions don't.
    from coordinator_replay.tables.definition import table

    return table(name).arrow_schema().empty_table()


class Tables:
    """The tables of a warehouse, for questions. Questions read the table versions of the last finished run.

    Args:
        uri: path or object-store URI of the warehouse.
        cluster: the cluster that questions are about. None for the cluster ``default``, or if there is no such cluster,
            the only cluster of the warehouse.
        zone: the time zone of times that a user types without a time zone.

    Attributes:
        notes: notes on answers. Questions add to this list.
    """

    def __init__(self, uri: str, cluster: str | None = None, zone: tzinfo = UTC) -> None:
        self.zone = zone
        self.uri = uri.rstrip("/") or uri
        self._named_cluster = cluster
        self.notes: list[str] = []
        self._newest_tables: dict[str, DeltaTable | None] = {}
        self._open: dict[str, DeltaTable] = {}
        self._snapshots: dict[str, Snapshot] = {}
        self._offered: dict[str, Mapping[str, str]] = {}

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """Return the connection of the DuckDB that reads the tables. This DuckDB stores nothing on disk."""
        return self.new_connection()

    def new_connection(self) -> duckdb.DuckDBPyConnection:
        """Open a new connection to DuckDB that knows no table yet."""
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'; SET parquet_metadata_cache = true")
        return connection

    def close(self) -> None:
        """Close the connection to DuckDB. The next question opens another connection."""
        opened = self.__dict__.pop("connection", None)
        if opened is not None:
            self._offered.clear()
            opened.close()

    def path(self, name: str) -> str:
        """Return the path of a table."""
        return f"{self.uri}/{name}"

    def table(self, name: str) -> DeltaTable:
        """Open a table at the version that the last finished run left.

        Raises:
            WarehouseError: the table does not exist, can't be read, was changed by somebody else, or is of another
                release.
        """
        if name not in self._open:
            opened = self._newest(name)
            version = None if opened is None else opened.version()
            state = state_of(self.connection, self.path(name), name, version, self._finished)
            refuse(state)
            if opened is None:
                raise WarehouseError(
                    f"the warehouse {self.uri} has no table {name}: run coordinator-replay audit first"
                )
            if state.counts != version:
                opened.load_as_version(state.counts)
            self._open[name] = opened
        return self._open[name]

    def _newest(self, name: str) -> DeltaTable | None:
        """Return the newest version of a table, whoever wrote this version; None if the table does not exist."""
        if name not in self._newest_tables:
            check_place(self.uri)
            self._newest_tables[name] = open_table(self.path(name))
        return self._newest_tables[name]

    @cached_property
    def _finished(self) -> Finished:
        """Return the last finished run.

        Raises:
            WarehouseError: there is no warehouse.
        """
        ledger = self._newest(LEDGER)
        if ledger is not None:
            return last_finished(self.connection, Snapshot.of(LEDGER, self.path(LEDGER), ledger))
        root = local_path(self.uri)
        if root is not None and not Path(root).is_dir():
            raise WarehouseError(f"there is no warehouse at {self.uri}: the folder does not exist")
        above, _, name = self.uri.rpartition("/")
        if name in table_names() and above:
            raise WarehouseError(f"{self.uri} is one table: give the warehouse that it lies in, {above}")
        raise WarehouseError(
            f"there is no warehouse at {self.uri}: the ledger {LEDGER} is not there; run coordinator-replay audit "
            f"first, or restore a backup"
        )

    def snapshot(self, name: str) -> Snapshot:
        """Return the files of a table, at the version that ``table`` opens."""
        if name not in self._snapshots:
            self._snapshots[name] = Snapshot.of(name, self.path(name), self.table(name))
        return self._snapshots[name]

    def _is_unwritten(self, name: str) -> bool:
        """Return whether no run has written this table into the warehouse yet.

        Raises:
            WarehouseError: there is no warehouse.
        """
        return name not in self._finished.versions and self._newest(name) is None

    def offer(
        self,
        name: str,
        bounds: Mapping[str, str] | None = None,
        engine: Engine | None = None,
    ) -> None:
        """Make a view in DuckDB with the name and the rows of a table of the warehouse.

        If no run has written the table yet, the view has no rows.

        Args:
            name: name of the table.
            bounds: the values to look for, by column, such as the id of a group. The view may lack rows with other
                values.
            engine: the DuckDB that gets the view; None for the DuckDB of this warehouse.

        Raises:
            WarehouseError: the table is missing or can't be read.
        """
        connection, name_files = engine or Engine(self.connection, partial(file_names, self.connection))
        if self._is_unwritten(name):
            connection.register(name, _no_rows(name))
            return
        with self._reading(name):
            source = select_files(name_files, self.table(name), self.snapshot(name), bounds or {})
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {source}")

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Turn an error while reading a table into a WarehouseError."""
        try:
            yield
        except (DeltaError, duckdb.Error, OSError, ValueError, KeyError) as problem:
            raise WarehouseError(
                f"{self.path(name)} can't be read: {first_line(problem)}; {ways_out(name)}"
            ) from problem

    def rows(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        """Run a SELECT on the warehouse's tables, and return the rows of its result.

        Args:
            sql: the SELECT. ``$cluster`` in it stands for the warehouse's cluster. ``{of_groups}`` in it stands for the
                condition ``AND group_id = $group``, or for nothing if there is no parameter ``group``.
            parameters: values for the other ``$names`` of the SELECT. It need not use all of them. If ``group`` is
                among them, files without rows of this group are not read.

        Returns:
            Rows of plain values; timestamps are in UTC.

        Raises:
            UsageError: ``maintain --keep`` has deleted all rows of the time in ``parameters``.
            WarehouseError: a table is missing, lacks a column, or is damaged.
        """
        is_of_one_group = parameters.get("group") is not None
        sql = sql.replace("{of_groups}", "AND group_id = $group" if is_of_one_group else "")
        names = set(_PARAMETER.findall(sql))
        values = {"cluster": self.cluster, **parameters} if "cluster" in names else parameters
        used = {name: values[name] for name in names}
        bounds = {
            column: str(used[name]) for column, name in (("cluster", "cluster"), ("group_id", "group")) if name in used
        }
        for name in set(_WORD.findall(sql)).intersection(table_names()):
            if self._offered.get(name) != bounds:
                self.offer(name, bounds)
                self._offered[name] = bounds
            self._check_kept(name, values)
        # Each thread keeps a row group of a file in memory, so many threads need much memory. For the rows of one
        # group, one thread is enough.
        self.connection.execute("SET threads = 1" if "group_id" in bounds else "RESET threads")
        try:
            return fetch(self.connection, sql, used)[1]
        except duckdb.BinderException as problem:
            lacking = _LACKING.search(str(problem))
            what = f"lack the column {lacking[1]}" if lacking is not None else f"differ: {first_line(problem)}"
            raise self._other_release(what) from problem
        except duckdb.Error as problem:
            raise WarehouseError(f"the tables of {self.uri} can't be read: {first_line(problem)}") from problem

    def _other_release(self, what: str) -> WarehouseError:
        return WarehouseError(
            f"the tables of {self.uri} are not those of this release, they {what}; coordinator-replay audit into this "
            "warehouse carries them over"
        )

    def lacking_column(self, problem: duckdb.Error, names: Iterable[str]) -> WarehouseError | None:
        """Return an error about a column that a table lacks because an older release wrote the table.

        Return None if DuckDB's error is not about such a column.

        Args:
            problem: DuckDB's error about a user's statement.
            names: names of the tables that the statement reads.
        """
        quoted = {word.lower() for word in _QUOTED.findall(first_line(problem))}
        for name in filterfalse(self._is_unwritten, names) if quoted else ():
            written = {field.name for field in self.table(name).schema().fields}
            lacked = quoted.intersection(_no_rows(name).column_names) - written
            if lacked:
                return self._other_release(f"lack the column {min(lacked)}")
        return None

    def rows_by_group(self, sql: str, groups: Sequence[str], **parameters: object) -> dict[str, list[tuple[Any, ...]]]:
        """Run a SELECT for several groups, and return the rows of its result by group.

        The first column of the result must be the group. The returned rows are without this column.

        Args:
            sql: the SELECT. ``{of_groups}`` in it stands for a condition that the group is one of ``groups``.
                ``$groups`` stands for the list of their names.
            groups: names of the groups, at least one.
            parameters: values for the other ``$names`` of the SELECT.
        """
        if len(groups) == 1:
            # With the name of a single group, files without it are not read.
            asked = {"group": groups[0]}
        else:
            # Files are sorted by group, so row groups that have only other names are not read.
            asked = {"first_group": min(groups), "last_group": max(groups)}
            is_among = "group_id BETWEEN $first_group AND $last_group AND group_id IN (SELECT unnest($groups))"
            sql = sql.replace("{of_groups}", f"AND {is_among}")
        by_group: dict[str, list[tuple[Any, ...]]] = {}
        for group, *row in self.rows(sql, groups=list(groups), **asked, **parameters):
            by_group.setdefault(group, []).append(tuple(row))
        return by_group

    def answers(self, row_type: type[Row], sql: str, **parameters: object) -> list[Row]:
        """Return the result of a SELECT, each row as an instance of a dataclass.

        Args:
            row_type: the dataclass.
            sql: a SELECT, as for ``rows``. Its columns must be the fields of ``select_list``, in this order.
            parameters: values for the ``$names``, as for ``rows``.
        """
        return [row_of(row_type, row) for row in self.rows(sql, **parameters)]

    def _check_kept(self, name: str, asked: Mapping[str, object]) -> None:
        """Check that ``maintain --keep`` has not deleted the rows of the time that a user asks about.

        If it deleted only a part of these rows, add a note to the answer.

        Args:
            name: name of the table.
            asked: parameters of the user's question. The time is ``at``, or the range from ``start`` to ``end``.

        Raises:
            UsageError: ``maintain --keep`` deleted all rows of the time.
        """
        written = self._open[name].metadata().configuration.get(KEPT_SINCE_PROPERTY) if name in self._open else None
        if written is None:
            return
        since = datetime.fromisoformat(written)
        note = f"{name} has nothing from before {moment_text(since)}: maintain --keep deleted older rows"
        last = asked.get("at") or asked.get("end")
        if isinstance(last, datetime) and last < since:
            raise UsageError(f"{note}; ask about a later time")
        start = asked.get("start", since)
        is_partly_purged = start is None or (isinstance(start, datetime) and start < since)
        if is_partly_purged and note not in self.notes:
            self.notes.append(note)

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """Return the names of the clusters that were audited into this warehouse."""
        with self._reading(LEDGER):
            return tuple(sorted({file.cluster for file in self.snapshot(LEDGER).every}))

    def has_rows(self, name: str) -> bool:
        """Return whether a table has files of the cluster. If not, a question need not read the table."""
        with self._reading(name):
            return not self._is_unwritten(name) and bool(self.snapshot(name).files(cluster=self.cluster))

    @cached_property
    def cluster(self) -> str:
        """Return the cluster that questions are about.

        If no cluster was named, this is the cluster ``default``, or else the only cluster of the warehouse.

        Raises:
            UsageError: no cluster was named, and the warehouse has several.
        """
        if self._named_cluster is not None:
            return self._named_cluster
        if not self.clusters or DEFAULT_CLUSTER in self.clusters:
            return DEFAULT_CLUSTER
        if len(self.clusters) > 1:
            names = ", ".join(map(repr, self.clusters))
            raise UsageError(f"the warehouse {self.uri} has several clusters, {names}: name one with --cluster")
        return self.clusters[0]

    @cached_property
    def completeness(self) -> Completeness:
        """Return what audits have read of each log partition, and the time since which no record is missing."""
        sql = f"SELECT {select_list(LogPartition)} FROM log_partitions WHERE cluster = $cluster ORDER BY log_partition"  # noqa: S608 - constants
        return Completeness({row.log_partition: row for row in self.answers(LogPartition, sql)})

    @cached_property
    def moves(self) -> Moves:
        """Return, for each group that moved from one log partition to another, its moves."""
        return by_group(self.answers(GroupMove, MOVES) if self.has_rows("group_moves") else ())

    @cached_property
    def coverage(self) -> Coverage:
        """Return the time range that the tables cover.

        Raises:
            UsageError: the tables have no record of the cluster.
        """
        self._check_cluster()
        rows = self.rows(
            "SELECT max(coalesce(finished_at, started_at)) FROM audit_runs WHERE cluster = $cluster AND status = 'done'"
        )
        ranges = [self._range(name) for name in ("offset_commits", "group_records")]
        firsts = [first for first, _ in ranges if first is not None]
        lasts = [last for last in (*(last for _, last in ranges), self.completeness.log_end) if last is not None]
        if not firsts:
            raise UsageError(f"the warehouse {self.uri} holds no records with a time of the cluster {self.cluster!r}")
        return Coverage(first=min(firsts), last=max(lasts), audited_at=rows[0][0])

    def _check_cluster(self) -> None:
        if self.cluster not in self.clusters:
            choices = ", ".join(map(repr, self.clusters)) or "none yet"
            raise UsageError(f"the warehouse {self.uri} does not know the cluster {self.cluster!r}; it has {choices}")

    def _range(self, name: str) -> tuple[datetime | None, datetime | None]:
        """Return the first and the last log timestamp of the cluster in a table; None for each if there is none.

        If all files have statistics, the timestamps come from the statistics, and no file is read.
        """
        files = self.snapshot(name).files(cluster=self.cluster)
        bounds = [(file.lowest.get("log_timestamp"), file.highest.get("log_timestamp")) for file in files]
        stated = [(first, last) for first, last in bounds if first is not None and last is not None]
        if files and len(stated) == len(files):
            return min(first for first, _ in stated), max(last for _, last in stated)
        sql = f"SELECT min(log_timestamp), max(log_timestamp) FROM {name} WHERE cluster = $cluster"  # noqa: S608
        first, last = self.rows(sql)[0]
        return first, last

    def read_time(self, text: str) -> datetime | LogTime:
        """Convert a time from the text that a user typed, see ``parse_time``.

        Raises:
            UsageError: the text is no time.
        """
        return parse_time(text, zone=self.zone)

    def read_end_time(self, text: str) -> datetime | LogTime:
        """Convert the end of a time range from the text that a user typed, see ``parse_end_time``.

        Raises:
            UsageError: the text is no time.
        """
        return parse_end_time(text, zone=self.zone)

    def resolve(self, time: datetime | LogTime) -> datetime:
        """Convert a time relative to the end of the log to a datetime. Return a datetime unchanged."""
        return time.resolve(self.coverage.last) if isinstance(time, LogTime) else time

    def resolve_end(self, time: datetime | LogTime) -> datetime | None:
        """Convert the end of a time range to a datetime.

        Return None for the end of the log (``now``), so that the range has no end and includes the last record.
        """
        return None if isinstance(time, LogTime) and time.is_log_end else self.resolve(time)

    def check_moment(self, at: datetime | None) -> str | None:
        """Check that the tables cover a point in time.

        Returns:
            A note on the answer if the time lies after the last record read, else None.

        Raises:
            UsageError: the time lies before the first record, or after the last audit.
        """
        if at is None:
            return None
        covered = self.coverage
        if at < covered.first:
            raise UsageError(
                f"{moment_text(at)} lies before the start of the log: "
                f"cluster {self.cluster!r} is covered from {covered}"
            )
        if covered.audited_at is not None and at > max(covered.audited_at, covered.last):
            raise UsageError(
                f"{moment_text(at)} lies after the last audit of cluster {self.cluster!r} "
                f"({moment_text(covered.audited_at)}): it is covered "
                f"from {covered}; leave the time out for the end of the log"
            )
        if at > covered.last:
            return f"The log ends at {moment_text(covered.last)}; this is the state at its end."
        return None

    def check_range(self, start: datetime | None, end: datetime | None) -> None:
        """Check that the tables have records of at least a part of a time range.

        Raises:
            UsageError: the tables have no record of the time range or of the cluster, or the range is empty.
        """
        if start is None and end is None:
            # A log without times is covered too.
            self._check_cluster()
            return
        if start is not None and end is not None and end <= start:
            when = "when" if end == start else "before"
            raise UsageError(
                f"the time range is empty: it ends at {moment_text(end)}, {when} it begins at {moment_text(start)}; "
                "the first time must be the earlier one"
            )
        covered = self.coverage
        if (start is not None and start > covered.last) or (end is not None and end <= covered.first):
            raise UsageError(f"that time range is not covered: cluster {self.cluster!r} is covered from {covered}")
