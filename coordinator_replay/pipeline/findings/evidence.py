"""The evidence about each group, made from rows of several tables, in the order that the rules of findings need."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from math import ceil
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypedDict, cast

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.evidence_rows import (
    ABANDONED,
    STALL,
    Burst,
    Content,
    LongTransaction,
    OffsetExpiry,
    PartitionCommits,
    PastExpiry,
    PastStall,
    PositionLosses,
    Range,
    Rewinds,
    UncommittedTime,
)
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.analysis.findings.totals import (
    EMPTY_REWIND,
    GROUP,
    PARTITION,
    PAST,
    POSITION_LOSS,
    REWIND,
    SUMMARIES,
    WHOLE,
    ActiveTime,
    Key,
    SummaryKind,
    Totals,
    bursts_of,
    last_past,
    position_loss,
    rewind,
)
from coordinator_replay.analysis.rows import encode
from coordinator_replay.engine.model import GroupState
from coordinator_replay.times import time_order

TOTALS = "commit_totals"
"""The internal table of sums of commits, kept from run to run."""

EVIDENCE, EXPIRED, REMOVED, OFFSETS = "group_evidence", "expired_offsets", "removed_offsets", "offset_history"
PENDING, OWNERSHIP, RULES, QUARANTINE = "pending_offsets", "partition_ownership", "expiry_rules", "quarantine"

STALLS, UNCOMMITTED, ENDANGERED = "stalls", "uncommitted", "endangered"
"""Names of evidence from the tables of offsets and owners, see ``statements``."""

_CHUNK_ROWS = 50_000

Row = dict[str, Any]
Chunk = Mapping[str, pa.Table]


class EvidenceRow(NamedTuple):
    """A row of ``group_evidence`` about a group. Rows of a group sort by their first four fields.

    Attributes:
        tag: the kind of the evidence.
        at: the time in milliseconds, or 0.
        name: a name that differs by kind, such as a topic.
        seq: a number that tells rows with the same kind, time and name apart.
        content: the evidence.
    """

    tag: Evidence
    at: int
    name: str
    seq: int
    content: Content


class _Tagged(TypedDict):
    """A row of ``group_evidence``."""

    tag: int
    at: int | None
    name: str
    seq: int
    detail: str


class _Total(TypedDict):
    """A row of ``commit_totals``."""

    what: str
    topic: str | None
    partition: int | None
    sums: str


class _Pause(TypedDict):
    """A long time in which a member owned a partition and committed no offset of it, see ``statements.stalls``."""

    topic: str
    partition: int
    log_partition: int
    member_id: str
    owned_from: int | None
    from_offset: int
    committed_offset: int | None
    at: int
    until: int
    pause_until: int
    is_over: bool


class _Endangered(PastExpiry):
    """A past time range in which an offset was about to expire, was past retention, or belonged to an abandoned topic.

    See ``statements.endangered_offsets``.
    """

    topic: str
    partition: int
    is_over: bool


class _Current(TypedDict):
    """An offset that is current at the end of the log."""

    topic: str
    partition: int
    is_exact: bool


class _Expiring(TypedDict):
    """An offset that expired or will expire.

    Times are in microseconds.
    """

    topic: str
    partition: int
    status: str
    rule: str
    confidence: str
    last_owner_member_id: str | None
    tombstone_at: int | None
    tombstone_offset: int | None
    expire_at: int | None
    is_exact: bool | None


@dataclass(slots=True, kw_only=True)
class GroupEvidence:
    """Rows about one group. Each list has the rows from one source, and has the source's name."""

    group_evidence: list[_Tagged] = field(default_factory=list)
    group_sums: list[Row] = field(default_factory=list)
    partition_sums: list[Row] = field(default_factory=list)
    rewinds: list[Row] = field(default_factory=list)
    position_losses: list[Row] = field(default_factory=list)
    commit_totals: list[_Total] = field(default_factory=list)
    stalls: list[_Pause] = field(default_factory=list)
    endangered: list[_Endangered] = field(default_factory=list)
    uncommitted: list[UncommittedTime] = field(default_factory=list)
    offset_history: list[_Current] = field(default_factory=list)
    pending_offsets: list[LongTransaction] = field(default_factory=list)
    expired_offsets: list[_Expiring] = field(default_factory=list)

    def totals(self, limits: Thresholds) -> Totals:
        """Return the sums of the group's commits. Call this only once, because the call removes fields from the rows.

        Args:
            limits: the thresholds of findings.
        """
        totals = Totals()
        for row in self.group_sums:
            totals.add(GROUP, WHOLE, row, is_over=row.pop("is_over"))
        for row in self.partition_sums:
            totals.add(PARTITION, _key(row), row, is_over=row.pop("is_over"))
        for row in self.rewinds:
            kind = EMPTY_REWIND if row["group_state"] == str(GroupState.EMPTY) else REWIND
            added = rewind(row)
            totals.add(kind, _key(row), added, is_over=row["is_over"])
        for row in self.position_losses:
            added = position_loss(row)
            totals.add(POSITION_LOSS, _key(row), added, is_over=row["is_over"])
        for total in self.commit_totals:
            topic, partition = total["topic"], total["partition"]
            key = WHOLE if topic is None or partition is None else (topic, partition)
            totals.add(SUMMARIES[total["what"]], key, orjson.loads(total["sums"]), is_over=True)
        for (key, is_over), rows in self._past(totals.active(limits)).items():
            totals.add(PAST, key, {"past": last_past(rows)}, is_over=is_over)
        return totals

    def _past(self, active: Sequence[Range]) -> Mapping[tuple[Key, bool], Sequence[PastStall | PastExpiry]]:
        """Return the past stalls and past expiries of each partition, see ``PastStall`` and ``PastExpiry``.

        Args:
            active: the time ranges in which the group committed without a pause.

        Returns:
            The stalls and expiries by partition and by a boolean. True is for stalls and expiries that a commit has
            ended, which can't change any more.
        """
        past = defaultdict[tuple[Key, bool], list[PastStall | PastExpiry]](list)
        last_before = ActiveTime(active if self.stalls else ()).last_before
        for pause in self.stalls:
            last_ms = last_before(pause["until"])
            if last_ms is not None and last_ms > pause["at"]:
                stall: PastStall = {
                    "log_partition": pause["log_partition"],
                    "member_id": pause["member_id"],
                    "owned_from": pause["owned_from"],
                    "from_offset": pause["from_offset"],
                    "committed_offset": pause["committed_offset"],
                    "at": pause["at"],
                    "until": pause["until"],
                    "status": STALL,
                    "pause": [pause["at"], pause["pause_until"]],
                    "went_on_ms": last_ms - pause["at"],
                }
                past[(pause["topic"], pause["partition"]), pause["is_over"]].append(stall)
        for row in self.endangered:
            expiry: PastExpiry = {
                "log_partition": row["log_partition"],
                "from_offset": row["from_offset"],
                "status": row["status"],
                "rule": row["rule"],
                "since": row["since"],
                "until": row["until"],
                "at": row["at"],
                "log_offset": row["log_offset"],
                "confidence": row["confidence"],
            }
            past[(row["topic"], row["partition"]), row["is_over"]].append(expiry)
        return past

    def ordered(self, totals: Totals) -> Iterator[EvidenceRow]:
        """Return all evidence about the group, in the order that the rules need."""
        rows = [
            EvidenceRow(
                Evidence(row["tag"]), time_order(row["at"]), row["name"], row["seq"], orjson.loads(row["detail"])
            )
            for row in self.group_evidence
        ]
        rows += _rewinds(totals)
        rows += self._position_losses(totals)
        rows += (EvidenceRow(Evidence.PENDING, row["from_offset"], "", 0, row) for row in self.pending_offsets)
        rows += (
            EvidenceRow(Evidence.EXPIRY, expiry["at"], expiry["topic"], expiry["at"], expiry)
            for expiry in self.expiries()
        )
        rows += (
            EvidenceRow(Evidence.UNCOMMITTED, time_order(row["at"]), row["topic"], 0, row) for row in self.uncommitted
        )
        rows += _past(totals)
        rows = _in_order(rows)
        of_partitions = bisect_left(rows, Evidence.OFFSETS, key=attrgetter("tag"))
        # A group may have committed millions of partitions: their rows are made one at a time.
        return chain(rows[:of_partitions], self._of_partitions(totals), rows[of_partitions:])

    def _of_partitions(self, totals: Totals) -> Iterator[EvidenceRow]:
        """Yield a row of evidence for each partition, with sums of its commits."""
        open_keys = {(row["topic"], row["partition"]): bool(row["is_exact"]) for row in self.offset_history}
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
            yield EvidenceRow(Evidence.OFFSETS, 0, topic, partition, cast("PartitionCommits", content))

    def _position_losses(self, totals: Totals) -> Iterator[EvidenceRow]:
        """Yield evidence of commits with negative offsets, by topic and by burst (a series of such commits).

        The field ``lasting`` lists the partitions that still have a negative offset from this burst.
        """
        open_keys = {(row["topic"], row["partition"]) for row in self.offset_history}
        newest = totals.every[PARTITION.name]
        for topic, seq, burst in _bursts(totals, POSITION_LOSS):
            lasting = [
                number
                for number in burst["partitions"]
                if (topic, number) in open_keys
                and (newest[topic, number]["committed_offset"] or 0) < 0
                and burst["first_offset"] <= newest[topic, number]["from_offset"] <= burst["last"]["from_offset"]
            ]
            content: PositionLosses = {**burst, "topic": topic, "lasting": lasting}
            yield EvidenceRow(Evidence.POSITION_LOSS, 0, topic, seq, content)

    def expiries(self) -> Iterator[OffsetExpiry]:
        """Yield the offsets that were or will be removed because of retention.

        Leave out offsets that the log does not prove, and offsets of partitions that never had an owner.
        """
        for row in self.expired_offsets:
            if row["is_exact"] is False:
                continue
            at = row["expire_at"] if row["tombstone_at"] is None else row["tombstone_at"]
            if row["last_owner_member_id"] is not None and at is not None:
                yield {
                    "topic": row["topic"],
                    "partition": row["partition"],
                    "status": row["status"],
                    "rule": row["rule"],
                    "confidence": row["confidence"],
                    "at": at // 1000,
                    "log_offset": row["tombstone_offset"],
                }


def _bursts(totals: Totals, kind: SummaryKind) -> Iterator[tuple[str, int, Burst]]:
    """Yield the bursts of commits of one kind. A burst is a series of such commits in one topic.

    Yields:
        The topic, the number of the burst within the topic, and facts about the burst.
    """
    topics = defaultdict[str, list[Burst]](list)
    for (topic, _), sums in totals.every[kind.name].items():
        topics[topic] += sums["bursts"]
    for topic, bursts in topics.items():
        for seq, burst in enumerate(bursts_of(bursts)):
            yield topic, seq, burst


def _rewinds(totals: Totals) -> Iterator[EvidenceRow]:
    """Yield evidence of commits that set an offset back, by topic and by burst (a series of such commits)."""
    for kind in (REWIND, EMPTY_REWIND):
        for topic, seq, burst in _bursts(totals, kind):
            of_partition = totals.every[PARTITION.name].get((topic, burst["last"]["partition"]), {})
            content: Rewinds = {
                **burst,
                "topic": topic,
                "is_empty": kind is EMPTY_REWIND,
                "with_leader_epoch": of_partition.get("with_leader_epoch"),
            }
            yield EvidenceRow(Evidence.REWIND, 0, topic, seq, content)


def _past(totals: Totals) -> Iterator[EvidenceRow]:
    """Yield evidence of past stalls and past expiries, by partition, see ``PastStall`` and ``PastExpiry``."""
    for (topic, partition), sums in totals.every[PAST.name].items():
        for past in sums["past"]:
            if past["status"] not in (STALL, ABANDONED):
                content = {**past, "topic": topic, "partition": partition}
                yield EvidenceRow(Evidence.EXPIRY, past["at"], topic, partition, cast("OffsetExpiry", content))


def _place(row: EvidenceRow) -> tuple[Any, ...]:
    """Return the sort key of a row of evidence: its kind, time, name and number, then its position in the log."""
    return (*row[:4], _number(row.content.get("log_partition")), _number(row.content.get("log_offset")))


def _in_order(rows: list[EvidenceRow]) -> list[EvidenceRow]:
    """Return rows of evidence in the order of ``_place``. Rows that are equal there are sorted by content."""
    placed = sorted(((_place(row), row) for row in rows), key=itemgetter(0))
    ordered: list[EvidenceRow] = []
    for _, same in groupby(placed, itemgetter(0)):
        tied = [row for _, row in same]
        ordered += sorted(tied, key=lambda row: encode(row.content)) if len(tied) > 1 else tied
    return ordered


def _number(value: Any) -> int:
    return value if isinstance(value, int) else -1


def _key(row: Row) -> Key:
    """Return the topic and partition of a row, and remove both from the row."""
    return row.pop("topic"), row.pop("partition")


def chunks(tables: Chunk) -> Iterator[Chunk]:
    """Yield rows of whole groups in parts of about equal size.

    A group is never split, so a part with a large group is larger.
    """
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
    """Return the rows of a chunk by group, without the rows about states of groups."""
    groups = defaultdict[str, dict[str, list[Any]]](dict)
    for name, every in chunk.items():
        rows = every
        if name == EVIDENCE:
            rows = every.filter(pc.not_equal(every.column("tag"), int(Evidence.STATE)))
            for group_id in pc.unique(every.column("group_id")).to_pylist():
                groups.setdefault(group_id, {})
        for row in rows.to_pylist():
            groups[row.pop("group_id")].setdefault(name, []).append(row)
    return {group_id: GroupEvidence(**sources) for group_id, sources in groups.items()}
