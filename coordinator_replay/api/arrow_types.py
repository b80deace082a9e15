"""Arrow types of answers, from the type hints of their rows."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from coordinator_replay.json_values import json_text

if TYPE_CHECKING:
    import pyarrow as pa


def row_schema(row_type: type) -> "pa.Schema":
    """The columns of a dataclass as an Arrow schema, in the order of its fields."""
    import pyarrow as pa

    hints = get_type_hints(row_type)
    return pa.schema([pa.field(field.name, arrow_type(hints[field.name])) for field in fields(row_type)])


def arrow_type(hint: Any) -> "pa.DataType":
    """The Arrow type of a type hint: texts, numbers, moments (UTC), lists and dataclasses (structs).

    What has no type of its own, such as the detail of an event, becomes a text: its JSON.
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
    kinds = [one for one in get_args(hint) if one is not NoneType]
    return kinds[0] if len(kinds) == 1 else Any


def plain_value(value: Any, type_: "pa.DataType") -> Any:
    """A value as Arrow takes it for a type."""
    import pyarrow as pa

    if value is None:
        return None
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_value(getattr(value, field.name), type_[field.name].type) for field in fields(value)}
    if pa.types.is_list(type_):
        return [plain_value(one, type_.value_type) for one in value]
    if isinstance(value, Enum):
        return str(value.value)
    if pa.types.is_string(type_) and not isinstance(value, str):
        return json_text(value)
    return value
