"""Every field of every record kind and version with its extremes, in groups that share a log with innocent ones.

A log is made from the recorded lives of groups. Innocent groups keep them as they are; in the others one field has an
extreme value, or several have, or all of them, or the times of the log itself have. The twin of a log has, in place of
each record of such a group, a commit of one plain group: so the innocent records stand at the same offsets, and their
rows can be compared one by one.
"""

import base64
import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from coordinator_replay.records.definition import Field, RecordDefinition
from coordinator_replay.records.kinds import record_kinds
from coordinator_replay.records.plain import DecodedRecord, encode_key, encode_value
from coordinator_replay.times import EPOCH
from tests.hostile import recordings
from tests.hostile.recordings import Entry, Life, Place
from tests.log.message_sets import write_message_set
from tests.log.writer import LogEntry, write_batch

INNOCENT = 60
FILLER = "filler"
SHIFT_MS = 3_333_333
"""Hostile lives lie so much earlier, so that no operation of theirs shares its time with an innocent one."""

LOG_TIMES = (-1, 0, 1, -(2**61), 2**61, -recordings.LATEST_MS, recordings.LATEST_MS + 1)
"""Times that a record header can have and no clock gives."""

NORMAL = "Amélie"
TEXTS = (
    *recordings.TEXTS,
    "\x00",
    "\x1b[m=HYPERLINK(1)",
    "\u202eabc\u202c",
    "SELECT 1; DROP TABLE x",
    "\"'`\\",
    "NULL",
    "None",
    "\ud7ff\ue000\U0010ffff",
    NORMAL.upper(),
    unicodedata.normalize("NFD", NORMAL),
    unicodedata.normalize("NFC", NORMAL),
)
MEGABYTE = "m" * (1 << 20)
HUGE = 3000
"""How often the first element of an array is repeated."""
MOST_PARTS_OF_TIMES = 20


class Extreme(NamedTuple):
    """What a field of a kind's key or value becomes.

    Attributes:
        name: the extreme, for messages.
        make: from what the field has to what it gets.
    """

    kind: RecordDefinition
    version: int
    place: Place
    in_key: bool
    name: str
    make: Callable[[Any], Any]

    def __str__(self) -> str:
        return f"{self.kind.name} {self.version} {'.'.join(self.place)}: {self.name}"

    def applied(self, record: DecodedRecord) -> DecodedRecord:
        """The record with it; the same if it is of another kind or version."""
        if record.key_version != self.kind.type or (not self.in_key and record.value_version != self.version):
            return record
        key, value = dict(record.key), record.value
        if self.in_key:
            key = altered(key, self.place, self.make)
        elif value is not None:
            value = altered(dict(value), self.place, self.make)
        return DecodedRecord(
            kind=record.kind, key_version=record.key_version, value_version=record.value_version, key=key, value=value
        )


def altered(value: Any, place: Place, make: Callable[[Any], Any]) -> Any:
    """A copy with what stands at a place made into something else; through arrays in each of their elements."""
    if not place:
        return make(value)
    if isinstance(value, list):
        return [altered(one, place, make) for one in value]
    if not isinstance(value, dict) or place[0] not in value:
        return value
    return {**value, place[0]: altered(value[place[0]], place[1:], make)}


def _fields(fields: Sequence[Field], version: int) -> Iterator[tuple[Place, Field]]:
    for field in fields:
        if version in field.versions:
            yield (field.name,), field
            if field.type == "struct":
                yield from (((field.name, *inner), found) for inner, found in _fields(field.fields, version))


def _constant(value: Any) -> Callable[[Any], Any]:
    return lambda _old: value


def _each(value: Any) -> Callable[[Any], Any]:
    return lambda old: [value for _ in old] if isinstance(old, list) else value


def _values(field: Field, *, is_flexible: bool) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    if field.nullable:
        yield "null", _constant(None)
    if field.is_array:
        yield "no element", _constant([])
        yield "doubled", lambda old: [*old, *old] if old else old
        yield "reversed", lambda old: [*reversed(old)] if old else old
        yield "huge", lambda old: [*old[:1] * HUGE] if old else old
    yield from ((name, _each(value)) for name, value in _elements(field.type, is_flexible=is_flexible))


def _elements(type_: str, *, is_flexible: bool) -> Iterator[tuple[str, Any]]:
    """What a field, or each element of an array, becomes; nothing for a struct, whose own fields are tried."""
    match type_:
        case "string":
            for text in (*TEXTS, MEGABYTE) if is_flexible else TEXTS:
                yield f"text {text[:20]!r}", text
        case "bytes":
            for data in (b"", b"\xff" * 7, bytes(1 << 16)):
                yield f"bytes {data[:4]!r}", base64.b64encode(data).decode()
        case "uuid":
            for data in (bytes(16), b"\xff" * 16, bytes(15) + b"\x01"):
                yield f"uuid {data[-1]}", base64.urlsafe_b64encode(data).decode().rstrip("=")
        case integer if integer in recordings.BITS:
            bits = recordings.BITS[integer]
            low, high = (0, 2**bits - 1) if integer == "uint16" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            for number in sorted({low, low + 1, -1, 0, 1, high - 1, high, *recordings.TIMES}):
                if low <= number <= high:
                    yield f"number {number}", number


def extremes() -> Iterator[Extreme]:
    """Every extreme of every field of every kind and version; the group's id aside, which has a test of its own."""
    for kind in record_kinds().values():
        for version in range(kind.value.versions.low, kind.value.versions.high + 1):
            is_flexible = version in kind.value.flexible
            for place, field in _fields(kind.value.fields, version):
                for name, make in _values(field, is_flexible=is_flexible):
                    yield Extreme(kind, version, place, False, name, make)
        low = kind.value.versions.low
        for place, field in _fields(kind.key.fields, 0):
            if place != (kind.group_field,):
                yield from (Extreme(kind, low, place, True, *one) for one in _values(field, is_flexible=False))


class Lives:
    """Lives to choose from, by the kinds and versions of their records."""

    def __init__(self) -> None:
        self.good = [life for life in recordings.recorded_lives() if len(life) <= 40]
        self.found: dict[tuple[int, int | None], list[Life]] = {}
        for life in self.good:
            for key in {(one.record.key_version, one.record.value_version) for one in life}:
                self.found.setdefault(key, []).append(life)
        self.made = {(one[0].record.key_version, one[0].record.value_version): one for one in recordings.made_lives()}
        self.topics = sorted({topic.encode() for life in self.good for topic in _topics(life)}, key=len, reverse=True)

    def of(self, extreme: Extreme, rng: random.Random) -> Life:
        """A life with a record that an extreme is about."""
        key = extreme.kind.type, extreme.version
        return rng.choice(self.found[key]) if key in self.found else self.made[key]

    def encoded(self, life: Life) -> list[LogEntry]:
        """A hostile life as records, about topics of its own names and ids."""
        found = []
        for record, at_ms in recordings.with_topics_of_its_own(life):
            key, value = encode_key(record.kind, record.key), None
            if record.value is not None and record.value_version is not None:
                value = encode_value(record.kind, record.value_version, record.value)
            for topic in self.topics:
                key = key.replace(topic, topic[:-1] + b"~")
                value = None if value is None else value.replace(topic, topic[:-1] + b"~")
            found.append(LogEntry(key=key, value=value, timestamp_ms=at_ms))
        return found


def _topics(life: Life) -> Iterator[str]:
    for one in life:
        if "topic" in one.record.key:
            yield one.record.key["topic"]
        value = one.record.value or {}
        yield from (topic["topicName"] for topic in value.get("topics") or () if "topicName" in topic)
        yield from value.get("subscribedTopicNames") or ()


Hostile = tuple[str, Life]


def with_each(chosen: Sequence[Extreme], known: Lives, rng: random.Random) -> Iterator[Hostile]:
    """A life for each extreme: alone."""
    for extreme in chosen:
        life = known.of(extreme, rng)
        yield str(extreme), tuple(Entry(extreme.applied(one.record), one.at_ms) for one in life)


def with_several(chosen: Sequence[Extreme], known: Lives, rng: random.Random, most: int) -> Iterator[Hostile]:
    """Lives in which several extremes are."""
    by_kind: dict[int, list[Extreme]] = {}
    for extreme in chosen:
        by_kind.setdefault(extreme.kind.type, []).append(extreme)
    for extreme in chosen:
        life = known.of(extreme, rng)
        kinds = sorted({one.record.key_version for one in life} & set(by_kind))
        taken = [extreme, *(rng.choice(by_kind[rng.choice(kinds)]) for _ in range(rng.randint(1, most)))]
        entries = []
        for one in life:
            record = one.record
            # From record to record other ones: a life that jumps between extremes.
            for each in taken if rng.random() < 0.5 else taken[:1]:
                record = each.applied(record)
            entries.append(Entry(record, one.at_ms))
        yield " + ".join(map(str, taken)), tuple(entries)


def with_all(known: Lives, every: Sequence[Extreme], rng: random.Random) -> Iterator[Hostile]:
    """Lives in which every field has some extreme."""
    by_field: dict[tuple[int, int, bool, Place], list[Extreme]] = {}
    for extreme in every:
        by_field.setdefault((extreme.kind.type, extreme.version, extreme.in_key, extreme.place), []).append(extreme)
    for life in (*known.good, *known.made.values()):
        chosen = [rng.choice(of_field) for of_field in by_field.values()]
        entries = []
        for one in life:
            record = one.record
            for extreme in chosen:
                if extreme.kind.type == record.key_version and "huge" not in extreme.name:
                    record = extreme.applied(record)
            entries.append(Entry(record, one.at_ms))
        yield "all at once", tuple(entries)


def with_times(known: Lives, rng: random.Random) -> Iterator[Hostile]:
    """Lives whose log timestamps jump, end, are none, or turn back; lives backwards; tombstones of nothing."""
    for life in known.good:
        for at_ms in LOG_TIMES:
            yield f"all at {at_ms}", tuple(Entry(one.record, at_ms) for one in life)
            cut = rng.randrange(len(life))
            yield (
                f"{at_ms} from {cut} on",
                tuple(Entry(one.record, at_ms if place >= cut else one.at_ms) for place, one in enumerate(life)),
            )
            yield (
                f"{at_ms} up to {cut}",
                tuple(Entry(one.record, at_ms if place <= cut else one.at_ms) for place, one in enumerate(life)),
            )
        yield (
            "times that jump",
            tuple(Entry(one.record, rng.choice((*LOG_TIMES, one.at_ms, one.at_ms - 86_400_000))) for one in life),
        )
        yield "backwards", tuple(reversed(life))
        yield "twice", (*life, *life)
        yield (
            "times turned",
            tuple(Entry(one.record, other.at_ms) for one, other in zip(life, reversed(life), strict=True)),
        )
        nothing = tuple(Entry(_tombstone(one.record), one.at_ms) for one in life)
        yield "tombstones of nothing", nothing
        yield "tombstones first", (*nothing, *life)
        yield "tombstones between", tuple(each for one, gone in zip(life, nothing, strict=True) for each in (one, gone))
    for life in known.made.values():
        yield "a tombstone of a kind", tuple(Entry(_tombstone(one.record), one.at_ms) for one in life)


def _tombstone(record: DecodedRecord) -> DecodedRecord:
    return DecodedRecord(
        kind=record.kind, key_version=record.key_version, value_version=None, key=record.key, value=None
    )


class Piece(NamedTuple):
    """Records that stand next to one another in the log, of one group, and what stands in their place in the twin."""

    group: str
    entries: Sequence[LogEntry]


class Log(NamedTuple):
    """What was written.

    Attributes:
        told: what is hostile in each group, by its id.
        innocent: ids of the groups in which nothing is.
        dump: the folder of the log, and of its
        twin: in which the innocent groups are alone,
        nights: and the same log in parts.
        broker_log: what the broker logged of the hostile classic groups.
    """

    told: dict[str, str]
    innocent: list[str]
    dump: Path
    twin: Path
    nights: list[Path]
    broker_log: Path


def _pieces(group: str, entries: Sequence[LogEntry]) -> list[Piece]:
    """A life in parts: what was written at one time is one operation, and stays together."""
    return [Piece(group, [*part]) for _, part in groupby(entries, key=lambda entry: entry.timestamp_ms)]


def _merged(every: Sequence[Sequence[Piece]], rng: random.Random) -> list[Piece]:
    """The pieces of several lives, some of them at once, each life in its order."""
    rest = [list(reversed(one)) for one in every]
    found, active = [], [rest.pop() for _ in range(min(8, len(rest)))]
    while active:
        place = rng.randrange(len(active))
        found.append(active[place].pop())
        if not active[place]:
            if rest:
                active[place] = rest.pop()
            else:
                del active[place]
    return found


def write(folder: Path, hostile: Sequence[Hostile], rng: random.Random, partitions: Sequence[int] = (0, 1, 8)) -> Log:
    """Write a log, its twin, and the log in two nights."""
    known = Lives()
    log = Log({}, [], folder / "dump", folder / "twin", [folder / "night-1", folder / "night-2"], folder / "server.log")
    logged: list[str] = []
    by_partition: dict[int, list[list[Piece]]] = {partition: [] for partition in partitions}
    for number, (what, life) in enumerate(hostile):
        group = f"h-{number:05}"
        log.told[group] = what
        shifted = tuple(
            Entry(
                one.record,
                one.at_ms - SHIFT_MS - number if SHIFT_MS * 100 < one.at_ms <= recordings.LATEST_MS else one.at_ms,
            )
            for one in recordings.renamed(life, group)
        )
        partition = partitions[number % len(partitions)]
        by_partition[partition].append(_pieces(group, known.encoded(shifted)))
        logged += [line for one in shifted for line in _logged(group, partition, one)]
    log.broker_log.write_text("".join(logged))
    for number in range(INNOCENT):
        group = f"innocent-{number:02}"
        log.innocent.append(group)
        life = recordings.renamed(known.good[number % len(known.good)], group)
        by_partition[partitions[number % len(partitions)]].append(_pieces(group, [*recordings.encoded(life)]))
    for partition, every in by_partition.items():
        rng.shuffle(every)
        _write_partition(log, partition, _merged(every, rng), rng)
    return log


def _write_partition(log: Log, partition: int, pieces: Sequence[Piece], rng: random.Random) -> None:
    batches: list[tuple[int, bytes, bytes]] = []
    offset = 0
    for place, piece in enumerate(pieces):
        twins = piece.entries
        if piece.group.startswith("h-"):
            twins = [_filler(entry, partition) for entry in piece.entries]
        # As the log of an upgraded cluster: format 0 first, then 1, then 2.
        magic = min(place * 20 // len(pieces), 2)
        batches.append((offset, *(_batch(entries, offset, magic) for entries in (piece.entries, twins))))
        offset += len(piece.entries)
    half = len(batches) // 2
    for folder, part, twin in (
        (log.dump, batches, 1),
        (log.twin, batches, 2),
        (log.nights[0], batches[:half], 1),
        (log.nights[1], batches[half:], 1),
    ):
        if part:
            place_ = folder / f"__consumer_offsets-{partition}"
            place_.mkdir(parents=True)
            (place_ / f"{part[0][0]:020}.log").write_bytes(b"".join(batch[twin] for batch in part))


def _logged(group: str, partition: int, entry: Entry) -> Iterator[str]:
    """What a broker logs before it writes a generation, which it calls by the number that the record has."""
    value = entry.record.value
    if value is None or entry.record.kind != "GroupMetadata" or not 0 <= entry.at_ms <= recordings.LATEST_MS:
        return
    coordinator = f"INFO [GroupCoordinator id=1 topic=__consumer_offsets partition={partition}]"
    in_class = "(org.apache.kafka.coordinator.group.GroupMetadataManager)"
    generation, members = value["generation"], len(value["members"])
    reason = f"Adding new member {str(value.get('leader'))[:300]!r} with group instance id null"
    for before_ms, text in (
        (
            50,
            f"Preparing to rebalance group {group} in state PreparingRebalance with old generation {generation - 1} "
            f"(reason: {reason}).",
        ),
        (3, f"Stabilized group {group} generation {generation} with {members} members."),
    ):
        at = EPOCH + timedelta(milliseconds=max(entry.at_ms - before_ms, 0))
        yield f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}] {coordinator} {text} {in_class}\n"


def _filler(entry: LogEntry, log_partition: int) -> LogEntry:
    kind = record_kinds()[1].name
    # A group in several log partitions would count as moved, and answers about other groups mention such moves.
    key = encode_key(kind, {"group": f"{FILLER}-{log_partition}", "topic": FILLER, "partition": 0})
    at_ms = 1_700_000_000_000
    value = {"offset": 1, "metadata": "", "commitTimestamp": at_ms, "leaderEpoch": -1}
    return LogEntry(key=key, value=encode_value(kind, 3, value), timestamp_ms=entry.timestamp_ms)


def _batch(entries: Sequence[LogEntry], offset: int, magic: int) -> bytes:
    if magic == 2:
        return write_batch(entries, base_offset=offset)
    return write_message_set(entries, base_offset=offset, magic=magic)


def hostile_lives(seed: int, part: int, parts: int) -> list[Hostile]:
    """One of so many equal parts of all lives: each extreme alone, several, all at once, and times of the log.

    Args:
        seed: what chance makes of it; of all parts the same.
        part: which, from 0 on.
        parts: how many there are.
    """
    rng, known, every = random.Random(seed), Lives(), list(extremes())
    rng.shuffle(every)
    times = list(with_times(known, rng))
    rng.shuffle(times)
    rng.seed(f"{seed}, {part} of {parts}")
    chosen = every[part::parts]
    return [
        *with_each(chosen, known, rng),
        *with_several(chosen, known, rng, most=4),
        *with_all(known, every, rng),
        # There are few of them, and a hundredth would have next to none.
        *times[part :: min(parts, MOST_PARTS_OF_TIMES)],
    ]
