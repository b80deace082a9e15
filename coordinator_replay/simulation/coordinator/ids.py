"""Ids that the coordinator makes for members.

A broker's ids are random. Here they are counted, so that every run has the same ids.

The n-th id is the version 4 UUID whose last six bytes are n.
"""

import base64
import uuid
from itertools import count

VERSION_4 = bytes((0, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0))
"""First ten bytes of a UUID of version 4; the number follows."""


class MemberIds:
    """A maker of member ids in the coordinator's form."""

    __slots__ = ("_uuids",)

    def __init__(self) -> None:
        self._uuids = (uuid.UUID(bytes=VERSION_4 + number.to_bytes(6, "big")) for number in count(1))

    def short(self) -> str:
        """Return an id as Kafka's ``Uuid`` prints it.

        The text has 22 characters and never begins with a dash.
        """
        while True:
            text = base64.urlsafe_b64encode(next(self._uuids).bytes).decode().rstrip("=")
            if not text.startswith("-"):
                return text

    def classic(self, prefix: str) -> str:
        """Return an id of a classic member: instance id or client id, a dash, and a UUID as Java prints it."""
        return f"{prefix}-{next(self._uuids)}"
