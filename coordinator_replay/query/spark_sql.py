"""Translation of SQL statements from DuckDB's SQL to Spark's SQL.

Saved queries and views are written only in DuckDB's SQL. The library sqlglot translates them to Spark's SQL. This
module replaces the few functions that sqlglot can't translate, or translates wrongly.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import sqlglot
from sqlglot import exp

from coordinator_replay.tables.names import table_names
from coordinator_replay.tables.views import views
from coordinator_replay.times import LATEST

Value = str | int | float | datetime | None
"""A value of a parameter."""


def spark_statement(sql: str, values: Mapping[str, Value] | None = None, schema: Sequence[str] = ()) -> str:
    """Translate a SELECT over tables and views of a warehouse to Spark's SQL.

    Args:
        sql: the statement in DuckDB's SQL.
        values: a value for each ``$name`` in the statement; a parameter without a value is null.
        schema: catalog and schema of the tables and views, or the schema alone; empty leaves their names unchanged.

    Raises:
        ParseError: sqlglot can't read the statement.
    """
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    # Inner expressions come first, so that a function's arguments are replaced before the function.
    for node in reversed(list(tree.walk())):
        if isinstance(node, exp.Placeholder | exp.Parameter):
            node.replace(_literal((values or {}).get(node.name)))
        elif isinstance(node, exp.Table):
            _qualify(node, schema)
        elif (replace := _REPLACED.get(type(node))) is not None:
            node.replace(replace(node))
    return tree.sql(dialect="spark", comments=False)


def _qualify(table: exp.Table, schema: Sequence[str]) -> None:
    """Put the schema in front of the name of a warehouse's table or view."""
    if not schema or table.name not in {*table_names(), *views()}:
        return
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
    for part, name in zip(("db", "catalog"), reversed(schema), strict=False):
        table.set(part, exp.to_identifier(name, quoted=True))


def _literal(value: Value) -> exp.Expr:
    if isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), "timestamp", dialect="spark")
    return exp.convert(value)


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _milliseconds(node: exp.Expr) -> exp.Expr:
    """Replace ``epoch_ms`` of a timestamp by ``UNIX_MILLIS``. sqlglot would translate it to the inverse function."""
    return _call("UNIX_MILLIS", node.this)


def _length(node: exp.Expr) -> exp.Expr:
    """Replace ``len`` of a list by Spark's ``array_size``, which is null for a null list.

    Spark's ``size`` is −1 for a null list in some settings.
    """
    return _call("ARRAY_SIZE", node.this)


def _listed(node: exp.Expr) -> exp.Expr:
    """Replace ``string_agg(DISTINCT …)`` by ``array_join`` of a sorted set.

    Spark before 4.0 has no ``string_agg``.
    """
    inner = node.this
    while isinstance(inner, exp.Order | exp.Distinct):
        inner = inner.expressions[0] if isinstance(inner, exp.Distinct) else inner.this
    names = _call("ARRAY_SORT", _call("COLLECT_SET", inner))
    return exp.func("NULLIF", _call("ARRAY_JOIN", names, node.args["separator"]), exp.Literal.string(""))


def _counted(values: exp.Expr) -> exp.Expr:
    """Replace DuckDB's function ``histogram``, which returns a map from each value to the number of its rows."""
    text = values.sql(dialect="spark")
    every, distinct = f"COLLECT_LIST({text})", f"ARRAY_SORT(COLLECT_SET({text}))"
    counts = f"TRANSFORM({distinct}, v -> CAST(SIZE(FILTER({every}, w -> w = v)) AS BIGINT))"
    return sqlglot.parse_one(f"MAP_FROM_ARRAYS({distinct}, {counts})", dialect="spark")


_NAMED: Mapping[str, Callable[[exp.Anonymous], exp.Expr]] = {
    "HISTOGRAM": lambda node: _counted(node.expressions[0]),
    "TO_MILLISECONDS": lambda node: sqlglot.parse_one(
        f"MAKE_DT_INTERVAL(0, 0, 0, CAST({node.expressions[0].sql(dialect='spark')} AS DECIMAL(20, 0)) / 1000)",
        dialect="spark",
    ),
    "LIST_SUM": lambda node: sqlglot.parse_one(
        f"AGGREGATE({node.expressions[0].sql(dialect='spark')}, CAST(0 AS BIGINT), (total, item) -> total + item)",
        dialect="spark",
    ),
}


def _named(node: exp.Anonymous) -> exp.Expr:
    replace = _NAMED.get(node.name.upper())
    return node if replace is None else replace(node)


def _part(node: exp.Expr) -> exp.Expr:
    """Replace a slice of a list, such as ``names[2:4]``, by Spark's function ``slice``, such as ``slice(names, 2, 3)``.

    The numbers are the first and the last position in DuckDB, and the first position and the length in Spark.
    """
    (bounds,) = node.expressions
    if not isinstance(bounds, exp.Slice):
        return node
    first = bounds.this or exp.Literal.number(1)
    return _call("SLICE", node.this, first, exp.paren(bounds.expression) - first + 1)


def _columns(node: exp.Expr) -> exp.Expr:
    """Unpack the row ``(a, b)`` in ``IN (SELECT (a, b) ...)`` into the columns ``a, b``."""
    query = node.args.get("query")
    select = None if query is None else query.this
    if isinstance(select, exp.Select) and isinstance(select.expressions[0], exp.Tuple):
        select.set("expressions", select.expressions[0].expressions)
    return node


def _windowed(node: exp.Expr) -> exp.Expr:
    """Replace the FILTER of a window aggregate by a CASE, because Spark has no FILTER for window aggregates.

    The CASE is null for rows that the FILTER leaves out.
    """
    aggregate = node.this.this
    if not isinstance(node.this, exp.Filter) or not isinstance(aggregate, _WITHOUT_NULLS):
        return node
    if isinstance(aggregate.this, exp.Distinct):
        return node
    value = exp.Literal.number(1) if isinstance(aggregate.this, exp.Star) else aggregate.this
    aggregate.set("this", exp.Case().when(node.this.expression.this, value))
    node.set("this", aggregate)
    return node


def _wide(node: exp.Expr) -> exp.Expr:
    """Replace the type HUGEINT by the widest type of whole numbers that Spark has."""
    return exp.DataType.build("decimal(38, 0)", dialect="spark") if node.this == exp.DType.INT128 else node


def _endless(node: exp.Literal) -> exp.Expr:
    """Replace the two infinite timestamps by the first and the last timestamp that Spark has."""
    ends = {"-infinity": datetime(1, 1, 1, tzinfo=UTC), "infinity": LATEST}
    return _literal(ends[node.name]) if node.is_string and node.name in ends else node


_WITHOUT_NULLS = (exp.Avg, exp.Count, exp.Max, exp.Min, exp.Sum)
"""Aggregates that ignore nulls."""

_REPLACED: Mapping[type[exp.Expr], Callable[..., exp.Expr]] = {
    exp.UnixToTime: _milliseconds,
    exp.Length: _length,
    exp.ArraySize: _length,
    exp.ArrayOverlaps: lambda node: _call("ARRAYS_OVERLAP", node.this, node.expression),
    exp.GroupConcat: _listed,
    exp.Anonymous: _named,
    exp.Bracket: _part,
    exp.In: _columns,
    exp.DataType: _wide,
    exp.Literal: _endless,
    exp.Window: _windowed,
}
