import json

import pytest

from coordinator_replay.errors import DefinitionError
from coordinator_replay.records.definition import Versions, parse_record
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
    assert set(record_kinds()) == {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23}
    assert {kind.name for kind in record_kinds().values() if kind.is_offset_commit} == {
        "OffsetCommit",
        "LegacyOffsetCommit",
    }
    assert blob("ConsumerProtocolSubscription").versions == Versions(0, 3)


def test_a_good_definition_is_read():
    kind = parse_record(GOOD, "Thing.json")
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
def test_a_bad_definition_is_refused_with_the_place(raw, complaint):
    with pytest.raises(DefinitionError, match=complaint):
        parse_record(raw, "Thing.json")
