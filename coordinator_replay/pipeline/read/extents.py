"""Which offsets the segments of a dump cover."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """The offsets that one segment covers, both ends included.

    Attributes:
        records: how many there are, control records and those passed over too.
        skipped: how many of the records were passed over because earlier runs have read them.
        unread: how many of the records stand where no earlier run has read.
        copy: the copy of the log partition that the file belongs to.
        damaged: how many ranges of bytes in it are no records.
    """

    log_partition: int
    first_offset: int
    last_offset: int
    records: int
    skipped: int = 0
    unread: int = 0
    copy: str = ""
    damaged: int = 0
