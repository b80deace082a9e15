"""Fields that stand one after the other, read into columns: the keys and values of offset commits.

Nearly all records are offset commits, and nearly all of those are in order. A compiled loop reads such rows as the
definition lays them out; a row in which anything is not plainly in order is left to ``plain.py``, which has all rules.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.compiled import compiled, inlined
from coordinator_replay.records.definition import INTEGER_SIZES, Field, Struct
from coordinator_replay.records.json_rows import quote

Rows = npt.NDArray[np.int64]
"""Positions of rows in a batch, rising."""

Flags = npt.NDArray[np.bool_]

_ID_BYTES = 16
_NUMBER, _ID, _TEXT = range(3)
_NO_ID = bytes(_ID_BYTES)


class Layout:
    """How the rows of a struct without lists are laid out.

    Args:
        struct: the fields.
        versions: what the first two bytes of a row can be, and the struct's version that follows each.

    Attributes:
        places: the column of each field, by its name.
        columns: of each opening and column: number, id or text, size in bytes, tag; -1 for none.
    """

    def __init__(self, struct: Struct, versions: Mapping[int, int]) -> None:
        self.fields = struct.fields
        self.places = {field.name: place for place, field in enumerate(struct.fields)}
        self.columns = np.full((max(versions) + 1, len(struct.fields), 3), -1, np.int32)
        self.is_flexible = np.zeros(len(self.columns), np.bool_)
        for opening, version in versions.items():
            self.is_flexible[opening] = version in struct.flexible
            for place, field in enumerate(struct.fields):
                if version in field.versions:
                    self.columns[opening, place] = _form(field)


def _form(field: Field) -> tuple[int, int, int]:
    """Number, id or text, the size in bytes, and the tag or -1."""
    tag = -1 if field.tag is None else field.tag
    if field.is_array or field.nullable:
        raise ValueError(f"{field.name}: columns hold neither lists nor nulls")
    if field.type == "string":
        return _TEXT, 2, tag
    return (_ID, _ID_BYTES, tag) if field.type == "uuid" else (_NUMBER, INTEGER_SIZES[field.type], tag)


@inlined
def _number(data: Any, at: Any, size: Any) -> Any:
    """A signed big-endian number."""
    number = np.int64(data[at])
    number -= (number >> 7) << 8
    for place in range(at + 1, at + size):
        number = number << 8 | np.int64(data[place])
    return number


@inlined
def _uvarint(data: Any, at: Any, end: Any) -> Any:
    """An unsigned varint and where it ends, -1 if it is damaged."""
    value = np.int64(0)
    for shift in range(0, 35, 7):
        if at >= end:
            break
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, np.int64(at)
    return np.int64(0), np.int64(-1)


@inlined
def _read_field(
    data: Any, at: Any, end: Any, columns: Any, is_flexible: Any, column: Any, first: Any, length: Any, row: Any
) -> Any:
    """Reads one field of a row into a column; where it ends, -1 if it is not in order."""
    kind, size = columns[column, 0], np.int64(columns[column, 1])
    if kind == 2:  # _TEXT
        if is_flexible:
            size, at = _uvarint(data, at, end)
            size -= 1
        elif at + 2 > end:
            return np.int64(-1)
        else:
            size, at = _number(data, at, 2), at + 2
    if at < 0 or size < 0 or size > end - at:
        return np.int64(-1)
    first[column, row] = _number(data, at, size) if kind == 0 else at
    length[column, row] = size
    return at + size


@inlined
def _read_tagged_fields(
    data: Any, at: Any, end: Any, columns: Any, is_flexible: Any, first: Any, length: Any, row: Any
) -> Any:
    """Reads the tagged fields of a row; where they end, -1 if one of them is unknown or not in order."""
    count, at = _uvarint(data, at, end)
    for _ in range(count):
        tag, at = _uvarint(data, at, end)
        size, at = _uvarint(data, at, end)
        if at < 0 or size > end - at:
            return np.int64(-1)
        place = -1
        for column in range(len(columns)):
            if columns[column, 2] == tag:
                place = column
        if place < 0 or length[place, row] >= 0:
            return np.int64(-1)
        stop = at + size
        if _read_field(data, at, stop, columns, is_flexible, place, first, length, row) != stop:
            return np.int64(-1)
        at = stop
    return at


@compiled
def _read_rows(
    data: Any,
    bounds: Any,
    rows: Any,
    layouts: Any,
    are_flexible: Any,
    first: Any,
    length: Any,
    opening: Any,
    in_order: Any,
) -> None:
    """Reads the fields of rows.

    Args:
        data: uint8 array with the bytes of all rows.
        bounds: int32 array: where each row begins, and behind them where the last one ends.
        rows: int64 array: which rows to read.
        layouts: ``Layout.columns``.
        are_flexible: ``Layout.is_flexible``.
        first: int64 matrix, field by row, to be filled: numbers, or where the bytes of an id or a text begin.
        length: int32 matrix to be filled: how many bytes a field has; holds -1 for all that are not there.
        opening: int16 array to be filled: the number that a row opens with, which says how it is laid out.
        in_order: bool array of False to be filled: whether the row is plainly in order.
    """
    for row in range(len(rows)):
        at, end = np.int64(bounds[rows[row]]), np.int64(bounds[rows[row] + 1])
        if end - at < 2:
            continue
        number = _number(data, at, 2)
        opening[row] = number
        if not 0 <= number < len(layouts) or layouts[number, 0, 0] < 0:
            continue
        at += 2
        columns, is_flexible = layouts[number], are_flexible[number]
        for column in range(len(columns)):
            if at >= 0 and columns[column, 0] >= 0 and columns[column, 2] < 0:
                at = _read_field(data, at, end, columns, is_flexible, column, first, length, row)
        if is_flexible and at >= 0:
            at = _read_tagged_fields(data, at, end, columns, is_flexible, first, length, row)
        in_order[row] = at == end


@compiled
def _gather(data: Any, first: Any, bounds: Any, out: Any) -> None:
    """Copies texts, one after the other, to where ``bounds`` say that each begins."""
    for row in range(len(first)):
        source, target = np.uint64(first[row]), np.uint64(bounds[row])
        for step in range(np.uint64(bounds[row + 1]) - target):
            out[target + step] = data[source + step]


@dataclass(frozen=True, slots=True)
class Columns:
    """The fields of some rows.

    Attributes:
        layout: how they were laid out.
        data: the bytes of all rows.
        first: field by row: numbers, or where the bytes of an id or a text begin.
        length: field by row: how many bytes it has, -1 where it is not there.
        opening: the number that each row opens with.
        in_order: which rows were read; all fields of the others are null.
    """

    layout: Layout
    data: npt.NDArray[np.uint8]
    first: npt.NDArray[np.int64]
    length: npt.NDArray[np.int32]
    opening: npt.NDArray[np.int16]
    in_order: Flags

    def numbers(self, name: str, type_: pa.DataType, none: int | None = None) -> pa.Array:
        """A field of integers; null where it is not there or ``none``."""
        place = self.layout.places[name]
        missing = self.length[place] < 0
        if none is not None:
            missing |= self.first[place] == none
        return pa.array(self.first[place].astype(type_.to_pandas_dtype()), type_, mask=missing)

    def texts(self, name: str) -> pa.StringArray:
        """A field of strings."""
        place = self.layout.places[name]
        length = self.length[place]
        bounds = np.zeros(len(length) + 1, np.int32)
        np.cumsum(np.maximum(length, 0), out=bounds[1:])
        out = np.empty(bounds[-1], np.uint8)
        _gather(self.data, self.first[place], bounds, out)
        present = pa.py_buffer(np.packbits(length >= 0, bitorder="little"))
        return pa.Array.from_buffers(pa.string(), len(length), [present, pa.py_buffer(bounds), pa.py_buffer(out)])

    def ids(self, name: str) -> pa.StringArray:
        """A field of ids in Kafka's text form (``Uuid.toString``); null where it is not there or zero."""
        place = self.layout.places[name]
        present = self.length[place] >= 0
        raw = self.data[self.first[place][present][:, np.newaxis] + np.arange(_ID_BYTES)]
        ids = pa.Array.from_buffers(pa.binary(_ID_BYTES), len(raw), [None, pa.py_buffer(raw)]).dictionary_encode()
        texts = pa.array([_id_text(each) for each in ids.dictionary.to_pylist()], pa.string())
        indices = np.zeros(len(present), np.int32)
        indices[present] = ids.indices.to_numpy()
        return texts.take(pa.array(indices, mask=~present))

    def json(self) -> pa.StringArray:
        """The rows as Kafka's JSON form has them; null where the first field, which all versions have, is null."""
        members: list[pa.StringArray | str] = []
        for field in self.layout.fields:
            if field.type == "string":
                text = quote(self.texts(field.name))
            elif field.type == "uuid":
                text = quote(self.ids(field.name))
            else:
                text = self.numbers(field.name, pa.int64()).cast(pa.string())
            member = pc.binary_join_element_wise(f'{"," if members else "{"}"{field.name}":', text, "")
            members.append(pc.fill_null(member, "") if members else member)
        return pc.binary_join_element_wise(*members, "}", "")


def _id_text(raw: bytes) -> str | None:
    return None if raw == _NO_ID else base64.urlsafe_b64encode(raw)[:22].decode()


def read_columns(layout: Layout, array: pa.BinaryArray, rows: Rows) -> Columns:
    """Read rows of a column of keys or values; null ones count as not in order.

    Args:
        layout: how they are laid out.
        array: the bytes of all rows.
        rows: which of them to read.
    """
    shape = len(layout.fields), len(rows)
    columns = Columns(
        layout=layout,
        data=_bytes_of(array),
        first=np.zeros(shape, np.int64),
        length=np.full(shape, -1, np.int32),
        opening=np.full(len(rows), -1, np.int16),
        in_order=np.zeros(len(rows), np.bool_),
    )
    results = (columns.first, columns.length, columns.opening, columns.in_order)
    _read_rows(columns.data, _bounds_of(array), rows, layout.columns, layout.is_flexible, *results)
    columns.length[:, ~columns.in_order] = -1
    for field in layout.fields:
        if field.type == "string":
            wrong = _not_unicode(columns.texts(field.name))
            columns.in_order[wrong] = False
            columns.length[:, wrong] = -1
    return columns


def lengths_of(array: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """How many bytes each row of a column has; 0 for a null."""
    lengths: npt.NDArray[np.int32] = np.diff(_bounds_of(array))
    return lengths


def openings_of(array: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """The unsigned number in the first two bytes of each row of a column; -1 where there are no two."""
    data, bounds = _bytes_of(array), _bounds_of(array)
    openings = np.full(len(array), -1, np.int32)
    rows = np.flatnonzero(np.diff(bounds) >= 2)
    openings[rows] = data[bounds[rows]].astype(np.int32) << 8 | data[bounds[rows] + 1]
    return openings


def _bytes_of(array: pa.BinaryArray) -> npt.NDArray[np.uint8]:
    """The bytes of all rows of a column, one after the other."""
    data = array.buffers()[2]
    return np.frombuffer(b"" if data is None else data, np.uint8)


def _bounds_of(array: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Where each row of a column begins in its bytes, and behind them where the last one ends."""
    return np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]


def _not_unicode(texts: pa.StringArray) -> list[int]:
    """The rows whose bytes are not UTF-8."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return [row for row, text in enumerate(texts) if not _is_unicode(text.as_buffer() or b"")]
    return []


def _is_unicode(text: Any) -> bool:
    try:
        str(text, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
