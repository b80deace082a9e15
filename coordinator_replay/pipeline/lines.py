"""A dump as JSON lines without Spark (``decode``): for a quick look at a segment file, and for other programs.

Each line has the columns of ``offset_commits``, ``group_records`` or ``quarantine``, and the kind of the record.
Control records get a line, too. Subscriptions and assignments of classic members are shown as bytes and decoded. Lines
are in the order of the file.
"""

import json
from collections.abc import Iterator, Sequence
from io import BufferedReader

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coordinator_replay.errors import UsageError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.log.dump import Dump, DumpFile
from coordinator_replay.log.dump_format import Format
from coordinator_replay.log.reading import BATCH_BYTES, bounded, read_file
from coordinator_replay.pipeline.read.envelopes import KAFKA_ROW, LINES, check_kafka_columns, kafka_rows, log_records
from coordinator_replay.records.blobs import KINDS_WITH_BLOBS, open_blobs
from coordinator_replay.records.columnar import Rows
from coordinator_replay.records.decoder import decode_records
from coordinator_replay.records.json_rows import render_rows
from coordinator_replay.secret_text import without_secrets

OFFSET_COMMIT = "OffsetCommit"
CONTROL_RECORD = "ControlRecord"
"""Kind of control records, whose table has no column ``kind``."""

_POSITION = ["log_partition", "log_offset", "log_timestamp"]
_PRODUCER = ["producer_id", "producer_epoch", "is_transactional"]
_BATCH_ROWS = 20_000
_LONGEST_LINE = 64 << 20
"""No record of the topic makes a longer line in base64; a longer line is cut and quarantined."""


def _joined(records: pa.RecordBatch, names: Sequence[str], rows: Rows, decoded: pa.RecordBatch) -> pa.StringArray:
    taken = records.select(names).take(pa.array(rows))
    columns, fields = [*taken.columns, *decoded.columns], [*taken.schema, *decoded.schema]
    return render_rows(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))


def _same(text: str, count: int) -> pa.StringArray:
    return pa.array([text] * count, pa.string())


def _with_opened_blobs(groups: pa.RecordBatch) -> pa.RecordBatch:
    """Return group records with the decoded subscriptions and assignments of classic members, see ``open_blobs``."""
    place = groups.schema.get_field_index("value_json")
    values, kinds = groups.column(place), groups.column("kind")
    wanted = pc.and_(pc.is_in(kinds, pa.array(KINDS_WITH_BLOBS, kinds.type)), pc.is_valid(values))
    if not pc.any(wanted).as_py():
        return groups
    texts = [
        json.dumps(open_blobs(kind.as_py(), json.loads(value.as_py())), ensure_ascii=False, separators=(",", ":"))
        for kind, value in zip(kinds.filter(wanted), values.filter(wanted), strict=True)
    ]
    opened = pc.replace_with_mask(values, wanted, pa.array(texts, values.type))
    return groups.set_column(place, groups.schema.field(place), opened)


def decode_lines(records: pa.RecordBatch) -> pa.StringArray:
    """Return one JSON object for each row of a batch of log records, in their order.

    Args:
        records: a batch in ``LOG_RECORD``.
    """
    decoded = decode_records(records)
    commits = decoded.commits.append_column("kind", _same(OFFSET_COMMIT, decoded.commits.num_rows))
    parts = [
        (decoded.commit_rows, [*_POSITION, *_PRODUCER], commits),
        (decoded.group_rows, [*_POSITION, *_PRODUCER], _with_opened_blobs(decoded.groups)),
        (decoded.quarantine_rows, [*_POSITION, "source", "source_position"], decoded.quarantine),
        (
            decoded.control_rows,
            [*_POSITION, *_PRODUCER, "control_type"],
            pa.RecordBatch.from_arrays([_same(CONTROL_RECORD, len(decoded.control_rows))], ["kind"]),
        ),
    ]
    present = [part for part in parts if len(part[0])]
    if not present:
        return pa.array([], pa.string())
    lines = pa.concat_arrays([_joined(records, names, rows, columns) for rows, names, columns in present])
    return lines.take(pa.array(np.argsort(np.concatenate([rows for rows, _, _ in present]))))


def _segment(file: DumpFile, notes: list[str]) -> Iterator[pa.RecordBatch]:
    for part in read_file(file):
        notes += [f"{without_secrets(file.uri)}: {note}" for note in part.notes]
        yield from bounded(part.records)


def _parquet(path: str) -> Iterator[pa.RecordBatch]:
    filesystem, inner = open_filesystem(path)
    with pq.ParquetFile(inner, filesystem=filesystem) as file:
        # A column written by Arrow may be read as a dictionary.
        columns = {field.name: str(getattr(field.type, "value_type", field.type)) for field in file.schema_arrow}
        check_kafka_columns(columns, without_secrets(path))
        for batch in file.iter_batches(_BATCH_ROWS, columns=[name for name in KAFKA_ROW if name in columns]):
            yield from bounded(kafka_rows(batch))


def _json_lines(path: str) -> Iterator[pa.RecordBatch]:
    filesystem, inner = open_filesystem(path)
    source = without_secrets(path)
    waiting: list[bytes] = []
    size = 0
    with filesystem.open_input_stream(inner) as stream:
        # A text layer would also split at characters that are allowed inside JSON strings.
        lines = BufferedReader(stream)
        while line := lines.readline(_LONGEST_LINE):
            waiting.append(line.removesuffix(b"\n"))
            size += len(line)
            if len(waiting) == _BATCH_ROWS or size >= BATCH_BYTES:
                yield _records_of(waiting, source)
                waiting, size = [], 0
    yield _records_of(waiting, source)


def _records_of(lines: list[bytes], source: str) -> pa.RecordBatch:
    return log_records(
        pa.RecordBatch.from_arrays([pa.array(lines, pa.binary()), pa.repeat(source, len(lines))], schema=LINES)
    )


def read_without_spark(dump: Dump, notes: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the records of a dump in batches of ``LOG_RECORD``, file by file.

    Args:
        dump: the dump.
        notes: a list to which the reader adds notes on the files.

    Raises:
        InputError: a file does not have the format of the dump.
        UsageError: the dump is a Delta table.
    """
    if dump.format is Format.SEGMENTS:
        for file in dump.segments:
            yield from _segment(file, notes)
    elif dump.format is Format.DELTA:
        raise UsageError("decode reads files; for a Delta table use audit, or decode_record() in Spark SQL")
    else:
        for path in dump.paths:
            yield from (_parquet if dump.format is Format.PARQUET else _json_lines)(path)
