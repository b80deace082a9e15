"""Logs made of a few words: staged rows as decoding gives them, and audits that begin there."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coordinator_replay.log.dump import Dump
from coordinator_replay.log.dump_format import Format
from coordinator_replay.pipeline.audit import Options, Summary, audit
from coordinator_replay.pipeline.read.decode import STAGED, DecodedFile, StagedFile
from coordinator_replay.pipeline.read.tally import COMMIT, CONTROL, RECORD, audited_in
from coordinator_replay.store.layout import bucket_of
from coordinator_replay.store.writer import FileWriter, staged_part
from tests.pipeline.in_process import InProcess

START = datetime(2026, 11, 21, tzinfo=UTC)

Row = tuple[str, dict[str, Any]]
"""What a staged row is, and the row."""


def moment(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def ms(seconds: float) -> int:
    return round(moment(seconds).timestamp() * 1000)


def _row(what: str, position: tuple[int, int], seconds: float, producer: int | None = None, **more: Any) -> Row:
    log_partition, log_offset = position
    row = dict.fromkeys(STAGED[what].names)
    row.update(
        log_partition=log_partition,
        log_offset=log_offset,
        log_timestamp=moment(seconds),
        producer_id=-1 if producer is None else producer,
        producer_epoch=-1 if producer is None else 0,
        is_transactional=producer is not None,
        missing_before=0,
        **more,
    )
    return what, row


def commit(
    position: tuple[int, int],
    seconds: float,
    key: tuple[str, str, int],
    committed: int | None = None,
    producer: int | None = None,
    expire: float | None = None,
) -> Row:
    """A commit, or with ``committed`` None its tombstone; the key is group, topic, partition."""
    group, topic, partition = key
    is_tombstone = committed is None
    return _row(
        COMMIT,
        position,
        seconds,
        producer,
        group_id=group,
        key_version=1,
        value_version=None if is_tombstone else 4,
        is_tombstone=is_tombstone,
        record_bytes=50,
        topic=topic,
        partition=partition,
        committed_offset=committed,
        metadata=None if is_tombstone else "",
        commit_timestamp=None if is_tombstone else moment(seconds),
        expire_timestamp=None if expire is None else moment(expire),
    )


def marker(position: tuple[int, int], seconds: float, producer: int, control: str) -> Row:
    return _row(CONTROL, position, seconds, producer, control_type=control)


def group_record(
    position: tuple[int, int], seconds: float, kind: str, key: dict[str, Any], value: dict[str, Any] | None
) -> Row:
    return _row(
        RECORD,
        position,
        seconds,
        group_id=key.get("group", key.get("groupId")),
        key_version=2,
        value_version=None if value is None else 0,
        is_tombstone=value is None,
        record_bytes=50,
        kind=kind,
        member_id=key.get("memberId"),
        key_json=json.dumps(key),
        value_json=None if value is None else json.dumps(value),
    )


def emptied(position: tuple[int, int], seconds: float, group: str) -> Row:
    """The record of a classic group whose last member is gone."""
    value = {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": None,
        "leader": None,
        "currentStateTimestamp": ms(seconds),
        "members": [],
    }
    return group_record(position, seconds, "GroupMetadata", {"group": group}, value)


def stage(rows: Iterable[Row], folder: Path, buckets: int, known: Any) -> DecodedFile:
    """What decoding a dump of these rows would come to."""
    done, writer = DecodedFile(), FileWriter()
    kinds: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for what, row in rows:
        kinds[what, bucket_of(row["log_partition"], buckets)].append(row)
    for (what, bucket), mine in kinds.items():
        batch = pa.RecordBatch.from_pylist(mine, schema=STAGED[what])
        done.tally.add(what, batch, audited_in(known))
        writer.add(staged_part(f"{what}-{bucket}", str(folder / what), STAGED[what]), batch)
    done.files = [
        StagedFile(file.part.rsplit("-", 1)[0], int(file.part.rsplit("-", 1)[1]), file) for file in writer.close()
    ]
    return done


@dataclass(frozen=True, kw_only=True)
class _Staged(InProcess):
    """Stages of an audit of rows that are decoded already."""

    rows: Iterable[Row]
    folder: Path

    def run_on_rows(self, _name: str, _dump: Dump, decode: Any) -> list[Any]:
        return [stage(self.rows, self.folder, decode.keywords["buckets"], decode.keywords["audited"])]


def auditor_of_rows(folder: Path) -> Callable[..., Summary]:
    """Return a function that audits a log of staged rows into a warehouse, with its staged files in a folder."""
    counter = iter(range(1000))

    def run(warehouse: Path | str, rows: Iterable[Row], **options: Any) -> Summary:
        chosen = Options(inputs=["rows"], warehouse=str(warehouse), **options)
        return audit(_Staged(rows=rows, folder=folder / f"staged-{next(counter)}"), chosen, dump=Dump(Format.PARQUET))

    return run


@pytest.fixture
def audit_rows(tmp_path: Path) -> Callable[..., Summary]:
    """Audits logs of staged rows into a warehouse."""
    return auditor_of_rows(tmp_path)
