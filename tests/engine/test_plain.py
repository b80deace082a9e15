"""Values become plain data and come back by their type hints."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.engine.plain import Fields, form, restoring
from coordinator_replay.errors import SnapshotError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    at: int
    colour: Colour | None = None
    tags: tuple[str, ...] = ()


@dataclass
class Shape:
    name: str
    points: dict[str, Point] = field(default_factory=dict)
    cells: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    inner: "Point | Mapping[str, Any] | None" = None
    count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.count = len(self.points)


TEXT = st.text(max_size=3)
POINTS = st.builds(Point, st.integers(), st.none() | st.sampled_from(Colour), st.lists(TEXT).map(tuple))
SHAPES = st.builds(
    Shape,
    TEXT,
    st.dictionaries(TEXT, POINTS),
    st.dictionaries(st.tuples(TEXT, st.integers()), st.sets(st.integers())),
    st.none() | POINTS | st.dictionaries(TEXT, st.integers()),
)


@given(st.lists(SHAPES))
def test_what_is_read_is_what_was_written_through_json(shapes: list[Shape]) -> None:
    every = form(list[Shape])
    assert every.from_plain(json.loads(json.dumps(every.to_plain(shapes)))) == shapes


def test_fields_at_the_end_that_have_their_default_are_not_written() -> None:
    assert form(Point).to_plain(Point(1)) == [1]
    assert form(Point).to_plain(Point(1, None, ("a",))) == [1, None, ("a",)]
    assert form(Shape).to_plain(Shape("s", {"p": Point(1, Colour.BLUE)})) == ["s", {"p": [1, "blue"]}]


def test_what_a_dataclass_derives_is_derived_again() -> None:
    assert form(Shape).from_plain(["s", {"p": [1], "q": [2]}]).count == 2


def test_fields_of_an_object_are_read_into_another() -> None:
    class Walk:
        _seen: dict[str, Point]
        other: object

    fields = Fields(Walk, "_seen")
    walk, again = Walk(), Walk()
    walk._seen = {"a": Point(3, Colour.RED)}
    plain = fields.write(walk)
    assert plain == {"seen": {"a": [3, "red"]}}
    fields.read(again, plain)
    assert again._seen == walk._seen


def test_a_type_without_a_form_is_refused() -> None:
    with pytest.raises(TypeError, match="no form as plain data"):
        form(list[bytes])


@pytest.mark.parametrize("plain", [[1, "green"], [], {"at": 1}, 7, [1, None, [], 4]])
def test_damaged_data_is_one_error(plain: object) -> None:
    with (
        pytest.raises(SnapshotError, match="shape snapshot of version 1 is damaged"),
        restoring("shape", 1, {"version": 1}),
    ):
        form(dict[str, Point]).from_plain({"a": plain})["a"].at + 1
