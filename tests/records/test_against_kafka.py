"""The decoders and the encoder against Kafka's own classes, on records that Kafka made at random."""

import base64
import json
import random
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coordinator_replay.errors import PrerequisiteError
from coordinator_replay.records.damage import ErrorClass, RecordError
from coordinator_replay.records.decoder import decode_records
from coordinator_replay.records.definition import RecordDefinition
from coordinator_replay.records.kinds import blob, record_kinds
from coordinator_replay.records.plain import (
    UNKNOWN_TAGS,
    DecodedRecord,
    decode_record,
    encode_blob,
    encode_key,
    encode_value,
    read_blob,
)
from tests.kafka_judge import Answer, KafkaJudge
from tests.samples import DATA

pytestmark = pytest.mark.kafka

SEEDS = range(60)

LEGACY = "LegacyOffsetCommit"
"""The one kind of which we read more than Kafka: older brokers wrote any commit under it, 4.x reads version 0."""


GONE = "ShareGroupPartitionMetadata"
"""The one kind that only an earlier release knows: 4.1 and later pass over what 4.0 wrote."""


def versions_in_common(kind: RecordDefinition) -> range:
    """The value versions of a kind that Kafka reads too."""
    if kind.name == GONE:
        return range(0)
    versions = kind.value.versions
    return range(1) if kind.name == LEGACY else range(versions.low, versions.high + 1)


KINDS_AND_VERSIONS = [
    pytest.param(kind.type, version, id=f"{kind.name}-v{version}")
    for kind in record_kinds().values()
    for version in versions_in_common(kind)
]

OURS_ALONE = {ErrorClass.TRAILING_BYTES, ErrorClass.INVALID_UNICODE}
"""Damage that Kafka reads over: bytes after the last field, bytes of a string that are no character."""

OURS_ALONE_IN_TAGS = {ErrorClass.BAD_TAGGED_FIELD, ErrorClass.BUFFER_UNDERFLOW}
"""Likewise in flexible versions, for Kafka does not look at the size that stands before a tagged field it knows."""

Record = tuple[bytes | None, bytes | None]


@pytest.fixture(scope="module")
def judge() -> Iterator[KafkaJudge]:
    try:
        running = KafkaJudge()
    except PrerequisiteError as missing:
        pytest.skip(f"Kafka's classes can't be asked: {missing}")
    with running:
        yield running


def without_unknown_tags(value: Any) -> Any:
    """Kafka's JSON leaves unknown tagged fields out; ours shows them."""
    if isinstance(value, dict):
        return {name: without_unknown_tags(field) for name, field in value.items() if name != UNKNOWN_TAGS}
    if isinstance(value, list):
        return [without_unknown_tags(element) for element in value]
    return value


def in_kafkas_form(record: DecodedRecord) -> Answer:
    answer: Answer = {"keyVersion": record.key_version, "kind": record.kind, "key": dict(record.key)}
    if record.value is None:
        return answer | {"tombstone": True}
    return answer | {"valueVersion": record.value_version, "value": without_unknown_tags(record.value)}


def scalar_answer(key: bytes | None, value: bytes | None) -> Answer:
    return in_kafkas_form(decode_record(key, value))


def random_records_of_every_kind(judge: KafkaJudge, seeds: Sequence[int]) -> list[Record]:
    made: list[Record] = []
    for kind in judge.kinds():
        for version in kind.versions:
            made += judge.random_records(kind.key_version, version, seeds)
    return made


def commit_answer(row: dict[str, Any]) -> Answer:
    """A row of the decoder's commit columns as Kafka would print it."""
    key = {"group": row["group_id"], "topic": row["topic"], "partition": row["partition"]}
    kind = record_kinds()[row["key_version"]]
    answer: Answer = {"keyVersion": kind.type, "kind": kind.name, "key": key}
    if row["is_tombstone"]:
        return answer | {"tombstone": True}
    value = {
        "offset": row["committed_offset"],
        "leaderEpoch": -1 if row["leader_epoch"] is None else row["leader_epoch"],
        "metadata": row["metadata"],
        "commitTimestamp": row["commit_timestamp"],
        "expireTimestamp": row["expire_timestamp"],
        "topicId": row["topic_id"],
    }
    current = {field.name for field in kind.value.fields if row["value_version"] in field.versions}
    if row["topic_id"] is None:
        current.discard("topicId")
    value = {name: field for name, field in value.items() if name in current}
    return answer | {"valueVersion": row["value_version"], "value": value}


def with_moments(answer: Answer) -> Answer:
    """Kafka's answer with the two times of a commit as the commit columns hold them: None where it is no moment."""
    if "value" not in answer or "commitTimestamp" not in answer["value"]:
        return answer
    value = dict(answer["value"])
    for name in {"commitTimestamp", "expireTimestamp"} & value.keys():
        value[name] = moment(value[name])
    return answer | {"value": value}


def moment(milliseconds: int) -> datetime | None:
    if not 0 <= milliseconds < 253_402_300_800_000:
        return None
    time: datetime = pa.scalar(milliseconds, pa.timestamp("ms", "UTC")).as_py()
    return time


def group_answer(row: dict[str, Any]) -> Answer:
    """A row of the decoder's group columns as Kafka would print it."""
    answer: Answer = {"keyVersion": row["key_version"], "kind": row["kind"], "key": json.loads(row["key_json"])}
    if row["is_tombstone"]:
        return answer | {"tombstone": True}
    value = without_unknown_tags(json.loads(row["value_json"]))
    return answer | {"valueVersion": row["value_version"], "value": value}


def log_records(records: Sequence[Record]) -> pa.RecordBatch:
    nothing = pa.nulls(len(records), pa.string())
    columns = {
        "key": pa.array([key for key, _ in records], pa.binary()),
        "value": pa.array([value for _, value in records], pa.binary()),
        "control_type": nothing,
        "error_class": nothing,
        "error_message": nothing,
    }
    return pa.RecordBatch.from_pydict(columns)


def columnar_answers(records: Sequence[Record]) -> list[Answer | None]:
    """What the columnar decoder makes of each record; None for those in quarantine."""
    decoded = decode_records(log_records(records))
    answers: list[Answer | None] = [None] * len(records)
    for place, row in zip(decoded.commit_rows, decoded.commits.to_pylist(), strict=True):
        answers[place] = commit_answer(row)
    for place, row in zip(decoded.group_rows, decoded.groups.to_pylist(), strict=True):
        answers[place] = group_answer(row)
    return answers


def damaged(record: Record, dice: random.Random) -> Record:
    """The record with one of its halves cut off somewhere or with a byte changed."""
    halves = list(record)
    half = 1 if dice.random() < 0.8 and halves[1] is not None else 0
    data = bytearray(halves[half] or b"")
    place = dice.randrange(len(data))
    if dice.random() < 0.3:
        del data[place:]
    else:
        data[place] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, data[place] ^ 1 << dice.randrange(8)])
    halves[half] = bytes(data)
    return halves[0], halves[1]


def read_over(answer: Answer) -> set[ErrorClass]:
    """What may be wrong with a record that Kafka answered all the same."""
    flexible = (
        "valueVersion" in answer and answer["valueVersion"] in record_kinds()[answer["keyVersion"]].value.flexible
    )
    return OURS_ALONE | OURS_ALONE_IN_TAGS if flexible else OURS_ALONE


def test_every_kind_and_version_that_kafka_reads_is_defined(judge: KafkaJudge) -> None:
    common = ((kind, versions_in_common(kind)) for kind in record_kinds().values())
    defined = {kind.type: (kind.name, versions) for kind, versions in common if versions}
    assert defined == {kind.key_version: (kind.name, kind.versions) for kind in judge.kinds()}


@pytest.mark.parametrize(("kind", "version"), KINDS_AND_VERSIONS)
def test_scalar_decoder_reads_what_kafka_wrote(judge: KafkaJudge, kind: int, version: int) -> None:
    records = judge.random_records(kind, version, SEEDS)
    assert [scalar_answer(key, value) for key, value in records] == judge.decode_all(records)


@pytest.mark.parametrize(("kind", "version"), KINDS_AND_VERSIONS)
def test_encoder_writes_the_very_bytes_that_kafka_wrote(judge: KafkaJudge, kind: int, version: int) -> None:
    for key, value in judge.random_records(kind, version, SEEDS):
        decoded = decode_record(key, value)
        assert decoded.value is not None
        assert encode_key(decoded.kind, decoded.key) == key
        assert encode_value(decoded.kind, version, decoded.value) == value


@pytest.mark.parametrize(("kind", "version"), KINDS_AND_VERSIONS)
def test_kafka_reads_what_the_encoder_wrote(judge: KafkaJudge, kind: int, version: int) -> None:
    answers = judge.decode_all(judge.random_records(kind, version, SEEDS))
    ours = [
        (encode_key(answer["kind"], answer["key"]), encode_value(answer["kind"], version, answer["value"]))
        for answer in answers
    ]
    assert judge.decode_all(ours) == answers
    assert ours == judge.encode_all(answers)


def test_columnar_decoder_reads_what_kafka_wrote_in_one_batch_of_all_kinds(judge: KafkaJudge) -> None:
    records = random_records_of_every_kind(judge, SEEDS)
    records += [(key, None) for key, _ in records[::7]]
    random.Random(1).shuffle(records)
    expected = [with_moments(answer) for answer in judge.decode_all(records)]
    assert columnar_answers(records) == expected


def test_tombstones_of_every_kind_are_read_as_kafka_reads_them(judge: KafkaJudge) -> None:
    records = [(key, None) for key, _ in random_records_of_every_kind(judge, range(10))]
    assert [scalar_answer(key, None) for key, _ in records] == judge.decode_all(records)


@pytest.mark.parametrize("version", range(5))
def test_legacy_commit_of_any_version_holds_what_kafka_reads_in_a_commit_of_it(judge: KafkaJudge, version: int) -> None:
    records = judge.random_records(1, version, SEEDS)
    legacy = [scalar_answer(b"\x00\x00" + key[2:], value) for key, value in records]
    assert legacy == [answer | {"keyVersion": 0, "kind": LEGACY} for answer in judge.decode_all(records)]


@pytest.mark.parametrize(
    ("kind", "tag", "default"),
    [("OffsetCommit", 0, bytes(16)), ("ConsumerGroupMetadata", 0, bytes(8)), ("StreamsGroupMetadata", 0, b"\xff" * 4)],
)
def test_tagged_field_written_out_at_its_default_is_left_out_as_kafka_does(
    judge: KafkaJudge, kind: str, tag: int, default: bytes
) -> None:
    definition = next(known for known in judge.kinds() if known.name == kind)
    version = definition.highest_version
    made = judge.random_records(definition.key_version, version, [1])
    [answer] = judge.decode_all(made)
    plain = {
        field.name: answer["value"].get(field.name) for field in record_kinds()[definition.key_version].value.fields
    }
    for field in record_kinds()[definition.key_version].value.fields:
        if field.tag is not None:
            plain[field.name] = field.default
    # The encoder itself never writes a default; as an unknown field it lets us.
    plain[UNKNOWN_TAGS] = [{"tag": tag, "data": base64.b64encode(default).decode()}]
    record = (made[0][0], encode_value(kind, version, plain))
    assert record[1] is not None
    assert default in record[1]
    [expected] = judge.decode_all([record])
    assert scalar_answer(*record) == expected
    assert columnar_answers([record]) == [with_moments(expected)]


def test_damaged_records_are_refused_where_kafka_refuses_them_and_else_read_alike(judge: KafkaJudge) -> None:
    dice = random.Random(20)
    whole = random_records_of_every_kind(judge, range(100, 112))
    records = [damaged(record, dice) for record in whole for _ in range(10)]
    answers = judge.decode_all(records)
    columnar = columnar_answers(records)
    refused = 0
    for (key, value), answer, from_columns in zip(records, answers, columnar, strict=True):
        where = (key, value, answer)
        try:
            ours = scalar_answer(key, value)
        except RecordError as error:
            refused += 1
            assert "error" in answer or error.error_class in read_over(answer), where
            assert from_columns is None, where
            continue
        if ours["kind"] != LEGACY or "value" not in ours or ours["valueVersion"] == 0:
            assert ours == answer, where
        assert from_columns == with_moments(ours), where
    assert 0 < refused < len(records)


def test_blobs_of_every_version_are_read_as_a_consumer_reads_them(judge: KafkaJudge) -> None:
    owned = [{"topic": "päper", "partitions": [0, 7]}, {"topic": "t", "partitions": []}]
    subscription = {
        "topics": ["a", "", "漢"],
        "userData": base64.b64encode(b"\x00\x01").decode(),
        "ownedPartitions": owned,
        "generationId": 12,
        "rackId": "r1",
    }
    bare: dict[str, Any] = {"topics": [], "userData": None, "ownedPartitions": [], "generationId": -1, "rackId": None}
    struct = blob("ConsumerProtocolSubscription")
    blobs = [encode_blob(struct, version, fields) for version in range(4) for fields in (subscription, bare)]
    # As a later client may write: a version above all known ones, with fields after the known ones.
    blobs.append(b"\x00\x09" + blobs[-2][2:] + b"more")
    assert [read_blob(struct, data)[0] for data in blobs] == judge.subscriptions(blobs)

    struct = blob("ConsumerProtocolAssignment")
    blobs = [
        encode_blob(struct, version, {"assignedPartitions": partitions, "userData": data})
        for version in range(4)
        for partitions in (owned, [])
        for data in (None, "", "AAE=")
    ]
    assert [read_blob(struct, data)[0] for data in blobs] == judge.assignments(blobs)


def sample_lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


SAMPLE_FOLDERS = sorted(path.parent for path in DATA.glob("*/decoded.jsonl"))
ABOUT_RECORD = ["keyVersion", "kind", "key", "tombstone", "valueVersion", "value"]


@pytest.mark.parametrize("sample", SAMPLE_FOLDERS, ids=lambda path: path.name)
def test_judge_says_of_recorded_dumps_what_was_recorded_with_them(judge: KafkaJudge, sample: Path) -> None:
    recorded = {
        (line["partition"], line["offset"]): {name: line[name] for name in ABOUT_RECORD if name in line}
        for line in sample_lines(sample, "decoded.jsonl")
        if "control" not in line
    }
    made = judge.encode_all(list(recorded.values()))
    assert judge.decode_all(made) == list(recorded.values())
    if not (sample / "records.jsonl").exists():
        return
    rows = sample_lines(sample, "records.jsonl")
    asked = [{"key": row["key"], "value": row["payload"]} for row in rows]
    answers = {
        (row["partition"], row["offset"]): answer for row, answer in zip(rows, judge.ask_all(asked), strict=True)
    }
    assert answers == recorded
