"""Rows of messages (magic 0 and 1)."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from coordinator_replay.log.coverage import SegmentCoverage, SkipRanges
from coordinator_replay.log.layout import HeaderField
from coordinator_replay.log.message_set import Message, MessageError, read_messages
from coordinator_replay.log.rows import Damage, Records, SegmentRows, in_file_order
from coordinator_replay.log.walk import EntryRun

MOST_MESSAGES = 1 << 15
"""Number of messages after which the collected rows are yielded."""
MOST_PLAIN_BYTES = 32 << 20
"""Limit of a wrapper's plain bytes. The limit of a batch is higher: messages are kept as Python objects, which take
many times their size."""


class Messages:
    """A reader of the messages of one file. It takes many consecutive messages at a time (``EntryRun``)."""

    def __init__(
        self, rows: SegmentRows, tally: SegmentCoverage, skip: SkipRanges, *, part_bytes: int, max_plain_bytes: int
    ) -> None:
        self._rows = rows
        self._tally = tally
        self._skip = skip
        self._part_bytes = part_bytes
        self._max_plain_bytes = min(max_plain_bytes, MOST_PLAIN_BYTES)

    def read(self, run: EntryRun) -> Iterator[pa.RecordBatch]:
        """Yield the rows of consecutive entries: their messages, and a row for each entry that can't be read.

        Entries that earlier audits have read are counted, but yield no rows.
        """
        part = _Part()
        for index in range(run.headers.shape[1]):
            self._read_entry(run, index, part)
            if len(part.messages) >= MOST_MESSAGES or part.bytes >= self._part_bytes:
                yield from self._close(run, part)
                part = _Part()
        yield from self._close(run, part)

    def _read_entry(self, run: EntryRun, index: int, part: "_Part") -> None:
        start, size = int(run.headers[HeaderField.POSITION, index]), int(run.headers[HeaderField.SIZE, index])
        entry = run.window.view[start : start + size]
        try:
            messages = read_messages(entry, self._max_plain_bytes)
        except MessageError as error:
            self._tally.damaged += 1
            part.damages.append(
                Damage(
                    error_class=error.error_class,
                    message=str(error),
                    position=start + run.window.position,
                    size=size,
                    offset=int(run.headers[HeaderField.OFFSET, index]),
                    head=bytes(entry),
                )
            )
            return
        firsts, lasts = np.array([messages[0].offset]), np.array([messages[-1].offset])
        self._tally.see(firsts, lasts, np.array([start + run.window.position]))
        if self._skip.cover(firsts, lasts)[0]:
            self._tally.skipped += len(messages)
            return
        part.entries.append(index)
        part.counts.append(len(messages))
        part.skipped_before.append(self._tally.skipped)
        part.messages += messages
        part.bytes += sum(len(message.key or b"") + len(message.value or b"") for message in messages)

    def _close(self, run: EntryRun, part: "_Part") -> Iterator[pa.RecordBatch]:
        parts = [self._records(run, part)] if part.messages else []
        if part.damages:
            parts.append(self._rows.damage(part.damages))
        if parts:
            yield in_file_order(parts)

    def _records(self, run: EntryRun, part: "_Part") -> pa.RecordBatch:
        headers = run.headers[:, part.entries]
        counts = np.array(part.counts)
        offsets = np.array([message.offset for message in part.messages], np.int64)
        records = Records(
            offsets=offsets,
            timestamps_ms=np.array([message.timestamp_ms for message in part.messages], np.int64),
            batch_offsets=np.repeat(offsets[np.cumsum(counts) - counts], counts),
            batch_positions=np.repeat(headers[HeaderField.POSITION] + run.window.position, counts),
            keys=pa.array([message.key for message in part.messages], pa.binary()),
            values=pa.array([message.value for message in part.messages], pa.binary()),
            counts=counts,
        )
        missing_before = self._tally.count(offsets, counts, np.array(part.skipped_before))
        return self._rows.records(headers, records, missing_before)


class _Part:
    """Messages and damage that are collected until there are enough of them for one Arrow batch.

    Attributes:
        entries: for each entry with messages, its index in the ``EntryRun``.
        counts: for each of these entries, the number of its messages.
        skipped_before: for each of these entries, the number of records of the file that were skipped before.
        messages: the messages of these entries, in order.
        damages: the entries that can't be read.
        bytes: size of the keys and values of the messages.
    """

    def __init__(self) -> None:
        self.entries: list[int] = []
        self.counts: list[int] = []
        self.skipped_before: list[int] = []
        self.messages: list[Message] = []
        self.damages: list[Damage] = []
        self.bytes = 0
