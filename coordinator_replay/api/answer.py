"""An answer: typed rows, which can become an Arrow table, a pandas DataFrame, or a table in a notebook."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from coordinator_replay.answer_columns import LAST, AnswerColumn, columns_of
from coordinator_replay.api import html, plain_text
from coordinator_replay.json_values import json_text
from coordinator_replay.query.basis import Basis

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def row_schema(row_type: type) -> "pa.Schema":
    """Return an Arrow schema with a column for each field of a dataclass, in the order of the fields."""
    import pyarrow as pa

    hints = get_type_hints(row_type)
    return pa.schema([pa.field(field.name, arrow_type(hints[field.name])) for field in fields(row_type)])


def arrow_type(hint: Any) -> "pa.DataType":
    """Return the Arrow type for a type hint.

    Times are in UTC, and dataclasses become structs. A hint without a matching Arrow type becomes a string, because its
    values are written as JSON.
    """
    import pyarrow as pa

    plain = {
        bool: pa.bool_(),
        int: pa.int64(),
        float: pa.float64(),
        str: pa.string(),
        bytes: pa.binary(),
        datetime: pa.timestamp("us", tz="UTC"),
        timedelta: pa.duration("us"),
    }
    hint = _without_none(hint)
    if hint in plain:
        return plain[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return pa.string()
    if is_dataclass(hint) and isinstance(hint, type):
        return pa.struct(list(row_schema(hint)))
    if get_origin(hint) in (list, tuple, Sequence):
        return pa.list_(arrow_type(get_args(hint)[0]))
    return pa.string()


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, UnionType):
        return hint
    kinds = [arg for arg in get_args(hint) if arg is not NoneType]
    return kinds[0] if len(kinds) == 1 else Any


def plain_value(value: Any, type_: "pa.DataType") -> Any:
    """Convert a value to one that Arrow accepts for a type, for example a dataclass to a dict."""
    import pyarrow as pa

    if value is None:
        return None
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_value(getattr(value, field.name), type_[field.name].type) for field in fields(value)}
    if pa.types.is_list(type_):
        return [plain_value(element, type_.value_type) for element in value]
    if isinstance(value, Enum):
        return str(value.value)
    if pa.types.is_string(type_) and not isinstance(value, str):
        return json_text(value)
    return value


T = TypeVar("T")


class Answer(Sequence[T], Generic[T]):
    """The rows of an answer, in order.

    An answer is a sequence of frozen dataclasses, or of tuples for ``sql``.

    ``print`` shows the basis and the notes below the rows. It shows the same columns as the command for this question.
    Some subclasses print other text, such as the evidence of rebalances.

    Attributes:
        row_type: the class of the rows.
        notes: sentences about the rows, for example that the time lies after the end of the log, that records are
            missing, or that nothing was found.
        basis: the basis of the answer: the cluster, the end of its log, and the time since which the log is complete.
            ``str(answer.basis)`` is one line. None if the answer is not about the log.
    """

    def __init__(
        self,
        rows: Iterable[T],
        row_type: type[T],
        *,
        notes: Iterable[str | None] = (),
        basis: Basis | None = None,
    ) -> None:
        """Make an answer from rows that have been read.

        Args:
            rows: instances of ``row_type``, in order.
            row_type: see Attributes.
            notes: see Attributes; a note that is None is left out.
            basis: see Attributes.
        """
        self._rows = tuple(rows)
        self.row_type: type[Any] = row_type
        self.notes = tuple(note for note in notes if note)
        self.basis = basis

    @overload
    def __getitem__(self, place: int) -> T: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...

    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        return self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        rows = "".join(f"\n  {row!r}" for row in self._rows[:10])
        more = f"\n  … {len(self) - 10:,} more" if len(self) > 10 else ""
        remarks = "".join(f"\n  ({note})" for note in plain_text.sentences(self._remarks()))
        return f"{len(self):,} × {self.row_type.__name__}{rows}{more}{remarks}"

    def __str__(self) -> str:
        return "\n".join([*self._text_lines(), *plain_text.sentences(self._remarks())])

    def _text_lines(self) -> list[str]:
        """Return the lines in which ``print`` shows the rows.

        The lines have the same columns as the command for this question.
        """
        shown = [column for column in columns_of(self.row_type) if column.heading and self._is_shown(column)]  # type: ignore[arg-type]  # a class is hashable
        rows = [[getattr(row, column.name) for column in shown] for row in self._rows]
        return plain_text.table([column.heading for column in shown], rows)

    def _is_shown(self, column: AnswerColumn) -> bool:
        """Return whether ``print`` shows a column.

        A column of rank ``LAST`` is never shown. A column that is only for some answers (``AnswerColumn.only_with``) is
        shown only if a row has a value in it that is not the default.
        """
        if column.rank >= LAST or not column.only_with:
            return column.rank < LAST
        # Compare by identity: 0 equals False, but a 0 is not the default False.
        default = next(field.default for field in fields(self.row_type) if field.name == column.name)
        return any(getattr(row, column.name) is not default for row in self._rows)

    def _remarks(self) -> tuple[str, ...]:
        """Return the lines below the rows: how complete the log is (the basis), then the notes."""
        return self.notes if self.basis is None else (f"{self.basis}", *self.notes)

    def _names(self) -> list[str]:
        return [column.name for column in columns_of(self.row_type)]  # type: ignore[arg-type]  # a class is hashable

    def _values(self) -> list[list[Any]]:
        names = self._names()
        return [[getattr(row, name) for name in names] for row in self._rows]

    def to_arrow(self) -> "pa.Table":
        """Return the rows as an Arrow table.

        Timestamps are in UTC, and assignments are lists of structs.

        The columns don't depend on the rows, so an answer without rows has them too. There is one exception: a column
        of numbers becomes decimal if a number needs more than 64 bits. The difference of two offsets may need 65.
        """
        import pyarrow as pa

        schema, values = row_schema(self.row_type), self._values()
        columns = [
            _typed([plain_value(row[place], field.type) for row in values], field.type)
            for place, field in enumerate(schema)
        ]
        return pa.Table.from_arrays(columns, names=schema.names)

    def to_pandas(self) -> "pd.DataFrame":
        """Return the rows as a pandas DataFrame.

        Numbers that may be missing have pandas' own nullable types.
        """
        import pandas as pd
        import pyarrow as pa

        nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
        frame: pd.DataFrame = self.to_arrow().to_pandas(types_mapper=nullable.get)
        return frame

    def _repr_html_(self) -> str:
        return html.table(self._names(), self._values()) + html.notes(self._remarks())


class SqlAnswer(Answer[tuple[Any, ...]]):
    """The rows of an SQL statement.

    Attributes:
        columns: the names of the columns; empty if the statement returns nothing.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[tuple[Any, ...]],
        notes: Iterable[str | None] = (),
        basis: Basis | None = None,
    ) -> None:
        super().__init__(rows, tuple, notes=notes, basis=basis)
        self.columns = tuple(columns)

    def _names(self) -> list[str]:
        return list(self.columns)

    def _values(self) -> list[list[Any]]:
        return [list(row) for row in self]

    def _text_lines(self) -> list[str]:
        return plain_text.table(self.columns, self._values())

    def to_arrow(self) -> "pa.Table":
        """Return the rows as an Arrow table.

        Arrow infers the type of a column from its values. If it can't, the column has texts.
        """
        import pyarrow as pa

        values = self._values()
        columns = [_array([row[place] for row in values]) for place in range(len(self.columns))]
        return pa.Table.from_arrays(columns, names=list(self.columns))


def _typed(values: list[Any], type_: "pa.DataType") -> "pa.Array":
    import pyarrow as pa

    try:
        return pa.array(values, type_)
    except OverflowError:
        return _decimals(values)


def _decimals(values: Sequence[int | None]) -> "pa.Array":
    """Return integers of up to 128 bits as decimals."""
    import pyarrow as pa

    return pa.array([None if value is None else Decimal(value) for value in values], pa.decimal256(39))


def _array(values: list[Any]) -> "pa.Array":
    import pyarrow as pa

    try:
        return pa.array(values)
    except OverflowError:
        if all(value is None or type(value) is int for value in values):
            return _decimals(values)
        return pa.array([None if value is None else html.text_of(value) for value in values], pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # A union type or a map: Arrow can't infer its type from values.
        return pa.array([None if value is None else html.text_of(value) for value in values], pa.string())
