import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.records import decoder
from coordinator_replay.records.damage import ErrorClass, RecordError
from coordinator_replay.records.decoder import decode_records
from coordinator_replay.records.kinds import kinds_by_name
from coordinator_replay.records.plain import DecodedRecord, decode_record, encode_key, encode_value, group_of_key
from tests.records.log_records import batch
from tests.records.strategies import KINDS_AND_VERSIONS, records


def milliseconds(moment):
    return None if moment is None else round(moment.timestamp() * 1000)


def shown_time(value):
    return value if value is not None and 0 <= value < 253_402_300_800_000 else None


def check_commit(row, expected: DecodedRecord):
    key, value = expected.key, expected.value or {}
    assert (row["group_id"], row["topic"], row["partition"]) == (key["group"], key["topic"], key["partition"])
    assert row["committed_offset"] == value.get("offset")
    assert row["metadata"] == value.get("metadata")
    assert row["leader_epoch"] == (None if value.get("leaderEpoch") == -1 else value.get("leaderEpoch"))
    assert milliseconds(row["commit_timestamp"]) == shown_time(value.get("commitTimestamp"))
    assert milliseconds(row["expire_timestamp"]) == shown_time(value.get("expireTimestamp"))
    assert row["topic_id"] == value.get("topicId")


def check(rows):
    """Rows of a batch must be what each record is by itself."""
    decoded = decode_records(batch(rows), with_commit_json=True)
    everything = np.concatenate([decoded.commit_rows, decoded.group_rows, decoded.quarantine_rows])
    assert sorted(everything) == list(range(len(rows)))
    for place, row in zip(decoded.quarantine_rows, decoded.quarantine.to_pylist(), strict=True):
        with pytest.raises(RecordError) as caught:
            decode_record(*rows[place])
        assert row["error_class"] == caught.value.error_class
        assert (row["key"], row["value"]) == rows[place]
        check_key(row, rows[place][0])
    for place, row in zip(decoded.commit_rows, decoded.commits.to_pylist(), strict=True):
        expected = decode_record(*rows[place])
        check_commit(row, expected)
        check_common(row, rows[place], expected)
    for place, row in zip(decoded.group_rows, decoded.groups.to_pylist(), strict=True):
        expected = decode_record(*rows[place])
        assert row["group_id"] == next(iter(expected.key.values()))
        assert row["member_id"] == expected.key.get("memberId")
        check_common(row, rows[place], expected)


def check_key(row, key):
    """What can be read of the key of a record that can't is there, and nothing else."""
    try:
        expected = decode_record(key, None)
    except RecordError as problem:
        is_of_no_kind = problem.error_class is ErrorClass.UNKNOWN_RECORD_TYPE
        assert (row["kind"], row["key_json"]) == (None, None)
        assert row["group_id"] == (group_of_key(key) if is_of_no_kind else None)
    else:
        assert (row["kind"], row["group_id"]) == (expected.kind, next(iter(expected.key.values())))
        assert json.loads(row["key_json"]) == expected.key


def check_common(row, raw, expected):
    assert row["kind"] == expected.kind
    assert json.loads(row["key_json"]) == expected.key
    assert (row["value_json"] and json.loads(row["value_json"])) == expected.value
    assert row["key_version"] == expected.key_version
    assert row["value_version"] == expected.value_version
    assert row["is_tombstone"] == expected.is_tombstone
    assert row["record_bytes"] == len(raw[0]) + len(raw[1] or b"")


@st.composite
def encoded(draw):
    kind, version = draw(st.sampled_from(KINDS_AND_VERSIONS))
    key, value = draw(records(kind, version))
    return encode_key(kind.name, key), None if value is None else encode_value(kind.name, version, value)


@st.composite
def damaged(draw):
    """A good record of which some bytes are cut off, changed or added."""
    key, value = draw(encoded())
    part = bytearray(key if value is None or draw(st.booleans()) else value)
    action = draw(st.sampled_from(["cut", "change", "add"]))
    if action == "cut":
        part = part[: draw(st.integers(0, len(part)))]
    elif action == "change" and part:
        part[draw(st.integers(0, len(part) - 1))] = draw(st.integers(0, 255))
    else:
        part += draw(st.binary(max_size=5))
    return draw(st.sampled_from([(bytes(part), value), (key, bytes(part))]))


garbage = st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40))


@given(st.lists(encoded(), max_size=12))
def test_any_mix_of_kinds_and_versions_decodes_as_one_by_one(rows):
    check(rows)


@given(st.lists(encoded() | damaged() | garbage, max_size=12))
def test_damage_never_costs_a_neighbour(rows):
    check(rows)


def test_a_slice_of_a_batch_decodes_like_the_batch():
    rows = [(encode_key("ConsumerGroupMetadata", {"groupId": f"g{n}"}), None) for n in range(10)]
    part = decode_records(batch(rows).slice(3, 4))
    assert part.groups.column("group_id").to_pylist() == ["g3", "g4", "g5", "g6"]


def test_long_arrays_are_read_whole():
    many = [f"topic-{n}" for n in range(5000)]
    fields = {"topics": many, "version": 1, "timestamp": 2}
    key = encode_key("ConsumerGroupRegularExpression", {"groupId": "g", "regularExpression": "topic-.*"})
    check([(key, encode_value("ConsumerGroupRegularExpression", 0, fields))] * 3)


def test_a_count_that_lies_is_damage_and_costs_no_memory():
    key = encode_key("ConsumerGroupRegularExpression", {"groupId": "g", "regularExpression": "x"})
    lying = b"\x00\x00" + b"\xff\xff\xff\xff\x07" + bytes(10)
    decoded = decode_records(batch([(key, lying)]))
    assert decoded.quarantine.column("error_class").to_pylist() == ["BufferUnderflow"]


def test_control_and_damaged_rows_are_passed_on_untouched():
    rows = batch([(b"\x00\x00\x00\x01", bytes(6)), (None, b"torn")])
    rows = rows.set_column(2, "control_type", ["COMMIT", None])
    rows = rows.set_column(3, "error_class", [None, "ChecksumMismatch"])
    rows = rows.set_column(4, "error_message", [None, "the checksum is wrong"])
    decoded = decode_records(rows)
    assert list(decoded.quarantine_rows) == [1]
    assert decoded.quarantine.to_pylist()[0]["error_class"] == "ChecksumMismatch"
    assert decoded.commits.num_rows == decoded.groups.num_rows == 0


# What a text is searched for eight bytes at a time, and what comes next to it.
_AWKWARD = st.text(st.sampled_from('ab~\x7f "\\\x00\x1f\x20\x21\x23\x5bé日😀'), max_size=40)


@given(st.lists(_AWKWARD, min_size=1, max_size=4))
def test_texts_are_escaped_wherever_one_needs_it(names):
    check([(encode_key("ConsumerGroupMetadata", {"groupId": name}), None) for name in names])
    keys = [encode_key("OffsetCommit", {"group": name, "topic": name, "partition": 0}) for name in names]
    check([(key, None) for key in keys])


@given(st.text("abcdefgh", max_size=20), st.binary(min_size=1, max_size=3), st.text("abcdefgh", max_size=20))
def test_bytes_that_are_no_text_are_found_wherever_they_stand(before, odd, after):
    name = before.encode() + odd + after.encode()
    text = len(name).to_bytes(2, "big") + name
    check([(b"\x00\x03" + text, None), (b"\x00\x01" + text + text + bytes(4), None)])


def test_what_a_kind_is_follows_from_its_definition_alone():
    assert kinds_by_name()["OffsetCommit"].is_offset_commit
    assert not kinds_by_name()["GroupMetadata"].is_offset_commit


def test_a_record_that_is_too_large_is_set_aside_with_its_first_bytes(monkeypatch):
    monkeypatch.setattr(decoder, "LARGEST_RECORD_BYTES", 100)
    monkeypatch.setattr(decoder, "_KEPT_BYTES", 20)
    commit = (b"\x00\x01\x00\x01g\x00\x01t" + bytes(4), None)
    longest = b"\x00\x63" + bytes(98)
    rows = [commit, (longest, b"x" * 100), (commit[0], b"\x00\x03" + b"y" * 99), (longest + b"z", None), commit]
    decoded = decode_records(batch(rows))
    assert decoded.commit_rows.tolist() == [0, 4]
    found = dict(zip(decoded.quarantine_rows.tolist(), decoded.quarantine.to_pylist(), strict=True))
    assert found[1]["error_class"] == "UnknownRecordType"
    assert (found[1]["key"], found[1]["value"]) == rows[1]
    assert {found[row]["error_class"] for row in (2, 3)} == {"RecordTooLarge"}
    assert (found[2]["key"], found[2]["value"]) == (commit[0], b"\x00\x03" + b"y" * 18)
    assert (found[3]["key"], found[3]["value"]) == (longest[:20], None)
