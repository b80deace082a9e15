"""Faults in the bytes of a record, as ``quarantine.error_class`` names them.

A record with such a fault can't be decoded and goes to the table ``quarantine``. The table keeps all bytes of the
record, or only the beginning if the record is larger than LARGEST_RECORD_BYTES. Kafka's own loader fails on most of
these faults, but skips records of unknown kinds (``CoordinatorLoaderImpl``, ``GroupCoordinatorRecordSerde``).
"""

from enum import StrEnum

LARGEST_RECORD_BYTES = 8 << 20
"""A record with a larger key or value is quarantined, so that a few compressed bytes can't fill gigabytes of memory.

The limit is eight times the size of the largest batch that brokers accept by default (``message.max.bytes``).
"""


class ErrorClass(StrEnum):
    """Reasons why a record was quarantined. ``MESSAGES`` has a sentence for each."""

    BUFFER_UNDERFLOW = "BufferUnderflow"
    UNEXPECTED_NULL = "UnexpectedNull"
    VARINT_TOO_LONG = "VarintTooLong"
    TRAILING_BYTES = "TrailingBytes"
    BAD_TAGGED_FIELD = "BadTaggedField"
    INVALID_UNICODE = "InvalidUnicode"
    MISSING_KEY = "MissingKey"
    EMPTY_VALUE = "EmptyValue"
    UNSUPPORTED_VERSION = "UnsupportedVersion"
    UNKNOWN_RECORD_TYPE = "UnknownRecordType"
    RECORD_TOO_LARGE = "RecordTooLarge"


MESSAGES = {
    ErrorClass.BUFFER_UNDERFLOW: "the bytes end inside a field",
    ErrorClass.UNEXPECTED_NULL: "a field that can't be null is null",
    ErrorClass.VARINT_TOO_LONG: "a variable-length integer runs over five bytes",
    ErrorClass.TRAILING_BYTES: "bytes are left over after the last field",
    ErrorClass.BAD_TAGGED_FIELD: "a tagged field stands twice or is not as long as it says",
    ErrorClass.INVALID_UNICODE: "a string is not UTF-8",
    ErrorClass.MISSING_KEY: "the record has no key, or one too short to name a kind",
    ErrorClass.EMPTY_VALUE: "the value is there but too short to hold its version; a tombstone has no value at all",
    ErrorClass.UNSUPPORTED_VERSION: "the value is of a version this release does not know",
    ErrorClass.UNKNOWN_RECORD_TYPE: "the key is of a kind this release does not know",
    ErrorClass.RECORD_TOO_LARGE: (
        f"the record is larger than {LARGEST_RECORD_BYTES >> 20} MiB; of its key and value the first MiB is kept"
    ),
}
"""The sentence that goes with each class."""


class RecordError(Exception):
    """An error: a single record can't be decoded. Code outside the package ``records`` never sees this error.

    Attributes:
        is_in_number: whether the bytes end inside a number; Kafka throws a ``BufferUnderflowException`` there.
    """

    def __init__(self, error_class: ErrorClass, detail: str = "", *, is_in_number: bool = False) -> None:
        super().__init__(f"{MESSAGES[error_class]}{f': {detail}' if detail else ''}")
        self.error_class = error_class
        self.is_in_number = is_in_number
