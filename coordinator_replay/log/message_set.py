"""Messages of magic 0 and 1, alone or wrapped, as brokers wrote them before 0.11.

A message is: crc uint32, magic int8, attributes int8, in magic 1 a timestamp int64, then key and value with int32
lengths (-1 is null). A message with a codec in its attributes is a wrapper: its value is a compressed set of messages
of the same magic. Offsets within a wrapper are absolute in magic 0. In magic 1 the offsets count from 0, and the
wrapper has the log offset of its last message; old librdkafka wrote 0 there. If the broker set the times, all messages
have the wrapper's time. Source: AbstractLegacyRecordBatch.DeepRecordsIterator, LegacyRecord.

Such logs are small and old, so this module reads one message at a time.
"""

import struct
from itertools import pairwise
from typing import NamedTuple

from coordinator_replay.log.checksum import entry_checksum
from coordinator_replay.log.compression import Codec, DecompressionError, decompress
from coordinator_replay.log.layout import LOG_OVERHEAD, MESSAGE_OVERHEAD, NO_TIMESTAMP, Attribute
from coordinator_replay.log.schema import DamageClass


class MessageError(Exception):
    """An error: a message, or a message in a wrapper, can't be read.

    Code outside the package ``log`` never sees this error.
    """

    def __init__(self, error_class: DamageClass, text: str) -> None:
        super().__init__(text)
        self.error_class = error_class


class Message(NamedTuple):
    """A message. While its wrapper is read, ``offset`` is the offset in the wrapper; afterwards, the log offset."""

    offset: int
    magic: int
    attributes: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def read_messages(entry: memoryview, limit_bytes: int) -> list[Message]:
    """Return the messages of an entry: all messages inside a wrapper, or else the entry itself.

    The caller must have checked the entry's checksum.

    Raises:
        MessageError: the entry, or a message in it, can't be read. The whole entry is damage in both cases.
    """
    outer = _read_message(entry)
    codec = int(outer.attributes & Attribute.CODEC)
    if codec == Codec.NONE:
        return [outer]
    if codec > Codec.LZ4:
        raise MessageError(DamageClass.UNSUPPORTED_CODEC, f"Codec {codec} does not exist in magic {outer.magic}.")
    if outer.value is None:
        raise MessageError(DamageClass.MALFORMED_BATCH, "A compressed message without a value.")
    try:
        plain = decompress(Codec(codec), memoryview(outer.value), limit_bytes)
    except DecompressionError as error:
        raise MessageError(DamageClass.DECOMPRESSION_FAILED, f"{error}.") from error
    inner = _read_set(plain, outer.magic)
    base = 0
    if outer.magic == 1 and outer.offset != 0:
        base = outer.offset - inner[-1].offset
    offsets = [base + message.offset for message in inner]
    if offsets[0] < 0 or any(later <= earlier for earlier, later in pairwise(offsets)):
        raise MessageError(DamageClass.MALFORMED_BATCH, "The offsets within a wrapper do not rise.")
    set_by_broker = outer.attributes & Attribute.LOG_APPEND_TIME and outer.magic == 1
    return [
        message._replace(offset=offset, timestamp_ms=outer.timestamp_ms if set_by_broker else message.timestamp_ms)
        for message, offset in zip(inner, offsets, strict=True)
    ]


def _read_set(plain: memoryview, magic: int) -> list[Message]:
    messages = []
    position = 0
    while position < len(plain):
        try:
            (size,) = struct.unpack_from(">i", plain, position + 8)
        except struct.error as error:
            raise _malformed("A message within a wrapper is cut short.") from error
        stop = position + LOG_OVERHEAD + size
        if size < 0 or stop > len(plain):
            raise _malformed(f"A message within a wrapper claims {size} bytes.")
        message = _read_message(plain[position:stop])
        if message.magic != magic or message.attributes & Attribute.CODEC:
            raise _malformed("A message within a wrapper is of another magic, or compressed once more.")
        (checksum,) = struct.unpack_from(">I", plain, position + LOG_OVERHEAD)
        if checksum != entry_checksum(plain[position:stop], magic):
            raise MessageError(DamageClass.CHECKSUM_MISMATCH, "A message within a wrapper has a wrong checksum.")
        messages.append(message)
        position = stop
    if not messages:
        raise _malformed("A wrapper without messages.")
    return messages


def _read_message(entry: memoryview) -> Message:
    try:
        offset, _, _, magic, attributes = struct.unpack_from(">qiIBB", entry)
        timestamp_ms = struct.unpack_from(">q", entry, 18)[0] if magic == 1 else NO_TIMESTAMP
        if magic > 1:
            raise _malformed(f"A message of magic {magic}.")
        key, position = _read_bytes(entry, MESSAGE_OVERHEAD[magic] - 8)
        value, position = _read_bytes(entry, position)
    except struct.error as error:
        raise _malformed("A message is shorter than its fields.") from error
    if position != len(entry):
        raise _malformed("A message is longer than its fields.")
    return Message(offset, magic, attributes, timestamp_ms, key, value)


def _read_bytes(entry: memoryview, position: int) -> tuple[bytes | None, int]:
    (size,) = struct.unpack_from(">i", entry, position)
    position += 4
    if size < -1 or size > len(entry) - position:
        raise _malformed(f"A field of a message claims {size} bytes.")
    if size == -1:
        return None, position
    return bytes(entry[position : position + size]), position + size


def _malformed(text: str) -> MessageError:
    return MessageError(DamageClass.MALFORMED_BATCH, text)
