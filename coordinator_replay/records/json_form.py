"""Kafka's JSON form of decoded columns, rendered for whole batches at a time.

The form is that of ``scalar.py``. Every field is rendered as a column of text once; structs join columns, arrays join
the elements of a list. Only strings that need escaping, and bytes, are looked at one by one.
"""

import base64
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.records import arrays
from coordinator_replay.records.definition import INTEGER_SIZES
from coordinator_replay.records.machine import ABSENT, NULL, Columns
from coordinator_replay.records.program import Node, StructNode
from coordinator_replay.records.scalar import UNKNOWN_TAGS

_NEEDS_ESCAPE = r'["\\\x00-\x1f\x7f]'


def quote(strings: pa.StringArray) -> pa.StringArray:
    """Each string as a JSON string; nulls stay null."""
    quoted = pc.binary_join_element_wise('"', strings, '"', "")
    special = pc.fill_null(pc.match_substring_regex(strings, _NEEDS_ESCAPE), False)
    if not pc.any(special).as_py():
        return quoted
    escaped = [json.dumps(text, ensure_ascii=False) for text in strings.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, special, pa.array(escaped, pa.string()))


def encode_base64(values: pa.BinaryArray) -> pa.StringArray:
    """Each run of bytes as a JSON string in base64; nulls stay null."""
    return pa.array(
        [None if value is None else f'"{base64.b64encode(value).decode()}"' for value in values.to_pylist()],
        pa.string(),
    )


class _Renderer:
    def __init__(self, columns: Columns, spans: arrays.Spans) -> None:
        self.columns = columns
        self.spans = spans

    def struct(self, struct: StructNode, rows: int) -> pa.StringArray:
        pieces: list[pa.StringArray | str] = ["{"]
        for place, node in enumerate(struct.fields):
            comma = "," if place else ""
            text = self.node(node, rows)
            named = pc.binary_join_element_wise(f'{comma}"{node.field.name}":', pc.fill_null(text, "null"), "")
            pieces.append(named if node.field.tag is None else self.unless_default(node, named, text))
        if struct.unknown is not None and len(self.columns.first[struct.unknown[1]]):
            pieces.append(self.unknown_tags(struct.unknown))
        return pc.binary_join_element_wise(*pieces, "}", "")

    def unless_default(self, node: Node, named: pa.StringArray, text: pa.StringArray) -> pa.StringArray:
        """Kafka's JSON leaves out a tagged field that equals its default, so absence reads the same as default."""
        column = node.column
        absent = pa.array(self.columns.second[column] == ABSENT)
        default = json.dumps(node.field.default, separators=(",", ":"))
        return pc.if_else(pc.or_(absent, pc.equal(pc.fill_null(text, "null"), default)), "", named)

    def node(self, node: Node, rows: int) -> pa.StringArray:
        """The field of every struct it stands in; null where the field is null."""
        if not node.is_list:
            if node.struct is not None:
                return self.struct(node.struct, rows)
            return self.scalar(node, node.column)
        counts = arrays.counts(self.columns, node.column)
        beneath = int(counts.sum())
        elements = self.scalar(node, node.element) if node.struct is None else self.struct(node.struct, beneath)
        joined = self.join(pc.fill_null(elements, "null"), counts)
        if node.field.is_array:
            joined = pc.binary_join_element_wise("[", joined, "]", "")
        missing = pa.array(self.columns.second[node.column] == NULL)
        return pc.if_else(missing, pa.scalar(None, pa.string()), joined)

    def join(self, elements: pa.StringArray, counts: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> pa.StringArray:
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), elements), ",")

    def scalar(self, node: Node, column: int) -> pa.StringArray:
        type_ = node.field.type
        if type_ in INTEGER_SIZES:
            return pc.cast(arrays.integers(self.columns, column, pa.int64()), pa.string())
        if type_ == "uuid":
            return pc.binary_join_element_wise('"', arrays.uuids(self.columns, column, self.spans.data), '"', "")
        if type_ == "string":
            return quote(arrays.slices(self.columns, column, self.spans.buffer, pa.string()))
        return encode_base64(arrays.slices(self.columns, column, self.spans.buffer, pa.binary()))

    def unknown_tags(self, unknown: tuple[int, int, int]) -> pa.StringArray:
        counted, tag, data = unknown
        counts = arrays.counts(self.columns, counted)
        entries = pc.binary_join_element_wise(
            '{"tag":',
            pc.cast(arrays.integers(self.columns, tag, pa.int64()), pa.string()),
            ',"data":',
            encode_base64(arrays.slices(self.columns, data, self.spans.buffer, pa.binary())),
            "}",
            "",
        )
        listed = pc.binary_join_element_wise(f',"{UNKNOWN_TAGS}":[', self.join(entries, counts), "]", "")
        return pc.if_else(pa.array(counts > 0), listed, "")


def render(struct: StructNode, columns: Columns, spans: arrays.Spans, rows: int) -> pa.StringArray:
    """The JSON form of every row that a program read without error.

    Args:
        struct: the compiled struct.
        columns: what the machine made of the rows.
        spans: the bytes that were read.
        rows: how many rows were read without error.
    """
    if rows == 0:
        return pa.array([], pa.string())
    return _Renderer(columns, spans).struct(struct, rows)


def _text(column: pa.Array) -> pa.StringArray:
    """A column of a table as JSON texts; nulls stay null."""
    if pa.types.is_string(column.type):
        return quote(column)
    if pa.types.is_binary(column.type):
        return encode_base64(column)
    if pa.types.is_timestamp(column.type):
        shown = pc.strftime(column.cast(pa.timestamp("ms", "UTC")), "%Y-%m-%dT%H:%M:%SZ")
        return pc.binary_join_element_wise('"', shown, '"', "")
    return pc.cast(column, pa.string())


def render_rows(rows: pa.RecordBatch) -> pa.StringArray:
    """Each row of a table as a JSON object; columns named ``…_json`` are set in as the JSON they hold."""
    pieces: list[pa.StringArray | str] = []
    for place, (field, column) in enumerate(zip(rows.schema, rows.columns, strict=True)):
        opening = "," if place else "{"
        text = column if field.name.endswith("_json") else _text(column)
        pieces += [f'{opening}"{field.name}":', pc.fill_null(text, "null")]
    return pc.binary_join_element_wise(*pieces, "}", "")
