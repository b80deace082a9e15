"""Records of recorded groups, with one field of each group's records set to what no coordinator would write.

Here a life is what a recording has of a group. Every life is a group of its own in one log, between intact ones; so a
few audits try every field of every record kind.
"""

import base64
import io
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from coordinator_replay.log.segment import read_segment
from coordinator_replay.records.definition import Field, RecordDefinition, Struct
from coordinator_replay.records.kinds import blob, record_kinds
from coordinator_replay.records.plain import DecodedRecord, decode_record, encode_blob, encode_key, encode_value
from coordinator_replay.times import LATEST_MS
from tests.hostile.test_hostile import HOSTILE_NAMES
from tests.log.writer import LogEntry, write_batch
from tests.samples import Sample

SAMPLES = ("group-lifecycles", "kafka-3.9", "java-clients", "transactions", "old-format-none", "expiration")

BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}

TIMES = (-62_135_596_800_001, -62_135_596_800_000, -(2**62), LATEST_MS, LATEST_MS + 1, LATEST_MS * 1000, 2**53 + 1)
"""Just outside, and just inside, of what calendars, floats and columns of microseconds hold."""

TEXTS = (*(name for name in HOSTILE_NAMES if len(name) < 1000), "x" * 3000, "\u200b", "\ufeffa", "\u061c", "$(touch x)")


class Entry(NamedTuple):
    """A record of a life, decoded."""

    record: DecodedRecord
    at_ms: int


Life = tuple[Entry, ...]


@cache
def recorded_lives() -> tuple[Life, ...]:
    """The groups of the samples, each with its records in log order."""
    lives: dict[tuple[str, str], list[Entry]] = {}
    for name in SAMPLES:
        for path in sorted(Path(Sample(name).segments).rglob("*.log")):
            for part in read_segment(io.BytesIO(path.read_bytes()), source="s", log_partition=0):
                for row in part.records.select(["key", "value", "control_type", "log_timestamp"]).to_pylist():
                    if row["control_type"] is not None or row["key"] is None:
                        continue
                    record = decode_record(row["key"], row["value"])
                    at = row["log_timestamp"]
                    lives.setdefault((name, group_of(record)), []).append(
                        Entry(record, -1 if at is None else round(at.timestamp() * 1000))
                    )
    return tuple(map(tuple, lives.values()))


def group_of(record: DecodedRecord) -> str:
    return str(record.key[kind_of(record).group_field])


def kind_of(record: DecodedRecord) -> RecordDefinition:
    return record_kinds()[record.key_version]


def plain(struct: Struct, version: int) -> dict[str, Any]:
    """The fields of a struct with unremarkable values, for kinds and versions that no sample has."""
    return _plain_fields(struct.fields, version)


def _plain_fields(fields: Sequence[Field], version: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields:
        if version not in field.versions:
            continue
        match field.type:
            case "string":
                value: Any = "a"
            case "bytes":
                value = ""
            case "uuid":
                value = "AAAAAAAAAAAAAAAAAAAAAQ"
            case "struct":
                value = _plain_fields(field.fields, version)
            case _:
                value = 1
        found[field.name] = [value] if field.is_array else value
    return found


@cache
def made_lives() -> tuple[Life, ...]:
    """A life of one record for each kind and version that there is."""
    return tuple(
        (
            Entry(
                DecodedRecord(
                    kind=kind.name,
                    key_version=kind.type,
                    value_version=version,
                    key=plain(kind.key, 0),
                    value=plain(kind.value, version),
                ),
                1_760_000_000_000,
            ),
        )
        for kind in record_kinds().values()
        for version in range(kind.value.versions.low, kind.value.versions.high + 1)
    )


Place = tuple[str, ...]
"""Names that lead to a field, from the key or the value on; through an array into each of its elements."""


def places(fields: Sequence[Field], version: int, wanted: Callable[[Field], bool]) -> Iterator[tuple[Place, Field]]:
    for field in fields:
        if version not in field.versions:
            continue
        if field.type == "struct":
            yield from (((field.name, *inner), found) for inner, found in places(field.fields, version, wanted))
        elif wanted(field):
            yield (field.name,), field


def changed(value: Any, place: Place, to: Any) -> Any:
    """A copy with all that stands at a place set to something else; the same where nothing stands there."""
    if not place:
        return [to for _ in value] if isinstance(value, list) else to
    if isinstance(value, list):
        return [changed(one, place, to) for one in value]
    if not isinstance(value, dict) or place[0] not in value:
        return value
    return {**value, place[0]: changed(value[place[0]], place[1:], to)}


def renamed(life: Life, group: str) -> Life:
    """The same life, lived by another group."""

    def of(record: DecodedRecord) -> DecodedRecord:
        key = {**record.key, kind_of(record).group_field: group}
        return DecodedRecord(
            kind=record.kind,
            key_version=record.key_version,
            value_version=record.value_version,
            key=key,
            value=record.value,
        )

    return tuple(Entry(of(one.record), one.at_ms) for one in life)


def with_topics_of_its_own(life: Life) -> Life:
    """The same life with topics of other ids: the name of a topic is what any record of the log says that it is."""

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: other_id(one) if name == "topicId" else of(one) for name, one in value.items()}
        return [of(one) for one in value] if isinstance(value, list) else value

    def other_id(topic_id: str | None) -> str | None:
        bytes_ = sha256((topic_id or "").encode()).digest()[:16]
        return None if topic_id is None else base64.urlsafe_b64encode(bytes_).decode().rstrip("=")

    return tuple(
        Entry(replace(entry.record, key=of(entry.record.key), value=of(entry.record.value)), entry.at_ms)
        for entry in life
    )


class Change(NamedTuple):
    """A field of a kind's key or value, and what it is set to."""

    kind: RecordDefinition
    version: int
    place: Place
    in_key: bool
    to: Any

    def applied(self, record: DecodedRecord) -> DecodedRecord:
        if record.key_version != self.kind.type or (not self.in_key and record.value_version != self.version):
            return record
        key, value = record.key, record.value
        if self.in_key:
            key = changed(dict(key), self.place, self.to)
        elif value is not None:
            value = changed(dict(value), self.place, self.to)
        return DecodedRecord(
            kind=record.kind, key_version=record.key_version, value_version=record.value_version, key=key, value=value
        )


def integer_changes(rng: random.Random, random_ones: int = 1) -> Iterator[Change]:
    """Every integer field of every kind and version: its extremes, what no calendar has, and random numbers."""
    for kind in record_kinds().values():
        for version in range(kind.value.versions.low, kind.value.versions.high + 1):
            for struct_, number, in_key in ((kind.key, 0, True), (kind.value, version, False)):
                if in_key and version != kind.value.versions.low:
                    continue
                for place, field in places(struct_.fields, number, lambda field: field.type in BITS):
                    bits = BITS[field.type]
                    low, high = (
                        (0, 2**bits - 1) if field.type == "uint16" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
                    )
                    numbers = {low, high, max(low, -1), 0, *(n for n in TIMES if low <= n <= high)}
                    numbers |= {rng.randint(low, high) for _ in range(random_ones)}
                    yield from (Change(kind, version, place, in_key, number) for number in sorted(numbers))


def text_changes(rng: random.Random, each: int = 2) -> Iterator[Change]:
    """Every text of every kind and version, but the group's id: some hostile ones."""
    for kind in record_kinds().values():
        for version in range(kind.value.versions.low, kind.value.versions.high + 1):
            for struct_, number, in_key in ((kind.key, 0, True), (kind.value, version, False)):
                if in_key and version != kind.value.versions.low:
                    continue
                for place, _ in places(struct_.fields, number, lambda field: field.type == "string"):
                    if in_key and place == (kind.group_field,):
                        continue
                    yield from (Change(kind, version, place, in_key, text) for text in rng.sample(TEXTS, each))


def blob_changes(rng: random.Random) -> Iterator[Change]:
    """Subscriptions and assignments of classic members, with hostile numbers and texts."""
    kind = record_kinds()[2]
    for name, field_name in (
        ("ConsumerProtocolSubscription", "subscription"),
        ("ConsumerProtocolAssignment", "assignment"),
    ):
        definition = blob(name)
        for version in range(definition.versions.low, definition.versions.high + 1):
            whole = plain(definition, version)
            for place, field in places(definition.fields, version, lambda field: field.type in {*BITS, "string"}):
                for to in (-(2**31), 2**31 - 1, -1) if field.type == "int32" else rng.sample(TEXTS, 2):
                    data = encode_blob(definition, version, changed(whole, place, to))
                    yield Change(kind, 3, ("members", field_name), False, base64.b64encode(data).decode())


def lives_with(changes: Iterable[Change], rng: random.Random) -> Iterator[tuple[str, Life]]:
    """A life for each change, in which a record of its kind and version is there; each with what was changed."""
    found: dict[tuple[int, int | None], list[Life]] = {}
    for life in recorded_lives():
        if len(life) <= 40:
            for kind, version in {(one.record.key_version, one.record.value_version) for one in life}:
                found.setdefault((kind, version), []).append(life)
    made = {(life[0].record.key_version, life[0].record.value_version): life for life in made_lives()}
    for change in changes:
        where = (change.kind.type, change.version)
        life = rng.choice(found[where]) if where in found else made[where]
        told = f"{change.kind.name} {change.version} {'.'.join(change.place)} = {change.to!r:.40}"
        yield told, tuple(Entry(change.applied(one.record), one.at_ms) for one in life)


def encoded(life: Life) -> Iterator[LogEntry]:
    for record, at_ms in life:
        key = encode_key(record.kind, record.key)
        value = None
        if record.value is not None and record.value_version is not None:
            value = encode_value(record.kind, record.value_version, record.value)
        yield LogEntry(key=key, value=value, timestamp_ms=at_ms)


class Dump(NamedTuple):
    """A dump of lives.

    Attributes:
        told: what was changed in each group, by its id.
        intact: ids of groups in which nothing was.
    """

    told: dict[str, str]
    intact: list[str]


def write_dump(
    folder: Path, lives: Sequence[tuple[str, Life]], *, log_partition: int = 0, names: Sequence[str] = ()
) -> Dump:
    """One log of all lives, one after the other, and intact ones between them.

    Args:
        folder: where to write it.
        lives: each with what was changed in it.
        log_partition: of the log.
        names: ids of groups that live intact lives, too.
    """
    told, intact = {}, []
    entries: list[LogEntry] = []
    good = [life for life in recorded_lives() if len(life) <= 40]
    for number, (change, life) in enumerate(lives):
        if number % 50 == 0:
            intact.append(f"intact-{number:05}")
            entries += encoded(renamed(good[number // 50 % len(good)], intact[-1]))
        group = f"h-{number:05}"
        told[group] = change
        entries += encoded(renamed(life, group))
    with_members = [life for life in good if {2, 3} & {one.record.key_version for one in life}]
    for number, name in enumerate(names):
        entries += encoded(renamed(with_members[number % len(with_members)], name))
    write_log(folder, entries, log_partition=log_partition)
    return Dump(told, intact)


def write_log(folder: Path, entries: Sequence[LogEntry], *, log_partition: int = 0, batch: int = 100) -> None:
    place = folder / f"__consumer_offsets-{log_partition}"
    place.mkdir(parents=True)
    with (place / f"{0:020}.log").open("wb") as file:
        for base in range(0, len(entries), batch):
            file.write(write_batch(entries[base : base + batch], base_offset=base))


def write_intact(folder: Path, dump: Dump) -> None:
    """The intact lives of a dump alone."""
    good = [life for life in recorded_lives() if len(life) <= 40]
    entries = [
        entry for number, group in enumerate(dump.intact) for entry in encoded(renamed(good[number % len(good)], group))
    ]
    write_log(folder, entries)


def write_times(folder: Path) -> list[str]:
    """Lives whose records' own timestamps are whatever a header can say; the groups."""
    good = [life for life in recorded_lives() if 10 <= len(life) <= 20]
    entries: list[LogEntry] = []
    groups = []
    for number, at_ms in enumerate((-1, 0, 1, 1_795_249_931_062, LATEST_MS, LATEST_MS + 1, -(2**61), 2**61)):
        groups.append(f"at-{number}")
        life = renamed(good[number % len(good)], groups[-1])
        entries += encoded(tuple(Entry(one.record, at_ms) for one in life))
    write_log(folder, entries, batch=1)
    return groups


_POSITION = re.compile(r"'((?!committed)\w+_offset|rebalance_id|finding_id)': [^,}]+")


def without_positions(row: str) -> str:
    """A row in words, but for its place in the log and what is made from that."""
    return _POSITION.sub(r"'\1': …", row)
