"""Forms of a dump, by their names on the command line."""

from enum import StrEnum


class Format(StrEnum):
    """The forms a dump can have."""

    SEGMENTS = "segments"
    PARQUET = "parquet"
    DELTA = "delta"
    JSON_LINES = "jsonl"
