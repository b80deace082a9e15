import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.records.definition import INTEGER_SIZES, Versions, parse_record
from coordinator_replay.records.kinds import blob, record_kinds

GOOD = {
    "name": "Thing",
    "type": 99,
    "about": "A thing.",
    "source": "nowhere",
    "key": [{"name": "group", "type": "string", "about": "The group."}],
    "value": {
        "versions": "0-1",
        "flexible": "1+",
        "fields": [{"name": "size", "type": "int32", "about": "How large."}],
    },
}


SCHEMAS = Path(__file__).parents[2] / "schemas"
FILES = sorted([*SCHEMAS.glob("records/**/*.json"), *SCHEMAS.glob("messages/**/*.json")])
ENTRIES = {"name", "type", "versions", "nullable", "tag", "default", "about", "fields"}
TYPES = {*INTEGER_SIZES, "uuid", "string", "bytes", "bool", "struct"}
VERSIONS = re.compile(r"\d+(-\d+|\+)?|none")


def complaints(raw: Mapping[str, Any]) -> Iterator[str]:
    """What breaks the grammar of ``schemas/records/README.md``."""
    if "value" not in raw:
        yield "the value is missing"
        return
    for name in ("versions", "flexible"):
        if not VERSIONS.fullmatch(raw["value"].get(name, "")):
            yield f"{name} is not a range"
    layouts = [layout["fields"] for layout in raw.get("earlier", ())]
    if not all(layout.get("about") for layout in raw.get("earlier", ())):
        yield "an earlier layout must say whose it is"
    for fields in (raw["value"]["fields"], *layouts, *([raw["key"]] if "key" in raw else ())):
        yield from complaints_of_fields(fields, raw["name"])


def complaints_of_fields(fields: list[dict[str, Any]], where: str) -> Iterator[str]:
    if all("tag" in field for field in fields):
        yield f"{where}: needs at least one field that is not tagged"
    if max(Counter(field["name"] for field in fields).values(), default=0) > 1:
        yield f"{where}: a name stands twice"
    for field in fields:
        place, element = f"{where}.{field['name']}", field["type"].removeprefix("[]")
        if set(field) - ENTRIES:
            yield f"{place}: unknown entries"
        if element not in TYPES:
            yield f"{place}: unknown type {element!r}"
        if not VERSIONS.fullmatch(field.get("versions", "0+")):
            yield f"{place}: not a range"
        if (element == "struct") != ("fields" in field):
            yield f"{place}: 'fields' belong to structs"
        if "tag" in field and "default" not in field:
            yield f"{place}: needs the default"
        if not field.get("about"):
            yield f"{place}: must say what"
        yield from complaints_of_fields(field["fields"], place) if "fields" in field else ()


def changed(**entries):
    raw = json.loads(json.dumps(GOOD))
    raw["value"]["fields"][0].update(entries)
    return raw


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("0-4", [0, 4], [5, -1]), ("3+", [3, 99], [2]), ("1", [1], [0, 2]), ("none", [], [0, 7])],
)
def test_version_ranges_read_as_written(text, inside, outside):
    versions = Versions.parse(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


def test_all_kinds_that_kafka_knows_are_defined():
    assert set(record_kinds()) == {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23}
    assert {kind.name for kind in record_kinds().values() if kind.is_offset_commit} == {
        "OffsetCommit",
        "LegacyOffsetCommit",
    }
    assert blob("ConsumerProtocolSubscription").versions == Versions(0, 3)


def test_a_good_definition_is_read():
    kind = parse_record(GOOD)
    assert kind.group_field == "group"
    assert not kind.is_offset_commit


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (changed(type="int33"), "unknown type 'int33'"),
        (changed(type="struct"), "'fields' belong to structs"),
        (changed(tag=0), "needs the default"),
        (changed(about=""), "must say what"),
        (changed(colour="red"), "unknown entries"),
        (changed(versions="new"), "not a range"),
        (changed(tag=0, default=1), "at least one field that is not tagged"),
        ({key: value for key, value in GOOD.items() if key != "value"}, "missing"),
    ],
)
def test_the_grammar_knows_what_is_wrong(raw, complaint):
    assert any(complaint in one for one in complaints(raw))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_definition_keeps_to_the_grammar(path):
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert list(complaints(raw)) == []
    assert raw["name"] == path.stem


def test_no_two_kinds_have_one_number():
    numbers = [json.loads(path.read_text(encoding="utf-8"))["type"] for path in SCHEMAS.glob("records/*.json")]
    assert sorted(numbers) == list(record_kinds())
