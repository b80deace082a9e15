"""Conversion of values to plain data and back, by their type hints.

Plain data are dicts with text keys, lists, texts, numbers, booleans and None. Snapshots consist of plain data. ``form``
supports

- texts, numbers, booleans and ``Any``, which stay as they are, and a ``StrEnum`` by its value;
- tuples, lists and sets;
- mappings: with text keys as dicts, with other keys as lists of pairs;
- a NamedTuple as the list of its fields, and a dataclass as the list of the fields that its ``__init__`` takes.
  The last fields are left out if they have their default values. ``__post_init__`` derives the fields that
  ``__init__`` does not take;
- a union of one type and ``None``: as the value. A union of several types: as a pair of the type's number and the
  value.

``Fields`` does the same for chosen attributes of an object.
"""

import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from coordinator_replay.errors import SnapshotError

Convert = Callable[[Any], Any]


class Form(NamedTuple):
    """Two functions for the values of a type: ``write`` returns plain data, ``read`` returns a value from plain data.

    None stands for a function that would return its argument.
    """

    write: Convert | None
    read: Convert | None

    def to_plain(self, value: Any) -> Any:
        """Return a value as plain data."""
        return value if self.write is None else self.write(value)

    def from_plain(self, plain: Any) -> Any:
        """Return a value from plain data."""
        return plain if self.read is None else self.read(plain)


AS_IT_IS = Form(None, None)


@cache
def form(hint: Any) -> Form:
    """Return the functions that convert values of a type to plain data and back.

    Args:
        hint: the type, as a type hint such as ``list[int]``.

    Raises:
        TypeError: values of the type can't be plain data.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is tuple:
        return _tuple(args)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(*args)
    if origin is not None and issubclass(origin, Collection):
        return _collection(origin, args[0])
    if hint in (Any, object, str, int, float, bool):
        return AS_IT_IS
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Form(None, {member.value: member for member in hint}.__getitem__)
    if hasattr(hint, "_fields"):
        return _named(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint)
    raise TypeError(f"{hint} has no form as plain data")


def _union(args: tuple[Any, ...]) -> Form:
    some = [arg for arg in args if arg is not types.NoneType]
    if len(some) > 1:
        return _tagged(some)
    write, read = form(some[0])
    return Form(
        None if write is None else lambda value: None if value is None else write(value),
        None if read is None else lambda plain: None if plain is None else read(plain),
    )


def _tagged(some: list[Any]) -> Form:
    forms = [form(arg) for arg in some]
    kinds = [get_origin(arg) or arg for arg in some]

    def write(value: Any) -> Any:
        if value is None:
            return None
        number = next(number for number, kind in enumerate(kinds) if isinstance(value, kind))
        return [number, forms[number].to_plain(value)]

    def read(plain: Any) -> Any:
        if plain is None:
            return None
        number, value = plain
        return forms[number].from_plain(value)

    return Form(write, read)


def _tuple(args: tuple[Any, ...]) -> Form:
    if args[1:] == (Ellipsis,):
        return _collection(tuple, args[0])
    parts = [form(arg) for arg in args]
    return Form(None, tuple) if all(part == AS_IT_IS for part in parts) else _sequence(tuple, parts)


def _collection(made: Callable[[Any], Any], item: Any) -> Form:
    write, read = form(item)
    is_set = isinstance(made, type) and issubclass(made, set | frozenset)
    if write is not None:
        items = write
        return Form(lambda values: [items(value) for value in values], _items(made, read))
    # The JSON writer accepts tuples, so a tuple is not converted.
    return Form(sorted if is_set else list if made is list else None, _items(made, read))


def _items(made: Callable[[Any], Any], read: Convert | None) -> Convert:
    return made if read is None else lambda plain: made([read(value) for value in plain])


def _mapping(key: Any, item: Any) -> Form:
    write, read = form(item)
    if key is not str:
        pairs = _collection(list, tuple[key, item])
        write_pairs, read_pairs = pairs.write or list, pairs.read or list
        return Form(lambda value: write_pairs(value.items()), lambda plain: dict(read_pairs(plain)))
    return Form(
        dict if write is None else lambda value: {key: write(item) for key, item in value.items()},
        dict if read is None else lambda plain: {key: read(item) for key, item in plain.items()},
    )


def _sequence(made: Callable[[list[Any]], Any], forms: list[Form], defaults: Sequence[Any] = ()) -> Form:
    """Return the form of a sequence with items of different types.

    Args:
        made: function that makes the object from the list of its items.
        forms: the form of each item.
        defaults: the default value of each item. The last items are not written if they have their default values.
    """
    writes = [(place, form.write) for place, form in enumerate(forms) if form.write is not None]
    reads = [(place, form.read) for place, form in enumerate(forms) if form.read is not None]

    def write(values: Iterable[Any]) -> list[Any]:
        plain = list(values)
        if defaults:
            count = len(plain)
            while count and plain[count - 1] == defaults[count - 1]:
                count -= 1
            del plain[count:]
        for place, convert in writes:
            if place >= len(plain):
                break
            plain[place] = convert(plain[place])
        return plain

    def read(plain: Iterable[Any]) -> Any:
        values = list(plain)
        for place, convert in reads:
            if place >= len(values):
                break
            values[place] = convert(values[place])
        return made(values)

    return Form(write, read)


def _named(cls: Any) -> Form:
    hints = get_type_hints(cls)
    defaults = [cls._field_defaults.get(name, MISSING) for name in cls._fields]
    return _sequence(lambda values: cls(*values), [form(hints[name]) for name in cls._fields], defaults)


def _dataclass(cls: Any) -> Form:
    hints, taken = get_type_hints(cls), [field for field in fields(cls) if field.init]
    defaults = [field.default if field.default_factory is MISSING else field.default_factory() for field in taken]
    names = [field.name for field in taken]
    values_of = attrgetter(*names)
    plain = _sequence(
        lambda values: cls(**dict(zip(names, values, strict=False))), [form(hints[name]) for name in names], defaults
    )
    write = plain.write or list
    return Form(lambda value: write(values_of(value)), plain.read)


class Fields:
    """Chosen attributes of the objects of a class, written as a dict.

    The class of the objects must have type hints for these attributes.

    Args:
        cls: the class of the objects.
        names: names of the attributes. The keys of the dict are these names without a leading underscore.
    """

    def __init__(self, cls: type, *names: str) -> None:
        hints = get_type_hints(cls)
        self._forms = [(name.lstrip("_"), name, *form(hints[name])) for name in names]

    def write(self, owner: object) -> dict[str, Any]:
        """Return the chosen attributes of an object as plain data.

        Args:
            owner: the object.
        """
        plain = {}
        for key, name, write, _ in self._forms:
            value = getattr(owner, name)
            plain[key] = value if write is None else write(value)
        return plain

    def read(self, owner: object, plain: Mapping[str, Any]) -> None:
        """Set the chosen attributes of an object.

        Args:
            owner: the object.
            plain: plain data that ``write`` returned.
        """
        for key, name, _, read in self._forms:
            setattr(owner, name, plain[key] if read is None else read(plain[key]))


def restoring(what: str, version: int, snapshot: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Check the version of a snapshot, and return a context manager for the code that reads the snapshot.

    The context manager turns the errors that a damaged snapshot causes into a SnapshotError.

    Args:
        what: the kind of snapshot, for the error message.
        version: the version that this release reads.
        snapshot: the snapshot.

    Raises:
        SnapshotError: the version differs, or a part is missing or has the wrong form.
    """
    actual = snapshot.get("version") if isinstance(snapshot, Mapping) else None
    if actual != version:
        raise SnapshotError(
            f"{what} snapshot has version {actual!r}, this release reads {version}: "
            "audit again from the beginning of the log"
        )
    return _damage(f"{what} snapshot of version {version} is damaged")


@contextmanager
def _damage(message: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise SnapshotError(f"{message}: {cause!r}") from cause
