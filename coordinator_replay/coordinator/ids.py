"""Ids that the coordinator makes for members: random on a broker, counted here, so that every run gives the same.

The n-th id is the version 4 UUID whose last six bytes are n. Java's hash tables order members by the characters of
their ids, so the ids decide ties.
"""

import base64
import uuid
from collections.abc import Iterator


def counted_uuids() -> Iterator[uuid.UUID]:
    """UUIDs of version 4 that count up from 1."""
    number = 0
    while True:
        number += 1
        yield uuid.UUID(bytes=bytes((0, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0)) + number.to_bytes(6, "big"))


class MemberIds:
    """Makes member ids as the coordinator does."""

    __slots__ = ("_uuids",)

    def __init__(self) -> None:
        self._uuids = counted_uuids()

    def short(self) -> str:
        """An id as Kafka's ``Uuid`` prints it: 22 characters, never with a dash in front."""
        while True:
            text = base64.urlsafe_b64encode(next(self._uuids).bytes).decode().rstrip("=")
            if not text.startswith("-"):
                return text

    def classic(self, prefix: str) -> str:
        """An id of a classic member: instance id or client id, a dash, and a UUID as Java prints it."""
        return f"{prefix}-{next(self._uuids)}"
