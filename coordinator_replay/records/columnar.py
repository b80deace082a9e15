"""Columnar reading of all keys, and of values that have neither lists nor nullable fields, such as offset commits.

Nearly all records are offset commits, and nearly all of those are well-formed. So a compiled loop reads one field of
all rows, then the next field. Rows that are not well-formed are left out; ``decoder.py`` gives them to ``plain.py``,
which knows all rules.
"""

import base64
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.compiled import compiled
from coordinator_replay.records import definition
from coordinator_replay.records.definition import INTEGER_SIZES, Field, Struct
from coordinator_replay.records.json_rows import quote

Rows = npt.NDArray[np.int64]
"""Positions of rows in a batch, in rising order."""

Flags = npt.NDArray[np.bool_]

Versions = npt.NDArray[np.int64]
"""The version of each row, -1 for none."""

_ID_BYTES = 16
_READABLE = {*INTEGER_SIZES, "uuid", "string"} - {"uint16"}
_NO_ID = bytes(_ID_BYTES)


def has_columns(struct: Struct) -> bool:
    """Return whether ``Columns`` can read all versions of a struct.

    All fields must be signed integers, uuids or strings. No field may be a list or nullable, and no string may be a
    tagged field.
    """
    return all(
        field.type in (_READABLE if field.tag is None else _READABLE - {"string"})
        and not (field.is_array or field.nullable)
        for field in struct.fields
    )


# If a row is not well-formed, its position becomes -1, and nothing more of it is read.


@compiled
def _read_numbers(data: Any, at: Any, ends: Any, where: Any, size: Any, numbers: Any) -> None:
    """Read a signed big-endian number in some rows.

    Args:
        data: the bytes of all rows.
        at: the next position to read in each row; moved on, or set to -1 if the row is malformed.
        ends: the position at which each row ends.
        where: whether to read each row.
        size: the number of bytes of the number.
        numbers: array to fill with the number of each row.
    """
    for row in range(len(at)):
        here = at[row]
        if not where[row] or here < 0:
            continue
        if here + size > ends[row]:
            at[row] = -1
            continue
        number = np.int64(data[here])
        number -= (number >> 7) << 8
        for place in range(here + 1, here + size):
            number = number << 8 | np.int64(data[place])
        numbers[row] = number
        at[row] = here + size


@compiled
def _read_uvarints(data: Any, at: Any, ends: Any, where: Any, numbers: Any) -> None:
    """Read an unsigned varint in some rows. See ``_read_numbers`` for the arguments."""
    for row in range(len(at)):
        here = at[row]
        if not where[row] or here < 0:
            continue
        at[row] = -1
        number = np.int64(0)
        for step in range(min(5, ends[row] - here)):
            byte = np.int64(data[here + step])
            number |= (byte & 0x7F) << (7 * step)
            if byte < 0x80:
                numbers[row] = number
                at[row] = here + step + 1
                break


@compiled
def _read_runs(at: Any, ends: Any, where: Any, sizes: Any, first: Any, length: Any) -> None:
    """Skip a string or id in some rows, and write where it begins and how long it is.

    Args:
        at: the next position to read in each row; moved on, or set to -1 if the row is malformed.
        ends: the position at which each row ends.
        where: whether to read each row.
        sizes: the number of bytes to skip in each row.
        first: array to fill with the position of the first byte that was skipped.
        length: array to fill with the number of bytes that were skipped.
    """
    for row in range(len(at)):
        here, size = at[row], sizes[row]
        if not where[row] or here < 0:
            continue
        if size < 0 or size > ends[row] - here:
            at[row] = -1
            continue
        first[row], length[row], at[row] = here, size, here + size


@compiled
def _gather(data: Any, first: Any, bounds: Any, out: Any) -> None:
    """Copy the bytes of each row from ``data`` to ``out``, one row after the other.

    ``first`` has the position of each row's bytes in ``data``, ``bounds`` has their position in ``out``.
    """
    for row in range(len(first)):
        source, target = np.uint64(first[row]), np.uint64(bounds[row])
        for step in range(np.uint64(bounds[row + 1]) - target):
            out[target + step] = data[source + step]


class Columns:
    """The fields of some rows of a column of keys or values.

    The first two bytes of a row are its type or version. They are not among the fields.

    Args:
        struct: the fields; ``has_columns`` must be true for it.
        versions: the version of each row; rows with an unknown version and null rows count as not well-formed.
        array: the bytes of all rows.
        rows: the rows to read.

    Attributes:
        in_order: for each row, whether it is well-formed and was read. All fields of other rows are null.
    """

    def __init__(self, struct: Struct, versions: Versions, array: pa.BinaryArray, rows: Rows) -> None:
        bounds = _bounds_of(array)
        self._fields = struct.fields
        self._versions = versions
        self._is_flexible = self._are_in(struct.flexible)
        self._data = _bytes_of(array)
        self._at = np.where(self._are_in(struct.versions), bounds[rows].astype(np.int64) + 2, -1)
        self._ends = bounds[rows + 1].astype(np.int64)
        # For each field and row: the number, or the position of the first byte of an id or text.
        self._first = np.zeros((len(struct.fields), len(rows)), np.int64)
        # The number of bytes; -1 if the field is absent.
        self._length = np.full(self._first.shape, -1, np.int32)
        for place, field in enumerate(struct.fields):
            if field.tag is None:
                self._read(place, self._are_in(field.versions))
        self._read_tagged_fields()
        self.in_order: Flags = self._at == self._ends
        self._leave_out(~self.in_order)
        self._texts = {field.name: self._text(field.name) for field in struct.fields if field.type == "string"}
        if wrong := [row for texts in self._texts.values() for row in _not_unicode(texts)]:
            self.in_order[wrong] = False
            self._leave_out(~self.in_order)
            self._texts = {name: self._text(name) for name in self._texts}

    def _are_in(self, versions: definition.Versions) -> Flags:
        are_in: Flags = (self._versions >= versions.low) & (self._versions <= versions.high)
        return are_in

    def _leave_out(self, rows: Flags) -> None:
        if rows.any():
            self._length[:, rows] = -1

    def _read(self, place: int, where: Flags) -> None:
        """Read one field in some rows.

        Args:
            place: index of the field in the struct.
            where: whether to read each row.
        """
        first, length, type_ = self._first[place], self._length[place], self._fields[place].type
        if type_ in INTEGER_SIZES:
            size = INTEGER_SIZES[type_]
            _read_numbers(self._data, self._at, self._ends, where, size, first)
            np.copyto(length, np.int32(size), where=where)
            return
        sizes = np.full(len(where), _ID_BYTES)
        if type_ == "string":
            sizes = self._uvarints(where & self._is_flexible) - 1
            _read_numbers(self._data, self._at, self._ends, where & ~self._is_flexible, 2, sizes)
        _read_runs(self._at, self._ends, where, sizes, first, length)

    def _uvarints(self, where: Flags) -> npt.NDArray[np.int64]:
        numbers = np.zeros(len(where), np.int64)
        _read_uvarints(self._data, self._at, self._ends, where, numbers)
        return numbers

    def _read_tagged_fields(self) -> None:
        """Read the tagged fields of rows.

        A row with an unknown or repeated tagged field is not well-formed.
        """
        left = self._uvarints(self._is_flexible)
        while (where := (left > 0) & (self._at >= 0)).any():
            tags, sizes = self._uvarints(where), self._uvarints(where)
            stops, is_right = self._at + sizes, np.zeros(len(where), np.bool_)
            for place, field in enumerate(self._fields):
                if field.tag is not None:
                    is_first = where & (tags == field.tag) & self._are_in(field.versions) & (self._length[place] < 0)
                    self._read(place, is_first)
                    is_right |= is_first & (self._at == stops)
            self._at[where & ~is_right] = -1
            left -= 1

    def numbers(self, name: str, type_: pa.DataType) -> pa.Array:
        """Return a field of integers; null in rows without the field, and where a tagged field has its default."""
        place, field = self._field(name)
        missing = self._length[place] < 0
        if field.tag is not None:
            missing |= self._first[place] == field.default
        numbers = self._first[place].astype(type_.to_pandas_dtype(), copy=False)
        return pa.array(numbers, type_, mask=missing if missing.any() else None)

    def texts(self, name: str) -> pa.StringArray:
        """Return a field of strings; null in rows without the field, and in all rows if the struct lacks the field."""
        return self._texts.get(name, pa.nulls(len(self.in_order), pa.string()))

    def ids(self, name: str) -> pa.StringArray:
        """Return a field of ids in Kafka's text form (``Uuid.toString``); null where the id is absent or zero."""
        ids = self._text(name).view(pa.binary()).dictionary_encode()
        texts = pa.array([_id_text(each) for each in ids.dictionary.to_pylist()], pa.string())
        return texts.take(ids.indices)

    def json(self) -> pa.StringArray:
        """Return each row in Kafka's JSON form; null for rows that are not well-formed (``in_order``)."""
        members: list[pa.StringArray | str] = []
        for field in self._fields:
            if field.type in INTEGER_SIZES:
                text = self.numbers(field.name, pa.int64()).cast(pa.string())
            else:
                text = quote(self.texts(field.name) if field.type == "string" else self.ids(field.name))
            member = pc.binary_join_element_wise(f'{"," if members else "{"}"{field.name}":', text, "")
            members.append(pc.fill_null(member, "") if members else member)
        return pc.binary_join_element_wise(*members, "}", "")

    def _field(self, name: str) -> tuple[int, Field]:
        return next((place, field) for place, field in enumerate(self._fields) if field.name == name)

    def _text(self, name: str) -> pa.StringArray:
        """Return a field as a column of texts, without a check that they are UTF-8."""
        place, _ = self._field(name)
        length = self._length[place]
        bounds = np.zeros(len(length) + 1, np.int32)
        np.cumsum(np.maximum(length, 0), out=bounds[1:])
        out = np.empty(bounds[-1], np.uint8)
        _gather(self._data, self._first[place], bounds, out)
        present = np.packbits(length >= 0, bitorder="little")
        return pa.Array.from_buffers(pa.string(), len(length), [pa.py_buffer(each) for each in (present, bounds, out)])


def _id_text(raw: bytes) -> str | None:
    return None if raw == _NO_ID else base64.urlsafe_b64encode(raw)[:22].decode()


def lengths_of(array: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Return the number of bytes in each row of a column; 0 for null."""
    lengths: npt.NDArray[np.int32] = np.diff(_bounds_of(array))
    return lengths


def openings_of(array: pa.BinaryArray) -> Versions:
    """Return the number in the first two bytes of each row of a column; -1 if there are fewer than two bytes."""
    bounds, everywhere = _bounds_of(array).astype(np.int64), np.ones(len(array), np.bool_)
    openings = np.full(len(array), -1)
    _read_numbers(_bytes_of(array), bounds[:-1].copy(), bounds[1:], everywhere, 2, openings)
    return openings


def _bytes_of(array: pa.BinaryArray) -> npt.NDArray[np.uint8]:
    """Return the bytes of all rows of a column, one after the other."""
    data = array.buffers()[2]
    return np.frombuffer(b"" if data is None else data, np.uint8)


def _bounds_of(array: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Return the position of each row's first byte in the bytes of a column, followed by the end of the last row."""
    return np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]


def _not_unicode(texts: pa.StringArray) -> list[int]:
    """Return the rows whose bytes are not UTF-8."""
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
