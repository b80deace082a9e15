"""A struct's definition at one version, compiled to a program for the machine in ``machine.py``.

The machine knows a handful of instructions and no field names; the program is what remains of a definition once the
version is fixed. Every field becomes an instruction that writes into a column of its own; arrays and nullable structs
become a LIST that counts and a body that repeats; tagged fields become a table from tag to body.

Beside each instruction stands what the JSON form writes before and after it, so that ``json_form.py`` can run the same
program to write text: the brace that opens a struct stands before its first field, the one that closes it after its
last or, where tagged fields follow, after those.

===========  =====================================================================================
instruction  operands (``column`` first)
===========  =====================================================================================
END          the row must be used up
INTEGER      size in bytes, 1 if signed
UUID         –
BYTES        length form, 1 if nullable, 1 if it must be UTF-8
LIST         count form, 1 if nullable, where to go on after the last element
LIST_END     –
TAGS         first row of the tag table, number of known tags, where to go on after the last tag
TAGS_NEXT    – (directly after its TAGS)
TAG_END      the TAGS_NEXT to return to
===========  =====================================================================================
"""

import json
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from coordinator_replay.records.definition import INTEGER_SIZES, Field, Struct

_TEXT_ROOM = 8


class Op(IntEnum):
    """The machine's instructions."""

    END = 0
    INTEGER = 1
    UUID = 2
    BYTES = 3
    LIST = 4
    LIST_END = 5
    TAGS = 6
    TAGS_NEXT = 7
    TAG_END = 8


class Count(IntEnum):
    """How a length or a count is written; negative, or zero in the flexible form, means null."""

    INT16 = 0
    INT32 = 1
    FLEXIBLE = 2
    INT8_PRESENCE = 3
    FLEXIBLE_PRESENCE = 4


@dataclass(frozen=True, slots=True)
class Node:
    """A field and the columns its bytes land in.

    Attributes:
        column: the field's own column: values, or the counts of an array or nullable struct.
        element: column of an array's elements where they are scalars, else -1.
        struct: the fields beneath, where the field is a struct or an array of structs.
    """

    field: Field
    column: int
    element: int
    struct: "StructNode | None"

    @property
    def is_list(self) -> bool:
        """Whether ``column`` holds counts: of an array, or of a struct that may be null."""
        return self.field.is_array or (self.field.type == "struct" and self.field.nullable)


@dataclass(frozen=True, slots=True)
class StructNode:
    """The fields of a struct at one version, in the order they are written.

    Attributes:
        unknown: columns of the tagged fields that no definition knows: how many, their tags, their bytes; None in
            versions without tagged fields.
    """

    fields: tuple[Node, ...]
    unknown: tuple[int, int, int] | None


@dataclass(frozen=True)
class Program:
    """What the machine runs, and where the definition's fields went.

    Attributes:
        ops: a row for each instruction: the instruction, its column, its operands.
        tags: a row for each tagged field: tag, first instruction of its body, its column.
        columns: how many columns it writes.
        text: the pieces of JSON, one after the other, and some bytes more, for the last to be read by words.
        spans: for each instruction where in ``text`` stands what goes before it and what goes after it; behind the
            instructions a row for each tagged field: where its default stands.
    """

    root: StructNode
    ops: npt.NDArray[np.int32]
    tags: npt.NDArray[np.int32]
    columns: int
    text: npt.NDArray[np.uint8]
    spans: npt.NDArray[np.int32]

    @cached_property
    def is_flat(self) -> bool:
        """Whether no list stands outside of tagged fields, so that each column has one entry a row or none at all."""
        pc = 0
        while (op := self.ops[pc, 0]) != Op.END:
            if op == Op.LIST:
                return False
            pc = self.ops[pc, 4] if op == Op.TAGS else pc + 1
        return True

    @cached_property
    def text_slots(self) -> npt.NDArray[np.int32]:
        """The columns of bytes and ids numbered in order; -1 for all others."""
        columns = sorted({int(row[1]) for row in self.ops if row[0] in (Op.BYTES, Op.UUID)})
        slots = np.full(self.columns, -1, np.int32)
        slots[columns] = np.arange(len(columns))
        return slots

    def node(self, name: str) -> Node | None:
        """The top-level field of this name, None where the version lacks it."""
        return next((node for node in self.root.fields if node.field.name == name), None)


class _Builder:
    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.ops: list[list[int]] = []
        self.tags: list[list[int]] = []
        self.columns = 0
        self.before: list[str] = []
        self.after: list[str] = []
        self.defaults: list[str] = []
        self.pending = ""

    def column(self) -> int:
        self.columns += 1
        return self.columns - 1

    def emit(self, op: Op, *operands: int) -> int:
        self.ops.append([op, *operands, *([0] * (4 - len(operands)))])
        self.before.append(self.pending)
        self.after.append("")
        self.pending = ""
        return len(self.ops) - 1

    def struct(self, fields: tuple[Field, ...]) -> tuple[StructNode, int]:
        """The struct, and the instruction after which it is complete."""
        current = [field for field in fields if self.version in field.versions]
        nodes: list[Node] = []
        last = -1
        for field in current:
            if field.tag is None:
                self.pending += ("," if nodes else "{") + json.dumps(field.name) + ":"
                node, last = self.field(field)
                nodes.append(node)
        if not self.flexible:
            self.after[last] += "}"
            return StructNode(tuple(nodes), None), last
        tagged = [field for field in current if field.tag is not None]
        unknown = (self.column(), self.column(), self.column())
        start = len(self.tags)
        self.tags.extend([0, 0, 0] for _ in tagged)
        self.defaults.extend(json.dumps(field.default, separators=(",", ":")) for field in tagged)
        opening = self.emit(Op.TAGS, unknown[0], start, len(tagged))
        self.after[opening] = "}"
        following = self.emit(Op.TAGS_NEXT)
        for row, field in enumerate(tagged, start):
            body = len(self.ops)
            self.pending = f",{json.dumps(field.name)}:"
            node, _ = self.field(field)
            self.emit(Op.TAG_END, 0, following)
            self.tags[row] = [field.tag or 0, body, node.column]
            nodes.append(node)
        self.ops[opening][4] = len(self.ops)
        return StructNode(tuple(nodes), unknown), opening

    def field(self, field: Field) -> tuple[Node, int]:
        """The field, and the instruction after which it is complete."""
        nullable_struct = field.type == "struct" and field.nullable
        if not field.is_array and not nullable_struct:
            if field.type == "struct":
                struct, last = self.struct(field.fields)
                return Node(field, -1, -1, struct), last
            column, last = self.scalar(field)
            return Node(field, column, -1, None), last
        column = self.column()
        opening = self.emit(Op.LIST, column, self.count(field), int(field.nullable))
        beneath, element = None, -1
        if field.type == "struct":
            beneath, _ = self.struct(field.fields)
        else:
            element, _ = self.scalar(field)
        self.emit(Op.LIST_END)
        self.ops[opening][4] = len(self.ops)
        return Node(field, column, element, beneath), opening

    def count(self, field: Field) -> Count:
        if field.is_array:
            return Count.FLEXIBLE if self.flexible else Count.INT32
        return Count.FLEXIBLE_PRESENCE if field.tag is not None else Count.INT8_PRESENCE

    def scalar(self, field: Field) -> tuple[int, int]:
        """The column of a value, and its instruction."""
        column = self.column()
        if field.type in INTEGER_SIZES:
            return column, self.emit(Op.INTEGER, column, INTEGER_SIZES[field.type], int(field.type != "uint16"))
        if field.type == "uuid":
            return column, self.emit(Op.UUID, column)
        plain = Count.INT16 if field.type == "string" else Count.INT32
        form = Count.FLEXIBLE if self.flexible else plain
        nullable = field.nullable and not field.is_array
        return column, self.emit(Op.BYTES, column, form, int(nullable), int(field.type == "string"))

    def literals(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """All pieces of JSON, and where each stands."""
        text = bytearray()
        spans = []
        pairs = [*zip(self.before, self.after, strict=True), *((default, "") for default in self.defaults)]
        for pair in pairs:
            bounds = []
            for piece in pair:
                bounds.append(len(text))
                text += piece.encode()
                bounds.append(len(text))
            spans.append(bounds)
        return np.frombuffer(bytes(text) + bytes(_TEXT_ROOM), np.uint8), np.array(spans, dtype=np.int32)


@cache
def compile_struct(struct: Struct, version: int) -> Program:
    """Compile a struct at one of its versions."""
    builder = _Builder(version, version in struct.flexible)
    root, _ = builder.struct(struct.fields)
    builder.emit(Op.END)
    text, spans = builder.literals()
    return Program(
        root=root,
        ops=np.array(builder.ops, dtype=np.int32),
        tags=np.array(builder.tags, dtype=np.int32).reshape(-1, 3),
        columns=builder.columns,
        text=text,
        spans=spans,
    )
