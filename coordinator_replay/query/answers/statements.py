"""Answers of SQL and of saved queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.query.answers.answered import Answered
from coordinator_replay.query.basis import Basis, basis_from
from coordinator_replay.query.completeness import undecoded_note
from coordinator_replay.query.conclusions import conclusions
from coordinator_replay.query.saved import extra_notes, run_saved_query, saved_query, saved_terms
from coordinator_replay.query.sql import catalog_answer, run_sql
from coordinator_replay.query.tables import Tables
from coordinator_replay.tables.names import table_names
from coordinator_replay.tables.views import views, words_of


@dataclass(frozen=True, slots=True)
class Table:
    """The result of an SQL statement: rows, and names of the columns.

    There are no columns if the statement returns nothing.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[Any, ...]]


def sql(
    warehouse: Tables, statement: str, parameters: Mapping[str, Any], *, allow_files: bool, timeout: timedelta | None
) -> Answered[Table]:
    """Return the answer to an SQL statement over the tables.

    Args:
        warehouse: the tables to read.
        statement: text of the statement.
        parameters: values for the statement's ``$names``.
        allow_files: let the statement read and write other files, attach databases and load extensions.
        timeout: the longest time that the statement may take; None for no limit.
    """
    columns, rows = run_sql(warehouse, statement, parameters, allow_files=allow_files, timeout=timeout)
    basis = _basis_of_statement(warehouse, statement)
    return Answered(content=Table(columns, rows), notes=[_every_cluster_note(warehouse, statement)], basis=basis)


def _basis_of_statement(warehouse: Tables, statement: str) -> Basis | None:
    """Return the basis of the answer to an SQL statement: the end of the log, and how complete the log is.

    Return None if the statement reads several clusters, if the warehouse does not have the cluster, or if the tables
    can't be read.
    """
    try:
        if _reads_every_cluster(warehouse, statement) or warehouse.cluster not in warehouse.clusters:
            return None
        return basis_from(warehouse)
    except (UsageError, WarehouseError):
        return None


def _every_cluster_note(warehouse: Tables, statement: str) -> str | None:
    """Return a note if a statement does not choose a cluster, so that it reads all clusters. Otherwise return None."""
    if "cluster" in words_of(statement) or not _reads_every_cluster(warehouse, statement):
        return None
    return (
        "The rows are of all clusters in the warehouse: WHERE cluster = $cluster keeps those of the one that --cluster "
        "names."
    )


def _reads_every_cluster(warehouse: Tables, statement: str) -> bool:
    """Return whether a statement reads tables of a warehouse with several clusters, and does not use ``$cluster``."""
    reads_tables = catalog_answer(statement) is None and not words_of(statement).isdisjoint({*table_names(), *views()})
    return reads_tables and "$cluster" not in statement and len(warehouse.clusters) > 1


def saved(warehouse: Tables, query: str, values: Mapping[str, str], *, timeout: timedelta | None) -> Answered[Table]:
    """Return the answer to a saved query.

    Args:
        warehouse: the tables to read.
        query: name of the query.
        values: values of the query's parameters, as a user would type them.
        timeout: the longest time that the statement may take; None for no limit.
    """
    columns, rows = run_saved_query(warehouse, query, values, timeout)
    asked = saved_query(query)
    summed = extra_notes(warehouse, query, values, has_rows=bool(rows), timeout=timeout)
    extra = [*conclusions(warehouse, asked.name), *summed]
    nothing = [
        f"No rows; cluster {warehouse.cluster!r} is covered from {warehouse.coverage}.",
        asked.none or None,
        *extra,
        saved_terms(query, values),
    ]
    named = None if asked.name == query else f"Saved query {asked.name}."
    notes = [named, *(extra if rows else nothing), asked.note or None, undecoded_note(warehouse), asked.then or None]
    return Answered(content=Table(columns, rows), notes=notes, basis=basis_from(warehouse))
