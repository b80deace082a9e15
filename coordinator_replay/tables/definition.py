"""The files of ``schemas/tables`` as typed definitions.

``schemas/tables/README.md`` explains the form of the files. Schemas of Arrow and Spark, comments of tables and the
documentation are derived from these definitions.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable
from types import MappingProxyType

import pyarrow as pa

from coordinator_replay.errors import DefinitionError
from coordinator_replay.schemas_folder import schema_files

SCALARS: dict[str, pa.DataType] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
"""Types without parameters, by their name in Spark SQL."""

MOST_COMMENT_BYTES = 255
"""Largest length of a column's comment in UTF-8 that every catalog accepts."""

_SENTENCE_END = re.compile(r"(?<=\.) ")

_PLACES = ("cluster", "log_partition", "log_offset", "to_offset", "producer_id", "settled_at_offset")


def parse_type(text: str) -> pa.DataType:
    """Return the Arrow type of a column type, which is written as in Spark's DDL.

    >>> parse_type("map<int,bigint>")
    MapType(map<int32, int64>)

    Raises:
        DefinitionError: the text is not a type of the grammar.
    """
    if text in SCALARS:
        return SCALARS[text]
    outer, _, inner = text.removesuffix(">").partition("<")
    match outer:
        case "array":
            # Spark's name of the elements; with Arrow's default name, equal types would print differently.
            return pa.list_(pa.field("element", parse_type(inner)))
        case "map":
            return pa.map_(*map(parse_type, _parts(inner)))
        case "struct":
            fields = (part.partition(":") for part in _parts(inner))
            return pa.struct([pa.field(name, parse_type(type_)) for name, _, type_ in fields])
    raise DefinitionError(f"{text!r} is no type of a column")


def _parts(text: str) -> list[str]:
    """Return the parts of a type between its commas.

    Commas inside angle brackets do not count.
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character == "<") - (character == ">")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        type: the type as Spark SQL writes it.
        about: meaning, unit, and what null means.
        is_required: whether every row has a value.
    """

    name: str
    type: str
    about: str
    is_required: bool

    @property
    def comment(self) -> str:
        """Return the column's comment in the table: the first sentences of ``about``, as many as every catalog accepts.

        An ellipsis stands for the sentences that are left out.
        """
        # A Hive metastore stores at most 256 characters, Glue at most 255 bytes. A Hive metastore tries to store a
        # longer comment ten times, with pauses of two seconds.
        sentences = _SENTENCE_END.split(self.about)
        shortened = [f"{' '.join(sentences[:count])} …" for count in range(1, len(sentences))]
        return [text for text in (*shortened, self.about) if len(text.encode()) <= MOST_COMMENT_BYTES][-1]

    def arrow_field(self) -> pa.Field:
        """Return the column as a nullable Arrow field, with the column's comment in the metadata."""
        # The field is nullable even if ``is_required`` is true: NOT NULL is a property of the table, not of a batch.
        return pa.field(self.name, parse_type(self.type), metadata={"comment": self.comment})


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of a warehouse.

    Attributes:
        about: the meaning of a row; the table's comment.
        keys: columns that together identify a row.
        clustering: columns by which ``maintain`` sorts rows with the same partition columns; empty for small tables.
        partitioned_by: the partition columns. Their values are in Delta's log, not in the files.
        is_internal: whether only audits use the table. The columns of an internal table may change with any release.
    """

    name: str
    about: str
    keys: tuple[str, ...]
    clustering: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    columns: tuple[Column, ...]
    is_internal: bool

    @property
    def bounded(self) -> tuple[str, ...]:
        """Return the names of the columns whose lowest and highest values Delta's log has for each file."""
        asked = {*self.keys, *self.clustering, *_PLACES}
        return tuple(c.name for c in self.columns if c.name in asked or c.type == "timestamp")

    def column(self, name: str) -> Column:
        """Return the column of that name.

        Raises:
            DefinitionError: there is no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise DefinitionError(f"table {self.name} has no column {name!r}")

    def arrow_schema(self, names: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns as an Arrow schema.

        Args:
            names: only these columns, in this order; None for all columns.
        """
        columns = self.columns if names is None else [self.column(name) for name in names]
        return pa.schema([column.arrow_field() for column in columns])

    def file_schema(self) -> pa.Schema:
        """Return the columns that the table's files hold: all but the partition columns."""
        return self.arrow_schema([column.name for column in self.columns if column.name not in self.partitioned_by])


def _read_table(path: Traversable) -> Table:
    raw = json.loads(path.read_text(encoding="utf-8"))
    lists = {name: tuple(raw[name]) for name in ("keys", "clustering", "partitioned_by")}
    columns = (
        Column(
            name=column["name"], type=column["type"], about=column["about"], is_required=column.get("required", False)
        )
        for column in raw["columns"]
    )
    is_internal = raw.get("internal", False)
    return Table(name=raw["name"], about=raw["about"], columns=tuple(columns), is_internal=is_internal, **lists)


@cache
def tables() -> Mapping[str, Table]:
    """Return all defined tables by name."""
    read = map(_read_table, schema_files("tables", ".json"))
    return MappingProxyType({table.name: table for table in read})


def public_tables() -> Mapping[str, Table]:
    """Return the tables that people query, by name: all but internal tables."""
    return {name: table for name, table in tables().items() if not table.is_internal}


def table(name: str) -> Table:
    """Return the table of that name.

    Raises:
        DefinitionError: there is no such table.
    """
    try:
        return tables()[name]
    except KeyError:
        raise DefinitionError(f"the contract has no table {name!r}") from None
