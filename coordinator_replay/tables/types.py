"""The types that a column can have: the grammar of ``schemas/tables/README.md``, as Arrow types.

The text form is Spark's own, so it goes into DDL as it stands; only Arrow needs a translation.
"""

import re

import pyarrow as pa

from coordinator_replay.errors import DefinitionError

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

_TOKEN = re.compile(r"[a-z][a-z0-9_]*|[<>,:]")


class _Parser:
    """Reads one type from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = _TOKEN.findall(text)
        if "".join(self.tokens) != text:
            raise self.error("holds characters that no type has")
        self.tokens.append("")
        self.position = 0

    def error(self, problem: str) -> DefinitionError:
        return DefinitionError(f"type {self.text!r} {problem}")

    def next(self) -> str:
        token = self.tokens[self.position]
        self.position += 1
        return token

    def expect(self, token: str) -> None:
        actual = self.next()
        if actual != token:
            raise self.error(f"has {actual or 'its end'!r} where {token!r} must stand")

    def type(self) -> pa.DataType:
        word = self.next()
        if word in SCALARS:
            return SCALARS[word]
        if word not in ("array", "map", "struct"):
            raise self.error(f"names an unknown type {word!r}")
        self.expect("<")
        parsed = self._struct() if word == "struct" else self._array() if word == "array" else self._map()
        self.expect(">")
        return parsed

    def _array(self) -> pa.DataType:
        # Spark calls the elements so; Arrow's default name would make equal types print differently.
        return pa.list_(pa.field("element", self.type()))

    def _map(self) -> pa.DataType:
        key = self.type()
        self.expect(",")
        return pa.map_(key, self.type())

    def _struct(self) -> pa.DataType:
        fields: list[pa.Field] = []
        while True:
            name = self.next()
            self.expect(":")
            fields.append(pa.field(name, self.type()))
            if self.tokens[self.position] != ",":
                return pa.struct(fields)
            self.next()


def parse_type(text: str) -> pa.DataType:
    """Read a column type.

    >>> parse_type("map<int,bigint>")
    MapType(map<int32, int64>)

    Raises:
        DefinitionError: the text is not a type of the grammar.
    """
    parser = _Parser(text)
    parsed = parser.type()
    parser.expect("")
    return parsed
