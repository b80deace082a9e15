"""Extents: the log offsets that the segments of a dump cover."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """The log offsets that one segment covers, both ends included.

    Attributes:
        records: number of the segment's records, including control records and skipped records.
        skipped: number of records that were skipped because earlier runs have read them.
        unread: number of records at log offsets that no earlier run has read.
        copy: the copy of the log partition that the file belongs to.
        damaged: number of places in the segment with damaged bytes.
    """

    log_partition: int
    first_offset: int
    last_offset: int
    records: int
    skipped: int = 0
    unread: int = 0
    copy: str = ""
    damaged: int = 0
