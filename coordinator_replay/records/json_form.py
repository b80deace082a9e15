"""Kafka's JSON form of records, written for whole batches by the programs that decode them.

The form is that of ``scalar.py``. Text is written where the machine would fill columns, by the machine's own rules: a
row that fails keeps its error and leaves no text.
"""

import base64
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.compiled import compiled, inlined, spliced
from coordinator_replay.memory import memory
from coordinator_replay.records.arrays import ID_PAIRS, base64_pairs, put_id
from coordinator_replay.records.machine import (
    _NULL,
    _TAG,
    _TRAILING,
    _UNDERFLOW,
    _UNICODE,
    Bytes,
    Int32s,
    Int64s,
    _count,
    _integer,
    _is_utf8,
    _uvarint,
)
from coordinator_replay.records.program import Program
from coordinator_replay.records.scalar import UNKNOWN_TAGS
from coordinator_replay.words import copy_bytes, put_word, word_at

_DEPTH = 32
# More than a number, an id, or what encloses a text or a list takes, and what is written too many behind a piece.
_ROOM = 40
_PAIRS = base64_pairs(b"+/")
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_NULL_TEXT = np.frombuffer(b"null", np.uint8)
_UNKNOWN_TEXT = np.frombuffer(f',"{UNKNOWN_TAGS}":['.encode(), np.uint8)
_TAG_TEXT = np.frombuffer(b'{"tag":', np.uint8)
_DATA_TEXT = np.frombuffer(b',"data":', np.uint8)

_QUOTE, _BACKSLASH, _COMMA, _EQUALS = 34, 92, 44, 61
_OPEN_LIST, _CLOSE_LIST, _CLOSE_STRUCT, _MINUS, _ZERO = 91, 93, 125, 45, 48


@inlined
def _put(out: Bytes, at: Any, piece: Bytes, start: Any, end: Any) -> Any:
    copy_bytes(piece, np.uint64(start), out, np.uint64(at), np.uint64(end - start))
    return at + end - start


@spliced
def _put_piece(out: Bytes, at: Any, text: Bytes, start: Any, end: Any) -> Any:
    """As ``_put``, of a program's text, behind which there is room to read: writes up to seven bytes too many."""
    source, target = np.uint64(start), np.uint64(at)
    for step in range((np.uint64(end - start) + np.uint64(7)) >> np.uint64(3)):
        put_word(out, target + np.uint64(8) * step, word_at(text, source + np.uint64(8) * step))
    return at + end - start


@spliced
def _put_number(out: Bytes, at: Any, number: Any) -> Any:
    # The smallest int64 has no positive twin, but as an unsigned number it has.
    rest = np.uint64(number)
    if number < 0:
        out[at] = _MINUS
        at += 1
        rest = np.uint64(0) - rest
    size = 1
    bound = np.uint64(10)
    while size < 19 and rest >= bound:
        bound *= np.uint64(10)
        size += 1
    place = np.uint64(at + size)
    for _ in range(size):
        place -= np.uint64(1)
        out[place] = np.uint8(_ZERO) + np.uint8(rest % np.uint64(10))
        rest //= np.uint64(10)
    return at + size


@spliced
def _strange(word: Any) -> Any:
    """Whether any of eight bytes is not ASCII, or can't stand in JSON as it is: the highest bit of one is set then."""
    high, one = np.uint64(0x8080808080808080), np.uint64(0x0101010101010101)
    # With its highest bit set, a byte never borrows from the next one; it loses that bit where it was too small.
    plain = (word | high) - np.uint64(0x20) * one
    plain &= (word ^ np.uint64(_QUOTE) * one | high) - one
    plain &= (word ^ np.uint64(_BACKSLASH) * one | high) - one
    return (word | ~plain) & high


@spliced
def _put_plain(out: Bytes, at: Any, data: Bytes, start: Any, end: Any) -> Any:
    """Copies text; whether all of it is ASCII that stands in JSON as it is."""
    eight = np.uint64(8)
    source, target, size = np.uint64(start), np.uint64(at), np.uint64(end - start)
    strange = np.uint64(0)
    if size >= eight:
        for step in range((size - np.uint64(1)) >> np.uint64(3)):
            word = word_at(data, source + eight * step)
            strange |= _strange(word)
            put_word(out, target + eight * step, word)
        word = word_at(data, source + size - eight)
        strange |= _strange(word)
        put_word(out, target + size - eight, word)
    else:
        for step in range(size):
            byte = data[source + step]
            out[target + step] = byte
            strange |= np.uint64((byte < 0x20) | (byte >= 0x80) | (byte == _QUOTE) | (byte == _BACKSLASH))
    return strange == np.uint64(0)


@inlined
def _put_escaped(out: Bytes, at: Any, data: Bytes, start: Any, end: Any, digits: Bytes) -> Any:
    """Writes text of which not all stands in JSON as it is; where that ends."""
    for i in range(start, end):
        byte = data[i]
        if byte < 0x20:
            out[at] = _BACKSLASH
            out[at + 1] = 117  # u
            out[at + 2] = _ZERO
            out[at + 3] = _ZERO
            out[at + 4] = digits[byte >> 4]
            out[at + 5] = digits[byte & 15]
            at += 6
        else:
            if byte in (_QUOTE, _BACKSLASH):
                out[at] = _BACKSLASH
                at += 1
            out[at] = byte
            at += 1
    return at


@spliced
def _put_string(out: Bytes, at: Any, data: Bytes, start: Any, end: Any, digits: Bytes) -> Any:
    """Writes a string and where it ends; -1 if it is not UTF-8."""
    out[at] = _QUOTE
    at += 1
    if _put_plain(out, at, data, start, end):
        at += end - start
    elif _is_utf8(data, start, end):
        at = _put_escaped(out, at, data, start, end, digits)
    else:
        return np.int64(-1)
    out[at] = _QUOTE
    return at + 1


@inlined
def _put_base64(out: Bytes, at: Any, data: Bytes, start: Any, end: Any, pairs: Any) -> Any:
    one, two, four = np.uint64(1), np.uint64(2), np.uint64(4)
    eight, twelve = np.uint64(8), np.uint64(12)
    source, target, stop = np.uint64(start), np.uint64(at), np.uint64(end)
    out[target] = _QUOTE
    target += one
    while source < stop:
        bits = np.uint64(data[source]) << np.uint64(16)
        if source + one < stop:
            bits |= np.uint64(data[source + one]) << eight
        if source + two < stop:
            bits |= np.uint64(data[source + two])
        first, second = np.uint64(pairs[bits >> twelve]), np.uint64(pairs[bits & np.uint64(4095)])
        out[target] = np.uint8(first & np.uint64(255))
        out[target + one] = np.uint8(first >> eight)
        out[target + two] = np.uint8(second & np.uint64(255)) if source + one < stop else np.uint8(_EQUALS)
        out[target + np.uint64(3)] = np.uint8(second >> eight) if source + two < stop else np.uint8(_EQUALS)
        source += np.uint64(3)
        target += four
    out[target] = _QUOTE
    return np.int64(target + one)


@inlined
def _put_unknown_tags(
    out: Bytes, at: Any, data: Bytes, pos: Any, count: Any, tags: Int32s, pieces: tuple[Any, ...]
) -> Any:
    """Write the tagged fields at ``pos`` that the table of known ones lacks; negative if there is no room."""
    opening, tag_piece, data_piece, pairs = pieces
    end = len(data)
    wrote = False
    for _ in range(count):
        tag, pos, _ = _uvarint(data, pos, end)
        size, pos, _ = _uvarint(data, pos, end)
        known = False
        for k in range(len(tags)):
            if tags[k, 0] == tag:
                known = True
        if not known:
            if at + 2 * size + 100 > len(out):
                return -1
            if wrote:
                out[at] = _COMMA
                at += 1
            else:
                at = _put(out, at, opening, 0, len(opening))
            wrote = True
            at = _put(out, at, tag_piece, 0, len(tag_piece))
            at = _put_number(out, at, tag)
            at = _put(out, at, data_piece, 0, len(data_piece))
            at = _put_base64(out, at, data, pos, pos + size, pairs)
            out[at] = _CLOSE_STRUCT
            at += 1
        pos += size
    if wrote:
        out[at] = _CLOSE_LIST
        at += 1
    return at


@compiled
def _render(  # noqa: C901 - one interpreter loop, the twin of the machine's
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    ops: Int32s,
    tags: Int32s,
    text: Bytes,
    spans: Int32s,
    alphabets: tuple[Any, Any, Bytes],
    pieces: tuple[Bytes, Bytes, Bytes, Bytes],
    out: Bytes,
    offsets: Int32s,
    status: Int32s,
    frames: Int64s,
    row: Any,
) -> Any:
    """Write rows from ``row`` on; returns the first row there was no room for, or their number."""
    standard, id_pairs, digits = alphabets
    null = pieces[0]
    frame_pc, frame_left, frame_tags, frame_count, frame_text = frames[0], frames[1], frames[2], frames[3], frames[4]
    frame_value, frame_known, frame_seen, frame_end = frames[5], frames[6], frames[7], frames[8]
    while row < len(starts):
        at = np.int64(offsets[row])
        pos, end = starts[row], ends[row]
        pc, depth, error = 0, -1, 0
        while True:
            here = np.uint64(pc)
            op = ops[here, 0]
            if op == 0:  # END
                if pos != end:
                    error = _TRAILING
                break
            begin, stop, after, after_stop = spans[here, 0], spans[here, 1], spans[here, 2], spans[here, 3]
            if at + (stop - begin) + (after_stop - after) + _ROOM > len(out):
                return row
            at = _put_piece(out, at, text, begin, stop)
            pc += 1
            if op == 1:  # INTEGER
                size = ops[here, 2]
                if pos + size > end:
                    error = _UNDERFLOW
                    break
                at = _put_number(out, at, _integer(data, pos, size, ops[here, 3]))
                pos += size
            elif op == 2:  # UUID
                if pos + 16 > end:
                    error = _UNDERFLOW
                    break
                out[at] = _QUOTE
                put_id(data, pos, id_pairs, out, at + 1)
                out[at + 23] = _QUOTE
                at += 24
                pos += 16
            elif op == 3:  # BYTES
                length, pos, error = _count(data, pos, end, ops[here, 2])
                if error != 0:
                    break
                if length < 0:
                    if ops[here, 3] == 0:
                        error = _NULL
                        break
                    at = _put(out, at, null, 0, 4)
                else:
                    if length > end - pos:
                        error = _UNDERFLOW
                        break
                    if at + 6 * length + (after_stop - after) + _ROOM > len(out):
                        return row
                    if ops[here, 4] == 1:
                        at = _put_string(out, at, data, pos, pos + length, digits)
                        if at < 0:
                            error = _UNICODE
                            break
                    else:
                        at = _put_base64(out, at, data, pos, pos + length, standard)
                    pos += length
            elif op == 4:  # LIST
                form = ops[here, 2]
                count, pos, error = _count(data, pos, end, form)
                if error != 0:
                    break
                if count < 0 and ops[here, 3] == 0:
                    error = _NULL
                    break
                if count > end - pos:
                    error = _UNDERFLOW
                    break
                if count > 0:
                    depth += 1
                    frame_pc[depth] = here
                    frame_left[depth] = count
                    if form <= 2:
                        out[at] = _OPEN_LIST
                        at += 1
                    after_stop = after  # what goes after it is for LIST_END to write
                else:
                    if count < 0:
                        at = _put(out, at, null, 0, 4)
                    else:
                        out[at] = _OPEN_LIST
                        out[at + 1] = _CLOSE_LIST
                        at += 2
                    pc = ops[here, 4]
            elif op == 5:  # LIST_END
                frame_left[depth] -= 1
                opening = frame_pc[depth]
                if frame_left[depth] > 0:
                    out[at] = _COMMA
                    at += 1
                    pc = opening + 1
                else:
                    if ops[opening, 2] <= 2:
                        out[at] = _CLOSE_LIST
                        at += 1
                    after, after_stop = spans[opening, 2], spans[opening, 3]
                    depth -= 1
            elif op == 6:  # TAGS
                count, pos, error = _uvarint(data, pos, end)
                if error != 0:
                    break
                depth += 1
                frame_pc[depth] = here
                frame_left[depth] = count
                frame_tags[depth] = pos
                frame_count[depth] = count
                frame_seen[depth] = 0
                after_stop = after  # what goes after them is for TAGS_NEXT to write
            elif op == 7:  # TAGS_NEXT
                opening = frame_pc[depth]
                table, known = ops[opening, 2], ops[opening, 3]
                if frame_left[depth] == 0:
                    if frame_count[depth] > 0:
                        at = _put_unknown_tags(
                            out,
                            at,
                            data,
                            frame_tags[depth],
                            frame_count[depth],
                            tags[table : table + known],
                            (pieces[1], pieces[2], pieces[3], standard),
                        )
                        if at < 0:
                            return row
                    after, after_stop = spans[opening, 2], spans[opening, 3]
                    depth -= 1
                    pc = ops[opening, 4]
                else:
                    frame_left[depth] -= 1
                    tag, pos, error = _uvarint(data, pos, end)
                    if error != 0:
                        break
                    size, pos, error = _uvarint(data, pos, end)
                    if error != 0:
                        break
                    if size > end - pos:
                        error = _UNDERFLOW
                        break
                    found = -1
                    for k in range(known):
                        if tags[table + k, 0] == tag:
                            found = k
                    if found < 0:
                        pos += size
                        pc = opening + 1
                    else:
                        if frame_seen[depth] & (1 << found) != 0:
                            error = _TAG
                            break
                        frame_seen[depth] |= 1 << found
                        frame_end[depth] = pos + size
                        body = tags[table + found, 1]
                        frame_text[depth] = at
                        frame_value[depth] = at + (spans[body, 1] - spans[body, 0])
                        frame_known[depth] = len(ops) + table + found
                        pc = body
            else:  # TAG_END
                if pos != frame_end[depth]:
                    error = _TAG
                    break
                # Kafka's JSON leaves out a tagged field that equals its default.
                default = spans[frame_known[depth], 0]
                size = spans[frame_known[depth], 1] - default
                value = frame_value[depth]
                same = at - value == size
                if same:
                    for i in range(size):
                        if out[value + i] != text[default + i]:
                            same = False
                            break
                if same:
                    at = frame_text[depth]
                pc = ops[here, 2]
            if at + (after_stop - after) + _ROOM > len(out):
                return row
            at = _put_piece(out, at, text, after, after_stop)
        status[row] = error
        if error != 0:
            at = np.int64(offsets[row])
        row += 1
        offsets[row] = at
    return row


def render(program: Program, data: Bytes, starts: Int64s, ends: Int64s) -> tuple[pa.StringArray, Int32s]:
    """The JSON form of rows of bytes, and the status of each: where that is not 0, the text is empty.

    Args:
        program: a compiled struct.
        data: the bytes of all rows.
        starts: where each row starts.
        ends: where each row ends.
    """
    rows = len(starts)
    status = np.zeros(rows, np.int32)
    offsets = np.zeros(rows + 1, np.int32)
    out = memory(1024 + 8 * int(ends.sum() - starts.sum()), np.uint8)
    pieces = (_NULL_TEXT, _UNKNOWN_TEXT, _TAG_TEXT, _DATA_TEXT)
    alphabets = (_PAIRS, ID_PAIRS, _HEX)
    frames = np.zeros((9, _DEPTH), np.int64)
    row = 0
    while True:
        row = _render(
            data,
            starts,
            ends,
            program.ops,
            program.tags,
            program.text,
            program.spans,
            alphabets,
            pieces,
            out,
            offsets,
            status,
            frames,
            row,
        )
        if row >= rows:
            break
        out = np.concatenate([out, np.empty_like(out)])
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(out)]), status


_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def quote(strings: pa.StringArray) -> pa.StringArray:
    """Each string as a JSON string; nulls stay null."""
    quoted = pc.binary_join_element_wise('"', strings, '"', "")
    special = pc.fill_null(pc.match_substring_regex(strings, _NEEDS_ESCAPE), False)
    if not pc.any(special).as_py():
        return quoted
    escaped = [json.dumps(text, ensure_ascii=False) for text in strings.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, special, pa.array(escaped, pa.string()))


def _encode_base64(values: pa.BinaryArray) -> pa.StringArray:
    """Each run of bytes as a JSON string in base64; nulls stay null."""
    return pa.array(
        [None if value is None else f'"{base64.b64encode(value).decode()}"' for value in values.to_pylist()],
        pa.string(),
    )


def _text(column: pa.Array) -> pa.StringArray:
    """A column of a table as JSON texts; nulls stay null."""
    if pa.types.is_string(column.type):
        return quote(column)
    if pa.types.is_binary(column.type):
        return _encode_base64(column)
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
