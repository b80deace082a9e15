"""Audits whose stages run in this process, share after share: the very functions that Spark runs, without a JVM."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from coordinator_replay.log.dump import Dump
from coordinator_replay.pipeline.audit import Options, Summary
from coordinator_replay.pipeline.audit import audit as run
from coordinator_replay.pipeline.read.envelopes import kafka_rows
from coordinator_replay.pipeline.stage import Observer, result_row, results_of
from coordinator_replay.pipeline.typed_json import share_json
from coordinator_replay.store.layout import LEDGER
from coordinator_replay.store.opening import delta_uri
from coordinator_replay.store.warehouse import Store
from coordinator_replay.tables.definition import tables
from tests.log.batch_spans import walk_batches

FEW_BUCKETS = 2
"""An audit into so many costs a third less than into the usual number, which audits by Spark and the program have."""

VOLATILE = {
    "audit_runs": None,
    "group_state": ("run_id",),
    "commit_totals": None,
    "log_copies": None,
    "findings": ("found_in_run",),
    "log_partitions": ("anchors",),
}
"""What two histories of runs may leave in different forms: whole tables (None), or columns."""


def exported(dump: Dump) -> list[pa.RecordBatch]:
    """The records of an export in Parquet, as Spark's tasks make them."""
    paths = [Path(path) for path in dump.paths]
    files = [file for path in paths for file in (sorted(path.rglob("*.parquet")) if path.is_dir() else [path])]
    return [kafka_rows(batch) for file in files for batch in pq.read_table(file).combine_chunks().to_batches()]


@dataclass(frozen=True)
class InProcess:
    """Runs the stages of an audit here, share after share."""

    observers: tuple[Observer, ...] = field(default=(), kw_only=True)
    is_local = True

    def observed_by(self, observer: Observer) -> "InProcess":
        return replace(self, observers=(*self.observers, observer))

    def run(
        self, name: str, shares: Sequence[Any], stage: Callable[[Any], Any], _size: Callable[[Any], int] | None = None
    ) -> list[Any]:
        texts = [share_json(stage).text(share) for share in shares]
        rows = [result_row(rank, text, stage) for rank, text in enumerate(texts)]
        return results_of(name, rows, stage, self.observers)

    run_on_files = run

    def run_on_rows(self, name: str, dump: Dump, stage: Callable[[Iterator[pa.RecordBatch]], Any]) -> list[Any]:
        return [stage(iter(exported(dump)))]


def audit_here(warehouse: Path | str, *dumps: Path | str, **options: Any) -> Summary:
    """Audit dumps into a warehouse: a new one has few buckets unless `options` name a number, or None for the usual."""
    is_new = Store(str(warehouse)).snapshot(LEDGER) is None
    named = {"buckets": FEW_BUCKETS if is_new else None, **options}
    return run(InProcess(), Options(inputs=[str(dump) for dump in dumps], warehouse=str(warehouse), **named))


@pytest.fixture
def audit() -> Callable[..., Summary]:
    """Audits dumps into a warehouse."""
    return audit_here


def content(warehouse: Path | str, name: str, cluster: str = "default") -> list[str]:
    """The rows of a table, sorted, without what differs from run to run."""
    hidden = VOLATILE.get(name, ())
    if hidden is None:
        return []
    rows = DeltaTable(delta_uri(f"{warehouse}/{name}")).to_pyarrow_table().drop_columns(list(hidden)).to_pylist()
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows if row["cluster"] == cluster)


def contents(warehouse: Path | str) -> dict[str, list[str]]:
    """The rows of all tables."""
    return {name: content(warehouse, name) for name in tables()}


def cut(segments: str, into: Sequence[Path], marks: Callable[[int], list[int]] | None = None) -> None:
    """Cut each segment at batch boundaries into as many files as there are folders.

    Args:
        segments: the dump.
        into: the folders.
        marks: from the number of batches of a segment to the batch that each part begins with; even if None.
    """
    for file in Path(segments).rglob("*.log"):
        raw = file.read_bytes()
        starts = [(int(p), int(o)) for s in walk_batches(raw) for p, o in zip(s.positions, s.base_offsets, strict=True)]
        if not starts:
            continue
        chosen = marks(len(starts)) if marks else [len(starts) * part // len(into) for part in range(len(into))]
        for first, end, folder in zip(chosen, [*chosen[1:], len(starts)], into, strict=True):
            if first < end:
                place = folder / file.parent.name
                place.mkdir(parents=True, exist_ok=True)
                stop = starts[end][0] if end < len(starts) else len(raw)
                (place / f"{starts[first][1]:020d}.log").write_bytes(raw[starts[first][0] : stop])
