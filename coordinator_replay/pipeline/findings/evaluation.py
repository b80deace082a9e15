"""The last stage of a bucket: what expires, findings, and steps of the metrics, from all that is known of its groups.

No rule sees a commit: what commits come to is added up before. So what goes through here is as much as there are
groups, partitions committed and rebalances.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, groupby
from math import ceil
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.expiring import ExpiryRule, Retention, expiring_offsets
from coordinator_replay.analysis.findings.evaluate import FINDINGS, Evaluator, FindingRow
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
from coordinator_replay.completeness.spans import ExactSpan
from coordinator_replay.engine.model import GroupState
from coordinator_replay.garbage import few_collections
from coordinator_replay.pipeline.bucket_files import BucketFiles, Place, TableWriter
from coordinator_replay.pipeline.commit_sums import (
    GROUP_SUMS,
    LOSS_SUMS,
    PARTITION_SUMS,
    PAUSE,
    PAUSES,
    REWIND_SUMS,
    SumsRange,
    pauses,
)
from coordinator_replay.pipeline.findings.metrics import BEGAN, ENDED, happened_rows, minute_steps
from coordinator_replay.pipeline.findings.news import News
from coordinator_replay.pipeline.guard import GroupGuard
from coordinator_replay.pipeline.interval_rows import OPEN_ROWS, STAGED
from coordinator_replay.pipeline.log_partitions import exact_spans
from coordinator_replay.pipeline.minute_states import STATES
from coordinator_replay.records.damage import ErrorClass
from coordinator_replay.store.duckdb_connection import select
from coordinator_replay.store.scan import read_paths, rows_of
from coordinator_replay.store.writer import DataFile, conform
from coordinator_replay.tables.definition import table
from coordinator_replay.times import later, milliseconds, time_order

STEP_ROWS = "metric_steps"
"""Staged steps of the metrics, in STEPS."""

TOTALS = "commit_totals"
"""The internal table of what commits come to, kept from run to run."""

EVIDENCE, EXPIRED, REMOVED, OFFSETS = "group_evidence", "expired_offsets", "removed_offsets", "offset_history"
PENDING, OWNERSHIP, RULES, QUARANTINE = "pending_offsets", "partition_ownership", "expiry_rules", "quarantine"

STALLS, UNCOMMITTED, ENDANGERED = "stalls", "uncommitted", "endangered"
"""Evidence from the tables of offsets and owners: see the statements."""

_NO_SUMS = pa.table(
    {
        "group_id": pa.array([], pa.string()),
        "topic": pa.array([], pa.string()),
        "partition": pa.array([], pa.int32()),
        "first_at": pa.array([], pa.int64()),
    }
)

_CHUNK_ROWS = 50_000
_READ = {
    EVIDENCE: (*STATES.names, "detail"),
    TOTALS: ("group_id", "what", "topic", "partition", "sums"),
    OFFSETS: ("group_id", "topic", "partition", "is_exact"),
    EXPIRED: (
        *("group_id", "topic", "partition", "status", "rule", "confidence", "last_owner_member_id", "tombstone_at"),
        *("tombstone_offset", "expire_at", "is_exact"),
    ),
    REMOVED: ("group_id", "ended_by", "valid_to"),
    PENDING: (
        *("group_id", "topic", "log_partition", "producer_id", "producer_epoch", "from_offset", "to_offset"),
        *("ended_by", "pending_since", "valid_to", "is_exact"),
    ),
    OWNERSHIP: (
        *("group_id", "topic", "partition", "member_id", "log_partition", "owned_from", "owned_to", "from_offset"),
        *("to_offset", "is_exact"),
    ),
    RULES: (
        *("group_id", "group_state", "log_partition", "log_offset", "log_timestamp", "rule", "base_timestamp"),
        "spared_topics",
    ),
    QUARANTINE: ("group_id", "log_partition", "log_offset", "log_timestamp", "error_class", "error_message"),
}
"""What is read, by table: groups' own evidence, what commits came to in earlier runs, the offsets that are current,
what retention removes, what each tombstone was, commits that waited for a marker, owners, when rules of expiry came
into force, and what could not be read."""

LONG_PENDING = """
SELECT group_id, producer_id, first(producer_epoch ORDER BY from_offset) AS producer_epoch,
    first(log_partition ORDER BY from_offset) AS log_partition, min(from_offset) AS from_offset,
    min(epoch_ms(pending_since)) AS pending_since, first(epoch_ms(valid_to) ORDER BY from_offset) AS settled_at,
    first(ended_by ORDER BY from_offset) AS ended_by, count(*) AS partitions,
    CASE WHEN count(DISTINCT topic) = 1 THEN min(topic) END AS topic
FROM pending WHERE is_exact
    AND (to_offset IS NULL OR ended_by IN ('COMMIT', 'ABORT', 'SUPERSEDED', 'TOMBSTONE'))
    AND coalesce(epoch_ms(valid_to), $end) - epoch_ms(pending_since) >= $limit
GROUP BY group_id, producer_id, to_offset
"""
"""Transactions that were open for long, by the marker that settled them, on so many partitions."""

_EXPECTED = f"{expiring_offsets('opened')} ORDER BY group_id, topic, partition"

_STALLS = """
SELECT group_id, topic, partition, p.log_partition, member_id, epoch_ms(owned_from) AS owned_from, p.from_offset,
    committed_offset, epoch_ms(valid_from) AS at, epoch_ms(least(valid_to, owned_to)) AS until,
    coalesce(epoch_ms(valid_to), $end) AS pause_until, coalesce(ended_by = 'COMMIT', false) AS is_over
FROM pauses AS p JOIN ownership AS o USING (group_id, topic, partition)
WHERE member_id = owner_member_id AND is_exact AND o.from_offset <= record_offset AND is_topic_over IS NOT TRUE
    AND coalesce(o.to_offset > record_offset, true)
    AND epoch_ms(least(valid_to, owned_to)) - epoch_ms(valid_from) >= $limit
"""
"""Pauses of a partition that its owner lived through, up to the next commit or the end of the ownership.

Where the next commit is of another topic of that name, the time between the two is no pause of either."""

_UNCOMMITTED = """
WITH commits AS (
    SELECT group_id, topic, partition, first_at FROM new_sums
    UNION ALL SELECT group_id, topic, partition, (sums->>'first_at')::BIGINT FROM sums WHERE what = $what
), firsts AS (
    SELECT group_id, topic, partition, min(first_at) AS first_at, bool_or(first_at IS NULL) AS is_untimed
    FROM commits GROUP BY ALL
)
SELECT group_id, topic, partition, member_id, log_partition, epoch_ms(owned_from) AS at,
    least(epoch_ms(owned_to), first_at) AS until
FROM ownership LEFT JOIN firsts USING (group_id, topic, partition)
WHERE is_exact AND topic IS NOT NULL AND NOT coalesce(is_untimed, false)
    AND coalesce(first_at > epoch_ms(owned_from), true)
    AND least(epoch_ms(owned_to), first_at) - epoch_ms(owned_from) >= $limit
"""
"""Long ownership of a partition before its first commit."""

_ENDANGERED = f"""
WITH periods AS (
    SELECT group_id, group_state, log_offset, rule, base_timestamp, spared_topics, log_timestamp AS begin_at,
        lead(log_offset) OVER later AS end_offset, lead(log_timestamp) OVER later AS end_at
    FROM rules WINDOW later AS (PARTITION BY group_id, log_partition ORDER BY log_offset)
), pieces AS (
    SELECT p.*, coalesce(group_state = 'Empty', false) AS is_empty,
        CASE WHEN expire_timestamp IS NULL THEN s.rule ELSE '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}' END AS rule,
        coalesce(epoch_ms(expire_timestamp), epoch_ms(coalesce(base_timestamp, commit_timestamp)) + $retention) AS ends,
        epoch_ms(greatest(valid_from, begin_at)) AS since, epoch_ms(least(valid_to, end_at)) AS until,
        coalesce(ended_by = 'EXPIRED', false) AND coalesce(end_offset >= to_offset, true) AS is_expired
    FROM pauses AS p JOIN periods AS s ON p.group_id = s.group_id
        AND coalesce(log_offset < to_offset, true) AND coalesce(end_offset > from_offset, true)
    WHERE s.rule <> '{ExpiryRule.NEVER_WHILE_ACTIVE}' AND NOT coalesce(list_contains(spared_topics, topic), false)
), past AS (
    SELECT 'EXPIRING' AS status, greatest(since, ends - $horizon) AS begin_ms, least(until, ends) AS until, *
        EXCLUDE (since, until) FROM pieces WHERE NOT is_expired AND (until IS NOT NULL OR ends <= $end)
    UNION ALL BY NAME
    SELECT 'DUE' AS status, greatest(since, ends) AS begin_ms, * EXCLUDE (since) FROM pieces WHERE NOT is_expired
    UNION ALL BY NAME
    SELECT '{ABANDONED}' AS status, epoch_ms(valid_from) AS begin_ms, * EXCLUDE (since) FROM pieces
    WHERE rule = '{ExpiryRule.UNSUBSCRIBED_TOPIC}' AND NOT is_empty AND until - epoch_ms(valid_from) >= $abandoned
)
SELECT group_id, topic, partition, log_partition, from_offset, status, rule, begin_ms AS since, until,
    CASE WHEN status = '{ABANDONED}' THEN begin_ms ELSE ends END AS at, NULL::BIGINT AS log_offset,
    CASE WHEN $is_known THEN 'certain' ELSE 'likely' END AS confidence,
    coalesce(ended_by = 'COMMIT', false) AS is_over
FROM past WHERE until > begin_ms
"""  # noqa: S608 - our own names
"""When offsets were to expire within the horizon, were past retention, or of a topic that no member subscribed to, and
what ended that: a commit, a tombstone (of those that expired, findings say so), or another rule of their group."""

_UNREADABLE = f"""
SELECT log_partition, error_class, count(*) AS records, min(epoch_ms(log_timestamp)) AS first_at,
    max(epoch_ms(log_timestamp)) AS last_at, min(log_offset) AS log_offset, min(error_message[:200]) AS error_message,
    coalesce(list_sort(list(DISTINCT group_id) FILTER (group_id IS NOT NULL)), []) AS groups
FROM quarantine
GROUP BY log_partition, error_class, CASE WHEN error_class = '{ErrorClass.UNKNOWN_RECORD_TYPE}' THEN error_message END
ORDER BY log_partition NULLS FIRST, error_class, error_message
"""  # noqa: S608 - our own names
"""What could not be read: of unknown kinds, each kind is a row of its own."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationContext:
    """Context for the evaluation of every bucket.

    Attributes:
        place: where rows go.
        end: timestamp of the last record of the log.
        sums: which commits the run has added up.
        limits: from when on something is a finding.
        retention: for how long offsets are kept.
        as_of: the time that expiry is evaluated at.
        horizon_ms: how far ahead of it offsets that expire are looked for.
        news: what makes a finding new.
    """

    place: Place
    end: datetime
    sums: SumsRange
    limits: Thresholds
    retention: Retention
    as_of: datetime
    horizon_ms: int
    news: News

    def evaluator(self, group_id: str, commits: Sum | None = None, spans: Sequence[ExactSpan] = ()) -> Evaluator:
        """Return the rules for a group, with the sum of its commits."""
        return Evaluator(self.place.cluster, group_id, milliseconds(self.end), self.limits, commits, spans)


@dataclass(slots=True)
class EvaluationResult:
    """Result of the evaluation of a bucket.

    Attributes:
        files: what was written: tables' files and staged ones.
        severities: how many findings have each severity.
        new: how many of these are new.
        causes: how many rebalances of the tables have each cause.
        expired: how many offsets expired, are past retention, or expire within the horizon, by status.
        failed: groups that could not be evaluated.
    """

    files: list[DataFile] = field(default_factory=list)
    severities: Counter[str] = field(default_factory=Counter)
    new: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)


def text_counts(batches: Iterable[pa.RecordBatch | pa.Table], column: str) -> Counter[str]:
    """Return how often each text stands in a column; nulls are not counted."""
    counts: Counter[str] = Counter()
    for batch in batches:
        for count in pc.value_counts(batch.column(column).cast(pa.string())).to_pylist():
            if count["values"] is not None:
                counts[count["values"]] += count["counts"]
    return counts


def _schema(name: str) -> pa.Schema:
    """Return what is read of a table; moments are microseconds there."""
    columns = table(name).arrow_schema(_READ[name]).remove_metadata()
    return pa.schema(
        [column.with_type(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in columns]
    )


def _chunks(tables: Chunk) -> Iterator[Chunk]:
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


class Evaluation:
    """Evaluates one bucket.

    Args:
        files: the bucket, as far as the run has come.
        context: what every bucket is evaluated with.
    """

    def __init__(self, files: BucketFiles, context: EvaluationContext) -> None:
        self.files = files
        self.context = context
        self.writer = TableWriter(context.place, files.bucket)
        self.first_runs = context.news.first_runs()
        self.spans = exact_spans(files)
        self.result = EvaluationResult()

    def run(self) -> EvaluationResult:
        """Write what expires, findings, steps of the metrics and what commits come to."""
        expected = self._expected()
        for batch in expected.to_batches():
            self.writer.add(EXPIRED, batch, is_open=True)
        sources = self._sources(expected)
        self.result.expired = text_counts([sources[EXPIRED]], "status")
        self.result.causes = text_counts(
            read_paths(self.files.uris("rebalances"), ["cause"], dictionaries=["cause"]), "cause"
        )
        with few_collections():
            happened = [happened_rows(self._evaluate_chunk(chunk)) for chunk in _chunks(sources)]
        for steps in minute_steps(sources[EVIDENCE], pa.concat_tables(happened)).to_batches():
            self.writer.stage(STEP_ROWS, steps)
        self._evaluate_quarantine()
        self.result.files = self.writer.close()
        return self.result

    def _expected(self) -> pa.Table:
        """Return offsets that are past retention, or will be within the horizon.

        For a moment after the end of the log read, groups are taken to have stayed as they were.
        """
        uris = [file.path for file in self.files.staged.get(OPEN_ROWS, [])]
        opened = pa.Table.from_batches(read_paths(uris, STAGED.names), STAGED)
        retention, as_of = self.context.retention, self.context.as_of
        asked = {
            "retention_ms": retention.ms,
            "is_known": retention.is_known,
            "as_of": as_of,
            "limit": later(as_of, self.context.horizon_ms),
        }
        return select(_EXPECTED, asked, opened=opened)

    def _sources(self, expected: pa.Table) -> dict[str, pa.Table]:
        staged = {
            name: [*read_paths((file.path for file in self.files.staged.get(name, ())), None)]
            for name in (GROUP_SUMS, PARTITION_SUMS, REWIND_SUMS, LOSS_SUMS)
        }
        new = {name: pa.Table.from_batches(batches) for name, batches in staged.items() if batches}
        opened = self._intervals(OFFSETS, pc.field("to_offset").is_null())
        removed = self._intervals(REMOVED)
        totals, paused, ownership = self._totals(), self._pauses(opened, removed), self._rows(OWNERSHIP)
        return {
            EVIDENCE: self._table(EVIDENCE),
            **new,
            TOTALS: totals,
            STALLS: self._stalls(paused, ownership),
            ENDANGERED: self._endangered(paused),
            UNCOMMITTED: self._uncommitted(new.get(PARTITION_SUMS), totals, ownership),
            OFFSETS: rows_of(opened, _schema(OFFSETS)),
            PENDING: self._pending(),
            EXPIRED: pa.concat_tables([rows_of(expected.to_batches(), _schema(EXPIRED)), self._table(EXPIRED)]),
            REMOVED: rows_of(removed, _schema(REMOVED)),
        }

    def _table(self, name: str) -> pa.Table:
        return rows_of(read_paths(self.files.uris(name), _READ[name]), _schema(name))

    def _intervals(self, name: str, where: Any = None) -> list[pa.RecordBatch]:
        """Return what is read of rows of the history."""
        return [*read_paths(self.files.uris(name), [*PAUSE.names, "is_exact"], where)]

    def _totals(self) -> pa.Table:
        """Return what earlier runs added up, as far as this run has not added it up again."""
        kept = [GROUP.name] if self.context.sums.since is not None else []
        of_partitions = (PARTITION, REWIND, EMPTY_REWIND, POSITION_LOSS, PAST)
        kept += [] if self.files.is_rebuild else [summary.name for summary in of_partitions]
        where = pc.field("what").isin(pa.array(kept, pa.string()))
        uris = [file.uri for file in self.files.old(TOTALS)]
        return rows_of(read_paths(uris, _READ[TOTALS], where), _schema(TOTALS))

    def _pauses(self, opened: Iterable[pa.RecordBatch], removed: Iterable[pa.RecordBatch]) -> pa.Table:
        """Return offsets that no commit replaced for long: until this run did, until removed, or to this day."""
        limit, end = self.context.limits.pause_ms, self.context.end
        ended = read_paths((file.path for file in self.files.staged.get(PAUSES, ())), PAUSE.names)
        rows = [*ended, *(pauses(batch, limit, end) for batch in (*opened, *removed))]
        return pa.Table.from_batches([conform(batch, PAUSE) for batch in rows], PAUSE)

    def _stalls(self, paused: pa.Table, ownership: pa.Table) -> pa.Table:
        """Return pauses that an owner lived through while the group may have continued."""
        asked = {"limit": self.context.limits.stall_ms, "end": milliseconds(self.context.end)}
        return select(_STALLS, asked, pauses=paused, ownership=ownership)

    def _endangered(self, paused: pa.Table) -> pa.Table:
        """Return offsets that were to expire, or whose topic was left, and no longer are."""
        asked = {
            "end": milliseconds(self.context.end),
            "retention": self.context.retention.ms,
            "is_known": self.context.retention.is_known,
            "horizon": self.context.horizon_ms,
            "abandoned": self.context.limits.abandoned_ms,
        }
        return select(_ENDANGERED, asked, pauses=paused, rules=self._rows(RULES))

    def _uncommitted(self, new: pa.Table | None, totals: pa.Table, ownership: pa.Table) -> pa.Table:
        """Return partitions that had an owner for long before their first commit."""
        asked = {"limit": self.context.limits.never_committed_ms, "what": PARTITION.name}
        sums = _NO_SUMS if new is None else new.select(_NO_SUMS.column_names)
        return select(_UNCOMMITTED, asked, new_sums=sums, sums=totals, ownership=ownership)

    def _pending(self) -> pa.Table:
        """Return transactions of which commits waited long.

        A commit that a later commit of its transaction replaced does not count.
        """
        asked = {"end": milliseconds(self.context.end), "limit": self.context.limits.pending_ms}
        return select(LONG_PENDING, asked, pending=self._rows(PENDING))

    def _rows(self, name: str) -> pa.Table:
        """Return a table's rows of the bucket."""
        schema = table(name).arrow_schema(_READ[name]).remove_metadata()
        return rows_of(read_paths(self.files.uris(name), schema.names), schema)

    def _evaluate_chunk(self, chunk: Chunk) -> Iterator[tuple[str, int, str]]:
        """Let the rules look at whole groups; yields what happened to them, in HAPPENED."""
        kept: list[tuple[str | int | None, ...]] = []
        for group_id, evidence in _by_group(chunk).items():
            totals = evidence.totals(self.context.limits)
            removed = list(evidence.tombstones())
            yield from ((group_id, at_ms, counter) for at_ms, counter in removed)
            if (first_at := totals.first_at()) is not None:
                yield group_id, first_at, BEGAN
                if removed and not evidence.rows[OFFSETS]:
                    yield group_id, max(at_ms for at_ms, _ in removed), ENDED
            rebalances = self._evaluate_group(group_id, evidence, totals)
            yield from ((group_id, at_ms, "rebalance_count") for at_ms in rebalances)
            for what, key, sums in totals.kept():
                kept.append((group_id, what, *((None, None) if key == WHOLE else key), encode(sums)))
        self._keep(kept)

    def _evaluate_group(self, group_id: str, evidence: GroupEvidence, totals: Totals) -> list[int]:
        """Let the rules look at a group; returns when each of its rebalances was, in milliseconds."""
        guard, rebalances, is_replayed = GroupGuard("evaluating findings"), list[int](), True
        findings: list[FindingRow] = []
        with guard:
            evaluator = self.context.evaluator(group_id, totals.every[GROUP.name].get(WHOLE), self.spans)
            for row in evidence.ordered(totals):
                is_replayed &= row.tag != Evidence.FAILURE
                # What has no time happened in no minute.
                if row.tag == Evidence.REBALANCE and row.content["is_over"] and row.content["at"] is not None:
                    rebalances.append(row.at)
                findings += evaluator.add(row.tag, row.content)
            findings += evaluator.finish()
        if findings:
            self._find(findings)
        if guard.failure is not None:
            self._find(self.context.evaluator(group_id).add(Evidence.FAILURE, guard.failure._asdict()))
        if guard.failure is not None or not is_replayed:
            self.result.failed.append(group_id)
        return rebalances

    def _evaluate_quarantine(self) -> None:
        """Write findings about what could not be read, by log partition and what was wrong."""
        unreadable = select(_UNREADABLE, {}, quarantine=self._rows(QUARANTINE))
        evaluator = self.context.evaluator("")
        for row in unreadable.to_pylist():
            is_unknown = row["error_class"] == ErrorClass.UNKNOWN_RECORD_TYPE
            self._find(evaluator.add(Evidence.UNKNOWN_KIND if is_unknown else Evidence.UNREADABLE, row))

    def _find(self, findings: Iterable[FindingRow]) -> None:
        dated = self.context.news.dated(findings, self.first_runs)
        self.result.new += self.context.news.count(dated)
        self.result.severities.update(finding["severity"] for finding in dated)
        self.writer.add_rows(FINDINGS, dated)

    def _keep(self, totals: Sequence[tuple[str | int | None, ...]]) -> None:
        """Keep totals of groups for the next run: rows in what is read of them."""
        if totals:
            schema = table(TOTALS).arrow_schema([*_READ[TOTALS], "until"])
            rows = pa.RecordBatch.from_arrays([*map(pa.array, zip(*totals, strict=True))], _READ[TOTALS])
            self.writer.add(TOTALS, conform(rows, schema, until=self.context.sums.until))


def _by_group(chunk: Chunk) -> dict[str, GroupEvidence]:
    """Return the rows of a chunk by group; states are looked at as columns."""
    groups = defaultdict[str, GroupEvidence](GroupEvidence)
    for name, every in chunk.items():
        rows = every
        if name == EVIDENCE:
            rows = every.filter(pc.not_equal(every.column("tag"), int(Evidence.STATE)))
            for group_id in pc.unique(every.column("group_id")).to_pylist():
                groups.setdefault(group_id, GroupEvidence())
        by_group = defaultdict[str, list[Row]](list)
        for row in rows.to_pylist():
            by_group[row.pop("group_id")].append(row)
        for group_id, some in by_group.items():
            groups[group_id].rows[name] = some
    return groups


def evaluate_bucket(files: BucketFiles, context: EvaluationContext) -> EvaluationResult:
    """Evaluate a bucket, see ``Evaluation``."""
    return Evaluation(files, context).run()
