"""The walk over the entries of a segment: runs of intact entries, and the search for the next entry after damage.

While headers follow each other and checksums are right, the next entry begins where the size says. If an entry is
damaged, its size can't be trusted. So the walk looks for the next entry in this order:

1. A header whose checksum is right, within the bytes that the damaged entry claims.
2. The position at which the damaged entry claims to end, if a header is there. (This next entry may be damaged too.)
3. A header whose checksum is right, anywhere after the damaged entry.

A compressed entry of the old formats is a wrapper of messages. The bytes of a message inside a damaged wrapper may look
like an entry of the file, with any offset. So an old message counts as an entry only if its offset is above all offsets
before it, but not far above. The damaged entry's offset is one of these offsets.

The bytes from the damaged entry to the next entry are one range of damage. Two cases without a next entry are
ordinary. An entry that claims more bytes than the file has is a torn tail, left by a crash or by copying a growing
file. Zeros up to the end are the padding of a file that was reserved at its full size.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from coordinator_replay.log.checksum import count_intact, entry_checksum
from coordinator_replay.log.coverage import SkipRanges, note
from coordinator_replay.log.header import Stop, hop, is_plausible, plausible_positions
from coordinator_replay.log.layout import BATCH_OVERHEAD, LOG_OVERHEAD, OFFSET_LIMIT, SHORTEST_HEADER, HeaderField
from coordinator_replay.log.rows import DAMAGE_VALUE_LIMIT, Damage
from coordinator_replay.log.schema import DamageClass
from coordinator_replay.log.window import FileWindow

# After damage the first hops are short, because more damage often follows.
_FEWEST_ENTRIES = 64
_MOST_ENTRIES = 1 << 16
_FIRST_BLOCK = 1 << 12
_LARGEST_BLOCK = 1 << 20
# An entry's offset is believed if it is at most this far above the offset before it.
_LARGEST_STEP = 1 << 31
# Limits the work for a hostile file: if every header claims a large size, each would cost a checksum of that size.
_SMALL_ENTRY = 1 << 16
_FREE_CHECKSUM_BYTES = 1 << 28
_CHECKSUM_BYTES_PER_BYTE = 32


@dataclass(frozen=True, slots=True)
class EntryRun:
    """Entries that follow each other without damage: only batches (magic 2), or only messages (magic 0 and 1).

    The object is valid until the next step of the walk, which reuses the memory.

    Attributes:
        headers: a matrix with a row for each ``HeaderField`` and a column for each entry. POSITION counts from the
            first byte of the window.
        skipped: for each entry, whether earlier audits have read its records. This audit does not read such entries
            again.
        window: the bytes in which the entries lie.
    """

    headers: np.ndarray
    skipped: np.ndarray
    window: FileWindow

    @property
    def are_batches(self) -> bool:
        """Return whether the entries are record batches (magic 2)."""
        return bool(self.headers[HeaderField.MAGIC, 0] == 2)


@dataclass(frozen=True, slots=True)
class _Fault:
    """A fault of an entry.

    Attributes:
        error_class: the kind of damage.
        text: a sentence about the fault.
        offset: the log offset in the entry's header; None if it can't be true.
        size: the size in the entry's header; None if it can't be true.
    """

    error_class: DamageClass
    text: str
    offset: int | None
    size: int | None

    def reaches_beyond(self, size: int) -> bool:
        """Return whether the entry may be intact but cut off: it claims more than the ``size`` bytes that are left."""
        cut_off = (DamageClass.TORN_BATCH, DamageClass.BATCH_TOO_LARGE)
        return self.error_class in cut_off and self.size is not None and self.size > size


class Walk:
    """One pass over a file.

    Args:
        window: the window over the file.
        max_batch_bytes: a larger entry is damage, and is not loaded into the window.
        skip: log offsets whose records earlier runs have read.
    """

    def __init__(self, window: FileWindow, *, max_batch_bytes: int, skip: SkipRanges) -> None:
        self._window = window
        self._max_batch_bytes = max_batch_bytes
        self._skip = skip
        self._last_offset = -1
        self._checksum_bytes = 0

    def __iter__(self) -> Iterator[EntryRun | Damage | str]:
        """Yield the runs of entries, the damaged ranges and the notes of the file, in order. A note is a text."""
        window = self._window
        matrix = np.empty((len(HeaderField), _MOST_ENTRIES), np.int64)
        limit = _MOST_ENTRIES
        at: int | None = 0
        while at is not None:
            data = window.data
            count, stop = hop(data, at, len(data), matrix, limit)
            limit = min(4 * limit, _MOST_ENTRIES)
            fault = None
            if count:
                run, fault = self._check(matrix[:, :count])
                if run is not None:
                    yield run
                    at = int(run.headers[HeaderField.POSITION, -1] + run.headers[HeaderField.SIZE, -1])
                if fault is None and stop in (Stop.LIMIT, Stop.OTHER_FORMAT):
                    continue
            if fault is None and stop == Stop.NEEDS_BYTES and self._load(at):
                at = 0
                continue
            if at == len(window.data):
                return
            at = yield from self._find_footing(at, fault or self._fault_of_header(at))
            limit = _FEWEST_ENTRIES

    def _check(self, headers: np.ndarray) -> tuple[EntryRun | None, _Fault | None]:
        """Return the intact entries up to the first damaged entry, and the fault of that entry.

        The first result is None if the first entry is damaged. The second is None if no entry is damaged. The checksums
        of entries that earlier runs have read are not checked, except for the last entry.
        """
        count = headers.shape[1]
        skipped = self._covered(headers)
        checked = ~skipped
        checked[-1] = True  # the next entry is looked for after the end of the last one
        rows = np.flatnonzero(checked)
        starts = headers[HeaderField.POSITION, rows]
        ends = starts + headers[HeaderField.SIZE, rows]
        checksums = headers[HeaderField.CHECKSUM, rows]
        good = count_intact(self._window.data, starts, ends, checksums, int(headers[HeaderField.MAGIC, 0]))
        intact = int(rows[good]) if good < len(rows) else count
        run = None
        if intact:
            run = EntryRun(headers[:, :intact], skipped[:intact], self._window)
            last = headers[:, intact - 1]
            self._believe(int(last[HeaderField.OFFSET] + last[HeaderField.LAST_OFFSET_DELTA]))
        if intact == count:
            return run, None
        entry = headers[:, intact]
        return run, _Fault(
            DamageClass.CHECKSUM_MISMATCH,
            f"The checksum of a batch of {entry[HeaderField.SIZE]} bytes is wrong.",
            int(entry[HeaderField.OFFSET]),
            int(entry[HeaderField.SIZE]),
        )

    def _covered(self, headers: np.ndarray) -> np.ndarray:
        """Return, for each entry, whether earlier runs have read its records.

        Messages never count as read: the header of a wrapper does not have the offset of the first message in it.
        """
        firsts = headers[HeaderField.OFFSET]
        deltas = headers[HeaderField.LAST_OFFSET_DELTA]
        sane = (headers[HeaderField.MAGIC] == 2) & (deltas >= 0) & (headers[HeaderField.RECORD_COUNT] >= 0)
        covered: np.ndarray = self._skip.cover(firsts, firsts + deltas) & sane
        return covered

    def _load(self, at: int) -> bool:
        """Load the rest of the entry at ``at`` into the window, which then begins at the entry.

        Return whether more bytes could be loaded. Load nothing if the file has ended or the entry is too large.
        """
        window = self._window
        if window.at_end:
            return False
        left = len(window.data) - at
        needed = SHORTEST_HEADER if left < SHORTEST_HEADER else self._claimed_size(at)
        if needed > self._max_batch_bytes:
            return False
        window.advance(at, needed)
        return True

    def _claimed_size(self, at: int) -> int:
        return int.from_bytes(self._window.view[at + 8 : at + LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD

    def _fault_of_header(self, at: int) -> _Fault:
        """Return what is wrong with the header of an entry.

        Args:
            at: position of the entry in the window.
        """
        view = self._window.view[at : at + SHORTEST_HEADER]
        if len(view) < SHORTEST_HEADER:
            return _Fault(DamageClass.TORN_BATCH, "A header is cut short.", None, None)
        offset, size, magic = int.from_bytes(view[:8], "big"), self._claimed_size(at), view[16]
        claimed = offset if offset < OFFSET_LIMIT else None
        if size > self._max_batch_bytes:
            text = f"A batch claims {size} bytes, more than the {self._max_batch_bytes} that are read at once."
            return _Fault(DamageClass.BATCH_TOO_LARGE, text, claimed, size)
        if claimed is None or size < SHORTEST_HEADER:
            text = f"No batch begins here: offset {offset}, size {size}."
            return _Fault(DamageClass.MALFORMED_BATCH, text, None, size if size >= SHORTEST_HEADER else None)
        if magic > 2:
            text = f"Magic {magic} is unknown."
            return _Fault(DamageClass.UNSUPPORTED_MAGIC, text, claimed, size)
        if size > len(self._window.data) - at:
            text = f"A batch claims {size} bytes, and the file ends before."
            return _Fault(DamageClass.TORN_BATCH, text, claimed, size)
        return _Fault(
            DamageClass.MALFORMED_BATCH, f"A batch claims {size} bytes, too few for its header.", claimed, size
        )

    def _find_footing(self, at: int, fault: _Fault) -> Generator[Damage | str, None, int | None]:
        """Look for the next entry after a damaged entry.

        Yield the damaged range of bytes. If the bytes are only a cut-off end or padding, yield a note instead. Return
        the position of the next entry in the window; None if there is no next entry.
        """
        window = self._window
        near = fault.size if fault.size is not None and fault.size <= self._max_batch_bytes else 0
        wanted = max(near, DAMAGE_VALUE_LIMIT) + BATCH_OVERHEAD
        if not window.at_end and len(window.data) - at < wanted:
            window.advance(at, wanted)
            at = 0
        start = window.position + at
        is_entry = partial(self._is_entry, start + (fault.size or near), self._claimed_offset(at))
        search = _Search(window, at, near, self._max_batch_bytes, is_entry)
        footing = search.run()
        stop = window.position + (len(window.data) if footing is None else footing)
        size = stop - start
        if footing is None and search.is_zero:
            yield note(f"{size} zero bytes at the end: the file was reserved at its full size", start)
        elif footing is None and (size < SHORTEST_HEADER or fault.reaches_beyond(size)):
            text = f"The last {size} bytes are part of a batch that was cut off: it was being written, or copied"
            yield note(text, start)
        else:
            yield Damage(
                error_class=fault.error_class,
                message=fault.text if size == fault.size else f"{fault.text} The next batch was found {size} bytes on.",
                position=start,
                size=size,
                offset=self._believable(fault.offset, footing),
                head=search.head(size),
            )
        return footing

    def _believable(self, offset: int | None, footing: int | None) -> int | None:
        """Return the log offset that a damaged entry claims; None if it contradicts the entries before and after.

        Args:
            offset: the claimed log offset; None if there is none.
            footing: position of the next entry in the window; None if there is no next entry.
        """
        if offset is None or offset <= self._last_offset:
            return None
        view = self._window.view
        if footing is not None and footing + SHORTEST_HEADER <= len(view):
            following = int.from_bytes(view[footing : footing + 8], "big")
            if following and offset >= following:
                return None
        return offset

    def _believe(self, offset: int) -> None:
        """Remember the log offset of the last intact entry so far.

        Ignore an offset that is 2**31 or more above the remembered offset. No checksum covers the offset of an entry,
        so the offset may be damaged even if the checksum of the entry is correct.
        """
        if self._last_offset < 0 or offset - self._last_offset < _LARGEST_STEP:
            self._last_offset = offset

    def _claimed_offset(self, at: int) -> int:
        """Return the log offset that a damaged entry claims; -1 if it contradicts the offsets of the entries before."""
        view = self._window.view[at : at + 8]
        offset = int.from_bytes(view, "big")
        largest = OFFSET_LIMIT if self._last_offset < 0 else _LARGEST_STEP
        return offset if len(view) == 8 and 0 < offset - self._last_offset < largest else -1

    def _is_entry(self, damaged_to: int, damaged_offset: int, at: int, size: int) -> bool:
        """Return whether an entry with a correct checksum begins at ``at``. A message in a damaged wrapper is no entry.

        Args:
            damaged_to: position in the file at which the damaged entry claims to end.
            damaged_offset: the log offset that the damaged entry claims.
            at: position in the window to look at.
            size: the size that the header at this position claims.
        """
        view = self._window.view
        if view[at + 16] < 2:
            offset = int.from_bytes(view[at : at + 8], "big")
            is_inside = self._window.position + at < damaged_to
            floor = max(self._last_offset, damaged_offset if is_inside else -1)
            if not floor < offset < (OFFSET_LIMIT if floor < 0 else floor + _LARGEST_STEP):
                return False
        return self._is_intact(at, size)

    def _is_intact(self, at: int, size: int) -> bool:
        """Return whether the checksum of the entry at ``at`` is correct.

        Return False for a large entry if checking it would take too much work, see ``_FREE_CHECKSUM_BYTES``.
        """
        allowed = _FREE_CHECKSUM_BYTES + _CHECKSUM_BYTES_PER_BYTE * (self._window.position + at)
        if size > _SMALL_ENTRY and self._checksum_bytes + size > allowed:
            return False
        self._checksum_bytes += size
        entry = self._window.view[at : at + size]
        magic = entry[16]
        checksum_at = 17 if magic == 2 else LOG_OVERHEAD
        checksum = int.from_bytes(entry[checksum_at : checksum_at + 4], "big")
        return checksum == entry_checksum(entry, magic)


class _Search:
    """The search for the next intact entry after a damaged entry.

    Only a part of the file is in memory, the window. When the window has been searched to its end, it moves forward.

    Attributes:
        is_zero: whether all bytes that were searched so far are zeros.
    """

    def __init__(
        self, window: FileWindow, at: int, near: int, max_batch_bytes: int, is_intact: Callable[[int, int], bool]
    ) -> None:
        self._window = window
        self._start = at
        self._saved: bytes | None = None
        self._at = at + 1
        self._landing = at + near if near and at + near <= len(window.data) else None
        self._max_batch_bytes = max_batch_bytes
        self._is_intact = is_intact
        self.is_zero = not window.data[at]

    def run(self) -> int | None:
        """Return the position of the next entry in the window; None if the rest of the file has none."""
        block = _FIRST_BLOCK
        while True:
            data = self._window.data
            end = len(data) if self._landing is None else self._landing
            stop = min(self._at + block, end)
            position, is_whole = self._next_candidate(stop)
            if position is not None and is_whole:
                return position
            passed = stop if position is None else position
            self.is_zero = self.is_zero and not data[self._at : passed].any()
            self._at = passed
            block = min(2 * block, _LARGEST_BLOCK)
            if position is not None:
                self._move_to(position, self._claimed_size(position))
            elif self._landing is not None and stop == end:
                if self._lands(stop):
                    return stop
                self._landing = None
            elif stop == end and self._window.at_end:
                return None
            elif stop == end:  # a header may begin in the last bytes
                self._move_to(max(0, end - SHORTEST_HEADER + 1), SHORTEST_HEADER)

    def head(self, size: int) -> bytes:
        """Return the first bytes of the damaged range, at most ``DAMAGE_VALUE_LIMIT``. The audit stores these bytes.

        Args:
            size: size of the damaged range.
        """
        kept = min(size, DAMAGE_VALUE_LIMIT)
        if self._saved is not None:
            return self._saved[:kept]
        return bytes(self._window.view[self._start : self._start + kept])

    def _next_candidate(self, stop: int) -> tuple[int | None, bool]:
        """Return the first position before ``stop`` at which an intact entry may begin, and whether it is intact.

        The second result is False if not all bytes of the entry are in memory, so that its checksum can't be computed
        yet. Return None and False if there is no such position.
        """
        for position in plausible_positions(self._window.data, self._at, stop, self._max_batch_bytes):
            size = self._claimed_size(position)
            if position + size <= len(self._window.data):
                if self._is_intact(position, size):
                    return position, True
            elif not self._window.at_end:
                return position, False
        return None, False

    def _claimed_size(self, at: int) -> int:
        return int.from_bytes(self._window.view[at + 8 : at + LOG_OVERHEAD], "big") + LOG_OVERHEAD

    def _move_to(self, at: int, needed: int) -> None:
        """Move the window, the part of the file that is in memory, to the position where the search continues.

        Args:
            at: position in the window. The bytes before this position are dropped.
            needed: number of bytes that must be in memory.
        """
        if self._saved is None:
            self._saved = bytes(self._window.view[self._start : self._start + DAMAGE_VALUE_LIMIT])
        self._window.advance(at, needed)
        self._at = 0
        self._landing = None if self._landing is None else self._landing - at

    def _lands(self, at: int) -> bool:
        """Return whether the next entry may begin where the damaged entry claims to end.

        Return True if the bytes there look like a header, or are zeros.

        Args:
            at: position in the window at which the damaged entry claims to end.
        """
        return not self._window.data[at : at + BATCH_OVERHEAD].any() or is_plausible(self._window.view, at)
