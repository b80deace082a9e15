"""Rows of tables as JSON objects, without a loop over rows."""

import base64
import json

import pyarrow as pa
import pyarrow.compute as pc

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def quote(strings: pa.StringArray) -> pa.StringArray:
    """Return each string as a JSON string.

    Nulls stay null.
    """
    quoted = pc.binary_join_element_wise('"', strings, '"', "")
    special = pc.fill_null(pc.match_substring_regex(strings, _NEEDS_ESCAPE), False)
    if not pc.any(special).as_py():
        return quoted
    escaped = [json.dumps(text, ensure_ascii=False) for text in strings.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, special, pa.array(escaped, pa.string()))


def _encode_base64(values: pa.BinaryArray) -> pa.StringArray:
    """Return each value as a JSON string in base64.

    Nulls stay null.
    """
    return pa.array(
        [None if value is None else f'"{base64.b64encode(value).decode()}"' for value in values.to_pylist()],
        pa.string(),
    )


def _text(column: pa.Array) -> pa.StringArray:
    """Return a column of a table as JSON texts.

    Nulls stay null.
    """
    if pa.types.is_string(column.type):
        return quote(column)
    if pa.types.is_binary(column.type):
        return _encode_base64(column)
    if pa.types.is_timestamp(column.type):
        shown = pc.strftime(column.cast(pa.timestamp("ms", "UTC")), "%Y-%m-%dT%H:%M:%SZ")
        return pc.binary_join_element_wise('"', shown, '"', "")
    return pc.cast(column, pa.string())


def render_rows(rows: pa.RecordBatch) -> pa.StringArray:
    """Return each row of a table as a JSON object.

    The texts of columns named ``…_json`` are JSON already, and are inserted as they are.
    """
    pieces: list[pa.StringArray | str] = []
    for place, (field, column) in enumerate(zip(rows.schema, rows.columns, strict=True)):
        opening = "," if place else "{"
        text = column if field.name.endswith("_json") else _text(column)
        pieces += [f'{opening}"{field.name}":', pc.fill_null(text, "null")]
    return pc.binary_join_element_wise(*pieces, "}", "")
