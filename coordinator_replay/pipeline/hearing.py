"""All that is known of some groups, shown to the rules group by group, and counted by the minute on the way."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.judge import FINDINGS, Found, Judge
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.analysis.findings.totals import (
    GROUP,
    PARTITION,
    REWIND,
    SUMMARIES,
    WHOLE,
    Key,
    Sum,
    Totals,
    rewind,
)
from coordinator_replay.pipeline.commit_sums import GROUP_PART, GROUPS, PARTITION_PART, PARTITIONS, REWIND_PART, REWINDS
from coordinator_replay.pipeline.commit_totals import TABLE as TOTALS
from coordinator_replay.pipeline.data_files import WRITTEN, WRITTEN_SCHEMA, DataFile, DataFiles, Part, file_of
from coordinator_replay.pipeline.group_metrics import Happened, minute_steps
from coordinator_replay.pipeline.group_rows import Batches, Chunk
from coordinator_replay.pipeline.json_text import encode
from coordinator_replay.pipeline.minute_states import STATES, MinuteStates

STEP_PART = "steps"

EVIDENCE, PENDING, EXPIRED, CAUSES, HELD = "evidence", "pending", "expired", "causes", "held"

_PARTITION = [("topic", pa.string()), ("partition", pa.int32())]
SCHEMAS = {
    EVIDENCE: pa.schema([*STATES, ("told", pa.string())]),
    GROUP_PART: GROUPS,
    PARTITION_PART: PARTITIONS,
    REWIND_PART: REWINDS,
    TOTALS: pa.schema([("group_id", pa.string()), ("what", pa.string()), *_PARTITION, ("told", pa.string())]),
    HELD: pa.schema([("group_id", pa.string()), *_PARTITION]),
    PENDING: pa.schema(
        [
            ("group_id", pa.string()),
            ("topic", pa.string()),
            ("log_partition", pa.int32()),
            ("producer_id", pa.int64()),
            ("producer_epoch", pa.int32()),
            ("from_offset", pa.int64()),
            ("to_offset", pa.int64()),
            ("ended_by", pa.string()),
            ("pending_since", pa.int64()),
            ("settled_at", pa.int64()),
        ]
    ),
    EXPIRED: pa.schema(
        [
            ("group_id", pa.string()),
            *_PARTITION,
            ("status", pa.string()),
            ("rule", pa.string()),
            ("confidence", pa.string()),
            ("last_consumed_by", pa.string()),
            ("tombstone_at", pa.int64()),
            ("tombstone_offset", pa.int64()),
            ("expire_at", pa.int64()),
        ]
    ),
    CAUSES: pa.schema([("group_id", pa.string()), ("ended_by", pa.string()), ("tombstone_at", pa.int64())]),
}
"""What is read about groups, by source: their own evidence, what commits come to (new sums and those of earlier runs),
the offsets that hold, long transactions, what retention takes, and what each tombstone was."""

HEARD = f"{WRITTEN}, severity STRING"
"""What a task tells: a row for each file that it wrote, and one for each severity with how many findings have it."""

_HEARD_SCHEMA = pa.schema([*WRITTEN_SCHEMA, ("severity", pa.string())])
_CHUNK_ROWS = 10_000
_INTO_EMPTY = "empty_"

Row = dict[str, Any]


class Shown(NamedTuple):
    """A row of evidence; they sort as a judge takes them."""

    tag: int
    at: int
    name: str
    seq: int
    told: Row


@dataclass(slots=True)
class _Known:
    """Rows about one group, by source."""

    rows: defaultdict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def totals(self) -> Totals:
        """What its commits come to."""
        totals = Totals()
        for row in self.rows[GROUP_PART]:
            totals.add(GROUP, WHOLE, row, is_over=row.pop("is_over"))
        for row in self.rows[PARTITION_PART]:
            totals.add(PARTITION, _key(row), row, is_over=row.pop("is_over"))
        for row in self.rows[REWIND_PART]:
            totals.add(REWIND, _key(row), rewind(row), is_over=row["is_over"])
        for row in self.rows[TOTALS]:
            key = WHOLE if row["topic"] is None else _key(row)
            totals.add(SUMMARIES[row["what"]], key, orjson.loads(row["told"]), is_over=True)
        return totals

    def evidence(self, totals: Totals) -> list[Shown]:
        """All evidence about it, in order."""
        shown = [
            Shown(row["tag"], row["at"], row["name"], row["seq"], orjson.loads(row["told"]))
            for row in self.rows[EVIDENCE]
        ]
        shown += (Shown(Evidence.HAPPENING, 0, "commits", 0, told) for told in totals.every[GROUP.name].values())
        held = {_key(row) for row in self.rows[HELD]}
        for key, told in totals.every[PARTITION.name].items():
            shown.append(Shown(Evidence.OFFSETS, 0, key[0], key[1], _of_partition(told, key, is_held=key in held)))
        for key, told in totals.every[REWIND.name].items():
            shown.append(Shown(Evidence.REWIND, 0, key[0], key[1], {**told, "topic": key[0], "partition": key[1]}))
        shown += (Shown(Evidence.PENDING, row["from_offset"], "", 0, row) for row in self.rows[PENDING])
        shown += (Shown(Evidence.EXPIRY, told["at"], told["topic"], told["at"], told) for told in self.expiries())
        return sorted(shown, key=lambda one: one[:4])

    def expiries(self) -> Iterator[Row]:
        """What retention took or takes of partitions that ever had an owner."""
        for row in self.rows[EXPIRED]:
            at = row["expire_at"] if row["tombstone_at"] is None else row["tombstone_at"]
            if row["last_consumed_by"] is not None and at is not None:
                yield {**row, "at": at // 1000, "log_offset": row["tombstone_offset"]}

    def tombstones(self) -> Iterator[tuple[int, str]]:
        """When each of its tombstones was written, in milliseconds, and what that counts as."""
        for row in self.rows[CAUSES]:
            if row["tombstone_at"] is not None:
                counter = "expired_offsets" if row["ended_by"] == "EXPIRED" else "deleted_offsets"
                yield row["tombstone_at"] // 1000, counter


def _key(row: Row) -> Key:
    """Which partition a row is about; what else it says is of it."""
    return row.pop("topic"), row.pop("partition")


def _of_partition(told: Sum, key: Key, *, is_held: bool) -> Row:
    """What the history of a partition comes to, as evidence."""
    inner = {name.removeprefix(_INTO_EMPTY): value for name, value in told.items() if name.startswith(_INTO_EMPTY)}
    return {**told, "topic": key[0], "partition": key[1], "is_held": is_held, "into_empty": inner}


@dataclass(frozen=True, slots=True, kw_only=True)
class Court:
    """What every group is judged by.

    Attributes:
        cluster: the cluster's name.
        end_ms: the end of the log.
        until: the moment before which what commits come to is kept for the next run.
        limits: from when on something is a finding.
    """

    cluster: str
    end_ms: int
    until: datetime
    limits: Thresholds

    def judge(self, group_id: str) -> Judge:
        """Who judges a group."""
        return Judge(self.cluster, group_id, self.end_ms, self.limits)


class _Hearing:
    """Hears the groups of one task; keeps what is not written yet."""

    def __init__(self, court: Court, parts: dict[str, Part]) -> None:
        self.court = court
        self.until_ms = round(court.until.timestamp() * 1000)
        self.files = DataFiles(parts)
        self.rows: dict[str, list[Found]] = {FINDINGS: [], TOTALS: []}
        self.severities = Counter[str]()

    def keep(self, name: str, row: Found) -> None:
        rows = self.rows[name]
        rows.append(row)
        if len(rows) >= _CHUNK_ROWS:
            self.write(name)

    def write(self, name: str) -> None:
        rows, self.rows[name] = self.rows[name], []
        self.files.add_rows(name, rows)

    def hear(self, chunk: Chunk) -> None:
        """Judge whole groups, and count what happened to them."""
        groups = _by_group(chunk)
        ids = list(groups)
        states = MinuteStates(pa.array(ids, pa.string()), chunk[EVIDENCE])
        happened, begun, ended = Happened(), dict[int, int](), dict[int, int]()
        for place, (group_id, known) in enumerate(groups.items()):
            totals = known.totals()
            first_at = totals.first_at()
            if first_at is not None:
                begun[place] = first_at
            for at_ms, counter in known.tombstones():
                happened.count(place, at_ms, counter)
                if not known.rows[HELD]:
                    ended[place] = max(at_ms, ended.get(place, at_ms))
            evidence = known.evidence(totals)
            for shown in evidence:
                if shown.tag == Evidence.HAPPENING and shown.told.get("is_over") is True:
                    happened.count(place, shown.at, "rebalance_count")
            if evidence:
                self.judge(group_id, evidence)
            self.keep_totals(group_id, totals)
        self.files.add(STEP_PART, minute_steps(states, happened, begun=begun, ended=ended))

    def judge(self, group_id: str, evidence: Sequence[Shown]) -> None:
        judge = self.court.judge(group_id)
        for shown in evidence:
            for found in judge.take(Evidence(shown.tag), shown.told):
                self.find(found)
        for found in judge.finish():
            self.find(found)

    def find(self, found: Found) -> None:
        self.severities[found["severity"]] += 1
        self.keep(FINDINGS, found)

    def keep_totals(self, group_id: str, totals: Totals) -> None:
        for what, key, told in totals.kept():
            topic, partition = (None, None) if key == WHOLE else key
            place = {"group_id": group_id, "topic": topic, "partition": partition}
            row = {"cluster": self.court.cluster, "what": what, "until": self.until_ms, "told": encode(told)}
            self.keep(TOTALS, row | place)


def _by_group(chunk: Chunk) -> dict[str, _Known]:
    """The rows of a chunk by group; states are looked at as columns."""
    groups = defaultdict[str, _Known](_Known)
    for name, table in chunk.items():
        told = table
        if name == EVIDENCE:
            told = table.filter(pc.not_equal(table.column("tag"), int(Evidence.STATE)))
            for group_id in pc.unique(table.column("group_id")).to_pylist():
                groups.setdefault(group_id, _Known())
        for row in told.to_pylist():
            groups[row.pop("group_id")].rows[name].append(row)
    return groups


def hear(chunks: Iterator[Chunk], court: Court, parts: dict[str, Part]) -> Batches:
    """Judge groups, and count what happened to them.

    Args:
        chunks: whole groups, in SCHEMAS.
        court: what they are judged by.
        parts: where findings go, the rows of ``commit_totals``, and steps: FINDINGS, TOTALS, STEP_PART.

    Returns:
        rows in HEARD.
    """
    hearing = _Hearing(court, parts)
    for chunk in chunks:
        hearing.hear(chunk)
    for name in hearing.rows:
        hearing.write(name)
    told = [{"severity": severity, "rows": count} for severity, count in hearing.severities.items()]
    rows = [*map(asdict, hearing.files.close()), *told]
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=_HEARD_SCHEMA)


class Heard(NamedTuple):
    """What hearings came to.

    Attributes:
        files: what was written, by part.
        severities: how many findings have each severity.
    """

    files: dict[str, list[DataFile]]
    severities: Counter[str]


def heard(told: DataFrame) -> Heard:
    """Let tasks hear their groups: an action.

    Args:
        told: rows in HEARD.
    """
    outcome = Heard({}, Counter())
    for row in told.collect():
        if row["part"] is None:
            outcome.severities[row["severity"]] += row["rows"]
        else:
            outcome.files.setdefault(row["part"], []).append(file_of(row))
    return outcome
