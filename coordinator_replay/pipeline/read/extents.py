"""Which offsets the segments of a dump cover, and where nothing does."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """The offsets that one segment covers, both ends included.

    Attributes:
        records: how many there are, control records and those passed over too.
        skipped: how many of the records were passed over because earlier runs have read them.
        is_opened: False where it covers what the file's name says.
        unread: how many of the records stand where no earlier run has read.
        copy: the copy of the log partition that the file belongs to.
        damaged: how many ranges of bytes in it are no records.
    """

    log_partition: int
    first_offset: int
    last_offset: int
    records: int
    skipped: int = 0
    is_opened: bool = True
    unread: int = 0
    copy: str = ""
    damaged: int = 0


@dataclass(frozen=True, slots=True)
class Extents:
    """The extents of all files of a run: as many as there are files, and the driver has listed those anyway."""

    files: tuple[Extent, ...] = ()

    def _with_ends(self) -> Iterator[tuple[Extent, int | None]]:
        """Each extent in order, with the last offset before it in its partition."""
        partition, ended = None, None
        for extent in sorted(self.files):
            if extent.log_partition != partition:
                partition, ended = extent.log_partition, None
            yield extent, ended
            ended = extent.last_offset if ended is None else max(ended, extent.last_offset)

    def gaps(self) -> list[tuple[int, int, int]]:
        """Stretches between files that no file covers: log_partition, from, to (not included)."""
        return [
            (extent.log_partition, ended + 1, extent.first_offset)
            for extent, ended in self._with_ends()
            if ended is not None and extent.first_offset > ended + 1
        ]
