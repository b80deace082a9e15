"""The evidence about each group, in the order in which rules take it, made of rows of several tables."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from math import ceil
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.analysis.findings.totals import (
    ABANDONED,
    EMPTY_REWIND,
    GROUP,
    PARTITION,
    PAST,
    POSITION_LOSS,
    REWIND,
    STALL,
    SUMMARIES,
    WHOLE,
    ActiveTime,
    Key,
    Range,
    Sum,
    SummaryKind,
    Totals,
    bursts_of,
    last_past,
    position_loss,
    rewind,
)
from coordinator_replay.analysis.rows import encode
from coordinator_replay.engine.model import GroupState
from coordinator_replay.pipeline.commit_sums import (
    GROUP_SUMS,
    LOSS_SUMS,
    PARTITION_SUMS,
    REWIND_SUMS,
)
from coordinator_replay.times import time_order

TOTALS = "commit_totals"
"""The internal table of what commits come to, kept from run to run."""

EVIDENCE, EXPIRED, REMOVED, OFFSETS = "group_evidence", "expired_offsets", "removed_offsets", "offset_history"
PENDING, OWNERSHIP, RULES, QUARANTINE = "pending_offsets", "partition_ownership", "expiry_rules", "quarantine"

STALLS, UNCOMMITTED, ENDANGERED = "stalls", "uncommitted", "endangered"
"""Evidence from the tables of offsets and owners: see the statements."""

_CHUNK_ROWS = 50_000

Row = dict[str, Any]
Chunk = Mapping[str, pa.Table]


class EvidenceRow(NamedTuple):
    """A row of evidence; they sort as rules take them."""

    tag: Evidence
    at: int
    name: str
    seq: int
    content: Row


@dataclass(slots=True)
class GroupEvidence:
    """Rows about one group, by source."""

    rows: defaultdict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def totals(self, limits: Thresholds) -> Totals:
        """Return what its commits come to.

        Args:
            limits: from when on their absence is a pause.
        """
        totals = Totals()
        for row in self.rows[GROUP_SUMS]:
            totals.add(GROUP, WHOLE, row, is_over=row.pop("is_over"))
        for row in self.rows[PARTITION_SUMS]:
            totals.add(PARTITION, _key(row), row, is_over=row.pop("is_over"))
        for row in self.rows[REWIND_SUMS]:
            kind = EMPTY_REWIND if row["group_state"] == str(GroupState.EMPTY) else REWIND
            added = rewind(row)
            totals.add(kind, _key(row), added, is_over=row["is_over"])
        for row in self.rows[LOSS_SUMS]:
            added = position_loss(row)
            totals.add(POSITION_LOSS, _key(row), added, is_over=row["is_over"])
        for row in self.rows[TOTALS]:
            key = WHOLE if row["topic"] is None else _key(row)
            totals.add(SUMMARIES[row["what"]], key, orjson.loads(row["sums"]), is_over=True)
        for (key, is_over), rows in self._past(totals.active(limits)).items():
            totals.add(PAST, key, {"past": last_past(rows)}, is_over=is_over)
        return totals

    def _past(self, active: Sequence[Range]) -> Mapping[tuple[Key, bool], Sequence[Row]]:
        """Return findings on the end of the log in earlier logs, by partition and whether later commits change them."""
        past = defaultdict[tuple[Key, bool], list[Row]](list)
        stalls = self.rows[STALLS]
        last_before = ActiveTime(active if stalls else ()).last_before
        for row in stalls:
            at, until, is_over = row["at"], row.pop("pause_until"), row.pop("is_over")
            last_ms = last_before(row["until"])
            if last_ms is not None and last_ms > at:
                key = _key(row), is_over
                row |= {"status": STALL, "pause": [at, until], "went_on_ms": last_ms - at}
                past[key].append(row)
        for row in self.rows[ENDANGERED]:
            past[_key(row), row.pop("is_over")].append(row)
        return past

    def ordered(self, totals: Totals) -> Iterator[EvidenceRow]:
        """Return all evidence about it, in order."""
        rows = [
            EvidenceRow(
                Evidence(row["tag"]), time_order(row["at"]), row["name"], row["seq"], orjson.loads(row["detail"])
            )
            for row in self.rows[EVIDENCE]
        ]
        rows += _rewinds(totals)
        rows += self._position_losses(totals)
        rows += (EvidenceRow(Evidence.PENDING, row["from_offset"], "", 0, row) for row in self.rows[PENDING])
        rows += (
            EvidenceRow(Evidence.EXPIRY, expiry["at"], expiry["topic"], expiry["at"], expiry)
            for expiry in self.expiries()
        )
        rows += (EvidenceRow(Evidence.UNCOMMITTED, row["at"], row["topic"], 0, row) for row in self.rows[UNCOMMITTED])
        rows += _past(totals)
        rows = _in_order(rows)
        of_partitions = bisect_left(rows, Evidence.OFFSETS, key=attrgetter("tag"))
        # A group may have committed millions of partitions: their rows are made one at a time.
        return chain(rows[:of_partitions], self._of_partitions(totals), rows[of_partitions:])

    def _of_partitions(self, totals: Totals) -> Iterator[EvidenceRow]:
        """Yield what the history of each partition comes to, in order."""
        open_keys = {(row["topic"], row["partition"]): bool(row["is_exact"]) for row in self.rows[OFFSETS]}
        past = totals.every[PAST.name]
        for key, sums in sorted(totals.every[PARTITION.name].items(), key=itemgetter(0)):
            topic, partition = key
            content = {
                **sums,
                "topic": topic,
                "partition": partition,
                "has_offset": key in open_keys,
                "is_last_known": open_keys.get(key, not sums["is_lost"]),
                "past": past[key]["past"] if key in past else (),
            }
            yield EvidenceRow(Evidence.OFFSETS, 0, topic, partition, content)

    def _position_losses(self, totals: Totals) -> Iterator[EvidenceRow]:
        """Yield commits of negative offsets, in bursts, with whether a partition still has no other offset."""
        open_keys = {(row["topic"], row["partition"]) for row in self.rows[OFFSETS]}
        newest = totals.every[PARTITION.name]
        for topic, seq, burst in _bursts(totals, POSITION_LOSS):
            lasting = [
                number
                for number in burst["partitions"]
                if (topic, number) in open_keys
                and (newest[topic, number]["committed_offset"] or 0) < 0
                and burst["first_offset"] <= newest[topic, number]["from_offset"] <= burst["last"]["from_offset"]
            ]
            yield EvidenceRow(Evidence.POSITION_LOSS, 0, topic, seq, burst | {"topic": topic, "lasting": lasting})

    def expiries(self) -> Iterator[Row]:
        """Yield what retention removed or removes of partitions that ever had an owner, as far as the log proves it."""
        for row in self.rows[EXPIRED]:
            if row["is_exact"] is False:
                continue
            at = row["expire_at"] if row["tombstone_at"] is None else row["tombstone_at"]
            if row["last_owner_member_id"] is not None and at is not None:
                yield {**row, "at": at // 1000, "log_offset": row["tombstone_offset"]}

    def tombstones(self) -> Iterator[tuple[int, str]]:
        """Return when each of its tombstones was written, in milliseconds, and its kind."""
        for row in self.rows[REMOVED]:
            if row["valid_to"] is not None:
                counter = "expired_offsets" if row["ended_by"] == "EXPIRED" else "deleted_offsets"
                yield row["valid_to"] // 1000, counter


def _bursts(totals: Totals, kind: SummaryKind) -> Iterator[tuple[str, int, Sum]]:
    """Yield the bursts of each topic, each with its number."""
    topics = defaultdict[str, list[Sum]](list)
    for (topic, _), sums in totals.every[kind.name].items():
        topics[topic] += sums["bursts"]
    for topic, bursts in topics.items():
        for seq, burst in enumerate(bursts_of(bursts)):
            yield topic, seq, burst


def _rewinds(totals: Totals) -> Iterator[EvidenceRow]:
    """Yield commits that went back, in bursts of each topic."""
    for kind in (REWIND, EMPTY_REWIND):
        for topic, seq, burst in _bursts(totals, kind):
            of_partition = totals.every[PARTITION.name].get((topic, burst["last"]["partition"]), {})
            about = {"topic": topic, "is_empty": kind is EMPTY_REWIND}
            about["with_leader_epoch"] = of_partition.get("with_leader_epoch")
            yield EvidenceRow(Evidence.REWIND, 0, topic, seq, burst | about)


def _past(totals: Totals) -> Iterator[EvidenceRow]:
    """Yield offsets that were to expire, and no longer are."""
    for (topic, partition), sums in totals.every[PAST.name].items():
        for past in sums["past"]:
            if past["status"] not in (STALL, ABANDONED):
                content = {**past, "topic": topic, "partition": partition}
                yield EvidenceRow(Evidence.EXPIRY, past["at"], topic, partition, content)


def _place(row: EvidenceRow) -> tuple[Any, ...]:
    """Return its tag, time, name and number, then where it stands in the log."""
    return (*row[:4], _number(row.content.get("log_partition")), _number(row.content.get("log_offset")))


def _in_order(rows: list[EvidenceRow]) -> list[EvidenceRow]:
    """Return rows by their place, those of one place by what they say: no order is left to how files were read."""
    placed = sorted(((_place(row), row) for row in rows), key=itemgetter(0))
    ordered: list[EvidenceRow] = []
    for _, same in groupby(placed, itemgetter(0)):
        tied = [row for _, row in same]
        ordered += sorted(tied, key=lambda row: encode(row.content)) if len(tied) > 1 else tied
    return ordered


def _number(value: Any) -> int:
    return value if isinstance(value, int) else -1


def _key(row: Row) -> Key:
    """Return which partition a row is about; what else it says is of it."""
    return row.pop("topic"), row.pop("partition")


def chunks(tables: Chunk) -> Iterator[Chunk]:
    """Yield rows of whole groups in parts of about so many rows, as far as groups are no larger."""
    columns = [rows.column("group_id") for rows in tables.values()]
    groups = pc.unique(pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string()))
    parts = max(ceil(sum(map(len, columns)) / _CHUNK_ROWS), 1)
    size = max(ceil(len(groups) / parts), 1)
    for begin in range(0, max(len(groups), 1), size):
        of_part = pc.SetLookupOptions(groups.slice(begin, size))
        yield {
            name: rows.filter(pc.is_in(column, options=of_part))
            for (name, rows), column in zip(tables.items(), columns, strict=True)
        }


def by_group(chunk: Chunk) -> dict[str, GroupEvidence]:
    """Return the rows of a chunk by group; states are looked at as columns."""
    groups = defaultdict[str, GroupEvidence](GroupEvidence)
    for name, every in chunk.items():
        rows = every
        if name == EVIDENCE:
            rows = every.filter(pc.not_equal(every.column("tag"), int(Evidence.STATE)))
            for group_id in pc.unique(every.column("group_id")).to_pylist():
                groups.setdefault(group_id, GroupEvidence())
        rows_by_group = defaultdict[str, list[Row]](list)
        for row in rows.to_pylist():
            rows_by_group[row.pop("group_id")].append(row)
        for group_id, some in rows_by_group.items():
            groups[group_id].rows[name] = some
    return groups
