"""The files of ``schemas/tables`` as typed, validated definitions.

The grammar stands in ``schemas/tables/README.md``. A definition says all there is to know of a table's shape; Arrow
and Spark schemas, comments and documentation are derived from it and written nowhere else.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from coordinator_replay.errors import DefinitionError
from coordinator_replay.schemas_folder import schema_files
from coordinator_replay.tables.types import SCALARS, parse_type

MAX_CLUSTERING = 4
"""Delta takes no more clustering columns."""

_PLACES = ("cluster", "log_partition", "log_offset", "to_offset", "producer_id", "settled_at_offset")
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        type: as Spark SQL writes it.
        about: meaning, unit, and what null means; the column's comment in the table.
        is_required: whether every row has a value.
    """

    name: str
    type: str
    about: str
    is_required: bool

    def arrow_field(self) -> pa.Field:
        """The column as an Arrow field, its comment in the metadata.

        The field is nullable whatever ``is_required`` says: batches leave Python nullable, and NOT NULL belongs to
        the table.
        """
        return pa.field(self.name, parse_type(self.type), metadata={"comment": self.about})


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of a warehouse.

    Attributes:
        about: what a row is; the table's comment.
        keys: columns that together identify a row.
        clustering: columns that upkeep orders the rows of a partition by; empty for small tables.
        partitioned_by: columns whose values stand in Delta's log instead of in the files.
    """

    name: str
    about: str
    keys: tuple[str, ...]
    clustering: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def bounded(self) -> tuple[str, ...]:
        """Columns that questions ask by: the bounds of each file are kept for these, and for no others."""
        asked = {*self.keys, *self.clustering, *_PLACES}
        return tuple(c.name for c in self.columns if c.name in asked or c.type == "timestamp")

    def column(self, name: str) -> Column:
        """The column of that name.

        Raises:
            DefinitionError: there is none.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise DefinitionError(f"table {self.name} has no column {name!r}")

    def arrow_schema(self, names: Sequence[str] | None = None) -> pa.Schema:
        """The columns as an Arrow schema.

        Args:
            names: only these, in this order; all of them if None.
        """
        columns = self.columns if names is None else [self.column(name) for name in names]
        return pa.schema([column.arrow_field() for column in columns])

    def file_schema(self) -> pa.Schema:
        """The columns that the table's files hold: all but the partition columns."""
        return self.arrow_schema([column.name for column in self.columns if column.name not in self.partitioned_by])


def _parse_column(raw: Mapping[str, Any], where: str) -> Column:
    unknown = set(raw) - {"name", "type", "required", "about"}
    if unknown:
        raise DefinitionError(f"{where}.{raw.get('name')}: unknown entries {sorted(unknown)}")
    column = Column(
        name=str(raw["name"]),
        type=str(raw["type"]),
        about=str(raw["about"]),
        is_required=bool(raw.get("required", False)),
    )
    if not _NAME.fullmatch(column.name):
        raise DefinitionError(f"{where}: {column.name!r} is no column name: write lower case, words joined by _")
    if not column.about:
        raise DefinitionError(f"{where}.{column.name}: 'about' must say what the column means")
    try:
        parse_type(column.type)
    except DefinitionError as problem:
        raise DefinitionError(f"{where}.{column.name}: {problem}") from None
    return column


def _check_table(table: Table) -> None:
    names = [column.name for column in table.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DefinitionError(f"{table.name}: columns {twice} stand twice")
    if "cluster" not in names:
        raise DefinitionError(f"{table.name}: every table has the column 'cluster'")
    if not table.keys:
        raise DefinitionError(f"{table.name}: 'keys' must say what identifies a row")
    if len(table.clustering) > MAX_CLUSTERING:
        raise DefinitionError(f"{table.name}: more than {MAX_CLUSTERING} clustering columns")
    for name in (*table.keys, *table.clustering, *table.partitioned_by):
        if table.column(name).type not in SCALARS:
            raise DefinitionError(f"{table.name}: {name} is nested: it can be no key, clustering or partition column")


def parse_table(raw: Mapping[str, Any], where: str) -> Table:
    """Read one table.

    Args:
        raw: the parsed JSON of a file of ``schemas/tables``.
        where: the file, for error messages.

    Raises:
        DefinitionError: an entry is missing, unknown, or of the wrong form.
    """
    unknown = set(raw) - {"name", "about", "keys", "clustering", "partitioned_by", "columns"}
    if unknown:
        raise DefinitionError(f"{where}: unknown entries {sorted(unknown)}")
    try:
        table = Table(
            name=str(raw["name"]),
            about=str(raw["about"]),
            keys=tuple(raw["keys"]),
            clustering=tuple(raw["clustering"]),
            partitioned_by=tuple(raw["partitioned_by"]),
            columns=tuple(_parse_column(entry, str(raw["name"])) for entry in raw["columns"]),
        )
    except (KeyError, TypeError) as problem:
        raise DefinitionError(f"{where}: {problem!r} is missing or of the wrong form") from problem
    _check_table(table)
    return table


def _read_table(path: Traversable) -> Table:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise DefinitionError(f"{path.name} is not JSON: {problem}") from problem
    table = parse_table(raw, path.name)
    if f"{table.name}.json" != path.name:
        raise DefinitionError(f"{path.name}: holds the table {table.name!r}; file and table have one name")
    return table


@cache
def tables() -> Mapping[str, Table]:
    """All tables of the contract by name.

    Raises:
        DefinitionError: a file breaks the grammar.
    """
    read = map(_read_table, schema_files("tables", ".json"))
    return MappingProxyType({table.name: table for table in read})


def table(name: str) -> Table:
    """The table of that name.

    Raises:
        DefinitionError: the contract has none.
    """
    try:
        return tables()[name]
    except KeyError:
        raise DefinitionError(f"the contract has no table {name!r}") from None
