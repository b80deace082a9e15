"""Client libraries, as far as a group's records show them.

The log names no library. It holds bytes that libraries write differently:

* The user data of a classic subscription. Java's ``range`` and ``roundrobin`` have no user data (null). Java's
  ``cooperative-sticky`` has the four bytes of the generation. librdkafka writes an empty byte string for null, because
  of brokers of version 0.9 (``rd_kafka_consumer_protocol_member_metadata_new``). Other libraries do so too, but with
  version 0 of the subscription.
* The member id that a consumer of KIP-848 makes for itself: 16 random bytes in base64. Kafka's ``Uuid`` writes ``-``
  and ``_``. librdkafka's ``rd_kafka_Uuid_base64str`` writes ``+`` and ``/`` instead. About half of all ids have one of
  these characters.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Sequence

from coordinator_replay.engine.model import Protocol, Subscription

JAVA, LIBRDKAFKA = "java", "librdkafka"
LIBRARIES = (JAVA, LIBRDKAFKA)
NAMES = {JAVA: "Java", LIBRDKAFKA: "librdkafka"}

JOIN_INTERVAL_MS = 1_000
"""librdkafka joins at most once in this time (``rkcg_join_intvl``), unless it has just given up partitions."""

_MADE_ID = re.compile(r"[A-Za-z0-9+/_-]{22}")
_GENERATION_BYTES = 4


def library_of(member_ids: Iterable[str], subscriptions: Iterable[Subscription]) -> str | None:
    """Return the library of a client; None if the client's records don't show it.

    Args:
        member_ids: the member ids that the client had.
        subscriptions: the subscriptions that the client had.
    """
    marks = [_library_of_protocol(protocol) for subscription in subscriptions for protocol in subscription.protocols]
    return one_library([*marks, *map(_library_of_id, member_ids)])


def _library_of_protocol(protocol: Protocol) -> str | None:
    fields = protocol.fields
    if fields is None or "userData" not in fields:
        return None
    text = fields["userData"]
    if text is None:
        return JAVA
    if text == "":
        return LIBRDKAFKA if fields.get("version", 0) >= 1 else None
    is_generation = protocol.name == "cooperative-sticky" and _length(text) == _GENERATION_BYTES
    return JAVA if is_generation else None


def _length(text: str) -> int:
    try:
        return len(base64.b64decode(text))
    except binascii.Error:
        return -1


def _library_of_id(member_id: str) -> str | None:
    if not _MADE_ID.fullmatch(member_id):
        return None
    has_java, has_librdkafka = bool(set("-_") & set(member_id)), bool(set("+/") & set(member_id))
    if has_java == has_librdkafka:
        return None
    return JAVA if has_java else LIBRDKAFKA


def one_library(marks: Sequence[str | None]) -> str | None:
    """Return the library that the marks show; None if they show no library, or more than one.

    A client whose records don't show its library is assumed to use the only library of its group.

    Args:
        marks: the library that each member id, subscription or client shows; None if it shows no library.
    """
    libraries = {mark for mark in marks if mark is not None}
    return libraries.pop() if len(libraries) == 1 else None


def libraries_sentence(marks: Sequence[str | None]) -> str:
    """Return a sentence on the clients' libraries that the records of a group show.

    Args:
        marks: the library of each client; None if its records don't show the library.
    """
    counts = {library: marks.count(library) for library in LIBRARIES if library in marks}
    if not counts:
        return (
            "The client library (client.library) is not on record: clients are simulated as Java's; under the "
            "classic protocol ranges cover librdkafka's."
        )
    listed = " and ".join(f"{NAMES[library]} for {count} of {len(marks)}" for library, count in counts.items())
    text = f"Client library, inferred from subscriptions and member ids: {listed}"
    if None not in marks:
        return f"{text}."
    if one_library(marks) is not None:
        return f"{text}; the others are assumed to use the same."
    return f"{text}; the others are simulated as Java's."
