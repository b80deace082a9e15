"""What the records of one copy prove by the rules of docs/completeness.md: slow, plain, apart from the audit's own.

It reads the copy's files, not the tables, and answers one question at a time by looking at every record.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from coordinator_replay.records.damage import RecordError
from coordinator_replay.records.plain import DecodedRecord, decode_record
from tests.cleaner.batches import Batch, control_type, read_batches
from tests.log.writer import LogEntry

CLASSIC = "GroupMetadata"
COMMIT = "OffsetCommit"
_EPOCHS = {CLASSIC: "generation", "ConsumerGroupMetadata": "epoch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A record that the copy has.

    Attributes:
        holds_from: Offset from which on it counts: its own; of a transactional commit that of its marker; None where
            it was aborted, or is undecided.
        is_decided: False where the copy does not tell whether or when it counts.
        epoch: Group epoch or generation that it writes; None where it writes none.
        waits: Its transaction is open at the end of the log: nothing behind it was ever cleaned.
        is_readable: False where its value can't be read.
    """

    offset: int
    time_ms: int
    key: bytes
    kind: str
    group: str
    place: tuple[str, int] | None
    is_tombstone: bool
    holds_from: int | None
    holds_from_ms: int | None
    is_decided: bool
    epoch: int | None = None
    waits: bool = False
    is_readable: bool = True


@dataclass(frozen=True, kw_only=True)
class PartitionProof:
    """What one log partition of a copy proves.

    Attributes:
        base: Base offset of the first file.
        end: Where the log ends.
        newest_base: B: the base of the newest file; the end, where offsets are missing behind it.
        present: The offsets that a record or a control record stands at.
        first_markers: Times of the first marker of each producer behind where everything is exact.
        aborts: Times of the first marker of each producer behind the last missing offset, where it aborts.
    """

    base: int
    end: int
    newest_base: int
    present: dict[int, int]
    survivors: list[Survivor]
    first_markers: list[int]
    aborts: list[int]

    @cached_property
    def missing(self) -> list[int]:
        """Offsets below the end that nothing stands at."""
        return [offset for offset in range(self.end) if offset not in self.present]

    @cached_property
    def behind_missing(self) -> int:
        """C: the offset behind the last missing one."""
        return self.missing[-1] + 1 if self.missing else 0

    @cached_property
    def complete_from(self) -> int:
        """From where on all is exact: the larger of B and C where anything is missing."""
        if any(not one.is_readable for one in self.survivors):
            return self.end
        return max(self.behind_missing, self.newest_base) if self.missing else 0

    def is_from(self, offset: int, time_ms: int) -> bool:
        """Whether a moment is at or behind an offset for sure: a record at or behind it has been written by then."""
        return any(place >= offset and time <= time_ms for place, time in self.present.items())

    def is_complete(self, time_ms: int | None) -> bool:
        """Whether rule 1 makes everything exact at a moment; None is the end of the log."""
        if any(self._is_damaged(one, time_ms) for keys in self.keys.values() for one in keys.values()):
            return False
        return self._has_all(time_ms)

    @staticmethod
    def _is_damaged(survivors: Sequence[Survivor], time_ms: int | None) -> bool:
        """Whether the value that holds at a moment may be one that can't be read."""
        by_then = [one for one in survivors if time_ms is None or one.time_ms <= time_ms]
        damaged = max((one.offset for one in by_then if not one.is_readable), default=-1)
        return damaged >= 0 and not any(
            one.is_readable
            and one.offset > damaged
            and one.holds_from_ms is not None
            and (time_ms is None or one.holds_from_ms <= time_ms)
            for one in by_then
        )

    def _has_all(self, time_ms: int | None) -> bool:
        return not self.missing or time_ms is None or self.is_from(self.complete_from, time_ms)

    @cached_property
    def keys(self) -> dict[str, dict[bytes, list[Survivor]]]:
        """Survivors by group and key."""
        found: dict[str, dict[bytes, list[Survivor]]] = defaultdict(lambda: defaultdict(list))
        for one in self.survivors:
            found[one.group][one.key].append(one)
        return found

    def is_key_exact(self, group: str, key: bytes, time_ms: int | None) -> bool:
        """Rules 1 to 4 for one key."""
        survivors = self.keys.get(group, {}).get(key, [])
        if self._is_damaged(survivors, time_ms):
            return False
        # Of one that a tombstone took while it waited, the audit does not keep that its transaction is still open.
        last = survivors[-1:]
        if any(one.waits and (time_ms is None or one.time_ms <= time_ms) for one in last):
            return True
        if self._has_all(time_ms):
            return not self.missing or time_ms is None or not self._hides_older(survivors, time_ms)
        assert time_ms is not None
        if any(not one.is_decided for one in survivors):
            return False
        holding = [one for one in survivors if one.holds_from is not None]
        if any(one.holds_from_ms is not None and one.holds_from_ms <= time_ms for one in holding):
            return True
        later = [one for one in survivors if one.time_ms > time_ms and one.offset < self.newest_base]
        pending = [one for one in survivors if one.time_ms <= time_ms]
        return self.is_from(self.behind_missing, time_ms) and not later and not pending

    def is_pending_exact(self, time_ms: int | None) -> bool:
        """Whether every commit that was pending is there: the transactions open where all is exact were over."""
        if any(not one.is_readable for one in self.survivors):
            return False
        if not self.missing or time_ms is None:
            return True
        return self.is_complete(time_ms) and all(one <= time_ms for one in self.first_markers)

    def _hides_older(self, survivors: Sequence[Survivor], time_ms: int) -> bool:
        """Whether the cleaner may have removed an offset in force for a later commit that still waits for its marker.

        Its map is that of when it was at work, when the transaction was over.
        """
        if any(one.holds_from_ms is not None and one.holds_from_ms <= time_ms for one in survivors):
            return False
        return any(one.time_ms <= time_ms and one.offset < self.newest_base for one in survivors)

    def is_group_exact(self, group: str, time_ms: int | None) -> bool:
        """Whether what is said of a group must be exact at a moment."""
        keys = self.keys.get(group, {})
        if any(self._is_damaged(one, time_ms) for one in keys.values()):
            return False
        if self._has_all(time_ms) and not (self.missing and self._begins_late(keys)):
            return True
        if time_ms is None:
            return False
        if any(one.time_ms <= time_ms for one in self._last(keys, time_ms, CLASSIC) if not one.is_tombstone):
            return True
        # Below C any key may have been there of which nothing is left: a member, or the group's own record.
        is_behind = self.is_from(self.behind_missing, time_ms)
        if not is_behind or not all(self.is_key_exact(group, key, time_ms) for key in keys):
            return False
        # A group is there while a commit is pending, and the cleaner removes what was aborted without a later record.
        return self._has_offset(keys, time_ms) or all(one <= time_ms for one in self.aborts)

    @staticmethod
    def _has_offset(keys: dict[bytes, list[Survivor]], time_ms: int) -> bool:
        """Whether an offset of a group was in force at a moment: the group was there then."""
        for survivors in keys.values():
            holding = [one for one in survivors if one.holds_from_ms is not None and one.holds_from_ms <= time_ms]
            if holding and holding[-1].kind == COMMIT and not holding[-1].is_tombstone:
                return True
        return False

    def is_rebalance_exact(self, group: str, offset: int) -> bool:
        """Whether a rebalance must be exact in which no member came or went.

        That of a classic group must be where the generation before is known to be no conversion: it was exact, too.
        """
        keys = self.keys.get(group, {})
        if any(self._is_damaged(one, None) for one in keys.values()):
            return False
        own = {one.offset: one for survivors in keys.values() for one in survivors if one.kind == CLASSIC}
        if offset not in own:
            return offset >= self.complete_from
        before = max((one for one in own if one < offset), default=None)
        return before is not None and self._is_step_exact(own, offset) and self._is_step_exact(own, before)

    def _is_step_exact(self, own: Mapping[int, Survivor], offset: int) -> bool:
        """Whether a classic group must be exact just before a record of its own, and with it."""
        before = max((one for one in own if one < offset), default=None)
        return offset >= self.complete_from or (before is not None and not own[before].is_tombstone)

    def _begins_late(self, keys: dict[bytes, list[Survivor]]) -> bool:
        """Whether the first epoch that a group writes is no new group's: a torn copy may lack those before it.

        Or its members left before they had an assignment, of which no record tells.
        """
        writes = [one for survivors in keys.values() for one in survivors if one.epoch is not None]
        first = min(writes, key=lambda one: one.offset, default=None)
        if first is None or first.epoch is None or first.offset < self.complete_from:
            return False
        return first.epoch > (1 if first.kind == CLASSIC else 2)

    @staticmethod
    def _last(keys: dict[bytes, list[Survivor]], time_ms: int, kind: str) -> Iterator[Survivor]:
        for survivors in keys.values():
            before = [one for one in survivors if one.kind == kind and one.time_ms <= time_ms]
            yield from before[-1:]

    def offset_key(self, group: str, topic: str, partition: int) -> bytes:
        """The key of a committed offset; one that nobody has where the copy knows none."""
        for key, survivors in self.keys.get(group, {}).items():
            if survivors[0].place == (topic, partition):
                return key
        return b""


class Proof(Protocol):
    """What is known of one log partition."""

    @property
    def behind_missing(self) -> int:
        """C of what was read last."""

    @property
    def complete_from(self) -> int:
        """From where on all is exact."""

    def is_complete(self, time_ms: int | None) -> bool:
        """Whether everything is exact at a moment; None is the end of the log."""

    def is_key_exact(self, group: str, key: bytes, time_ms: int | None) -> bool:
        """Whether what is said of a key must be exact at a moment."""

    def is_pending_exact(self, time_ms: int | None) -> bool:
        """Whether what is said of pending commits must be exact at a moment."""

    def is_group_exact(self, group: str, time_ms: int | None) -> bool:
        """Whether what is said of a group must be exact at a moment."""

    def is_rebalance_exact(self, group: str, offset: int) -> bool:
        """Whether what is said of a rebalance must be exact that began at an offset, without news of members."""

    def offset_key(self, group: str, topic: str, partition: int) -> bytes:
        """The key of a committed offset."""


Proofs = Mapping[int, Proof]
"""By log partition."""


class TogetherProof:
    """What several dumps of one life prove: each of the time that it covers, the newest one of the end as well.

    Args:
        whole: the whole log.
        dumps: in the order of their ends.
    """

    def __init__(self, whole: PartitionProof, dumps: Sequence[PartitionProof]) -> None:
        self._whole, self._newest = whole, dumps[-1]
        self._until = [(one, self._covers_until(whole, one, dumps[place + 1 :])) for place, one in enumerate(dumps)]

    @staticmethod
    def _covers_until(whole: PartitionProof, one: PartitionProof, later: Sequence[PartitionProof]) -> int | None:
        """The time from which on a dump does not tell everything; None for never."""
        behind = min((time for offset, time in whole.present.items() if offset >= one.end), default=None)
        if behind is None or any(one.end in dump.present for dump in later):
            return behind
        # What is missing right behind its end may have been written in the same millisecond as its last record.
        return max((time for offset, time in one.present.items() if offset < one.end), default=behind)

    @property
    def behind_missing(self) -> int:
        """C of the newest dump."""
        return self._newest.behind_missing

    @property
    def complete_from(self) -> int:
        """From where on the newest dump is exact."""
        return self._newest.complete_from

    def _of(self, time_ms: int | None) -> list[PartitionProof]:
        """The dumps that cover a moment."""
        if time_ms is None:
            return [self._newest]
        return [one for one, until in self._until if until is None or time_ms < until]

    def is_complete(self, time_ms: int | None) -> bool:
        """See ``PartitionProof``."""
        return any(one.is_complete(time_ms) for one in self._of(time_ms))

    def is_key_exact(self, group: str, key: bytes, time_ms: int | None) -> bool:
        """See ``PartitionProof``."""
        return any(one.is_key_exact(group, key, time_ms) for one in self._of(time_ms))

    def is_pending_exact(self, time_ms: int | None) -> bool:
        """See ``PartitionProof``."""
        return any(one.is_pending_exact(time_ms) for one in self._of(time_ms))

    def is_group_exact(self, group: str, time_ms: int | None) -> bool:
        """See ``PartitionProof``."""
        return any(one.is_group_exact(group, time_ms) for one in self._of(time_ms))

    def is_rebalance_exact(self, group: str, offset: int) -> bool:
        """See ``PartitionProof``."""
        return any(one.is_rebalance_exact(group, offset) for one in self._of(self._whole.present[offset]))

    def offset_key(self, group: str, topic: str, partition: int) -> bytes:
        """See ``PartitionProof``."""
        keys = (one.offset_key(group, topic, partition) for one, _ in self._until)
        return next((key for key in keys if key), b"")


class NoProof:
    """A copy of which nothing is asked but to be right, or open.

    Args:
        whole: the whole log.
    """

    def __init__(self, whole: PartitionProof) -> None:
        self.behind_missing = self.complete_from = whole.end

    def is_complete(self, time_ms: int | None) -> bool:
        """Never for sure."""
        return False

    def is_key_exact(self, group: str, key: bytes, time_ms: int | None) -> bool:
        """Never for sure."""
        return False

    def is_pending_exact(self, time_ms: int | None) -> bool:
        """Never for sure."""
        return False

    def is_group_exact(self, group: str, time_ms: int | None) -> bool:
        """Never for sure."""
        return False

    def is_rebalance_exact(self, group: str, offset: int) -> bool:
        """Never for sure."""
        return False

    def offset_key(self, group: str, topic: str, partition: int) -> bytes:
        """None."""
        return b""


def read_proofs(dump: Path | str) -> dict[int, PartitionProof]:
    """What each log partition of a copy proves; only files that are part of the log count."""
    return {
        int(folder.name.rpartition("-")[2]): _read_partition(folder)
        for folder in sorted(Path(dump).iterdir())
        if any(folder.glob("*.log"))
    }


def _read_partition(folder: Path) -> PartitionProof:
    files = sorted(folder.glob("*.log"))
    bases = [int(file.stem) for file in files]
    batches = [batch for file in files for batch in read_batches(file.read_bytes())]
    end = max([*bases[-1:], *(batch.last_offset + 1 for batch in batches)])
    present: dict[int, int] = {}
    latest = -1
    for record in (record for batch in batches for record in batch.records):
        assert record.offset is not None
        latest = max(latest, record.timestamp_ms)
        present[record.offset] = latest
    missing = [offset for offset in range(end) if offset not in present]
    newest = bases[-1] if not missing or missing[-1] < bases[-1] else end
    complete_from = max(missing[-1] + 1 if missing else 0, newest)
    firsts: dict[int, int] = {}
    for batch in batches:
        if batch.is_control and batch.records and batch.base_offset >= complete_from:
            firsts.setdefault(batch.producer_id, present[batch.base_offset])
    proof = PartitionProof(
        base=bases[0],
        end=end,
        newest_base=newest,
        present=present,
        survivors=[],
        first_markers=list(firsts.values()),
        aborts=_first_aborts(batches, missing[-1] + 1, present) if missing else [],
    )
    for place, batch in enumerate(batches):
        if batch.is_control:
            continue
        marker = None
        if batch.is_transactional:
            following = (one for one in batches[place:] if one.is_control and one.producer_id == batch.producer_id)
            marker = next((one for one in following if one.records), None)
        for record in batch.records:
            assert record.offset is not None
            decoded, is_readable = _decoded(record)
            if decoded is None:
                continue
            holds: int | None = record.offset
            is_decided, waits = True, False
            if batch.is_transactional:
                is_committed = marker is not None and control_type(marker.records[0]) == 1
                holds = marker.base_offset if marker is not None and is_committed else None
                is_decided = marker is not None or record.offset >= proof.behind_missing
                waits = marker is None and is_decided
            name = decoded.key.get("group", decoded.key.get("groupId"))
            is_commit = decoded.kind == COMMIT
            proof.survivors.append(
                Survivor(
                    offset=record.offset,
                    time_ms=present[record.offset],
                    key=record.key or b"",
                    kind=decoded.kind,
                    group=str(name),
                    place=(decoded.key["topic"], decoded.key["partition"]) if is_commit else None,
                    is_tombstone=decoded.value is None and is_readable,
                    is_readable=is_readable,
                    holds_from=holds,
                    holds_from_ms=None if holds is None else present[holds],
                    is_decided=is_decided,
                    epoch=(decoded.value or {}).get(_EPOCHS.get(decoded.kind, "")),
                    waits=waits,
                )
            )
    return proof


def _first_aborts(batches: Sequence[Batch], start: int, present: Mapping[int, int]) -> list[int]:
    """Times at which transactions were aborted that may have been open at an offset."""
    ends: dict[int, Batch] = {}
    for batch in batches:
        if batch.is_control and batch.records and batch.base_offset >= start:
            ends.setdefault(batch.producer_id, batch)
    return [present[one.base_offset] for one in ends.values() if one.is_abort]


def _decoded(record: LogEntry) -> tuple[DecodedRecord | None, bool]:
    """A record, its key alone, or nothing; and whether it is all of it."""
    for value in (record.value, None):
        try:
            return decode_record(record.key, value), value == record.value
        except RecordError:
            pass
    return None, False


def cut_moments(proof: PartitionProof) -> list[int]:
    """Times in milliseconds at which what was written by then is a beginning of the log: nothing later is older.

    Args:
        proof: of the whole log.
    """
    return sorted({time for offset, time in proof.present.items() if proof.present.get(offset + 1, time + 1) > time})
