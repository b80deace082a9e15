"""Facts about removed offsets, as SQL: they are the evidence for the cause of a removal.

In SQL, evidence is a list of sentences, and each sentence is a list of facts. Every fact has the fields of FIELDS.
``sentences_of`` makes the text of the sentences from these facts.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from coordinator_replay.analysis.expiring import TOPIC_DELETED

RETENTION = "offsets.retention.minutes"
DEFAULT_RETENTION = "the default of offsets.retention.minutes (7 days)"
CHECK_INTERVAL = "the default of offsets.retention.check.interval.ms (10 minutes)"
NAMED_TIME = "the time of expiry that the commit names"
OR_NAMED_TIME = ", or the time of expiry that a commit names"
LONGEST_REBALANCE = "the longest time that the rebalance can have taken"
"""Names of the limits with which the facts compare a duration."""


class RemovalFact(StrEnum):
    """Kinds of facts about removed offsets, each with its words in FORMS."""

    NO_TIME = "NO_TIME"
    LOGGED = "LOGGED"
    GROUP_TOMBSTONE = "GROUP_TOMBSTONE"
    NO_GROUP_TOMBSTONE = "NO_GROUP_TOMBSTONE"
    GROUP_TOMBSTONE_MISSING = "GROUP_TOMBSTONE_MISSING"
    UNREADABLE = "UNREADABLE"
    NOT_PROVEN = "NOT_PROVEN"
    RETENTION_UNKNOWN = "RETENTION_UNKNOWN"
    RETENTION_UNKNOWN_FOR_ALL = "RETENTION_UNKNOWN_FOR_ALL"

    ALL_PAST = "ALL_PAST"
    PROMPT = "PROMPT"
    LATE = "LATE"
    OTHER_GROUPS = "OTHER_GROUPS"
    SOME_NOT_PAST = "SOME_NOT_PAST"
    SOME_NOT_PROVEN = "SOME_NOT_PROVEN"
    WITH_OTHERS = "WITH_OTHERS"
    PAST = "PAST"
    OTHERS_NOT_PAST = "OTHERS_NOT_PAST"
    NOT_PAST = "NOT_PAST"
    NOT_PAST_NAMED_TIME = "NOT_PAST_NAMED_TIME"
    PAST_SINCE_COMMIT = "PAST_SINCE_COMMIT"
    JUST_PAST = "JUST_PAST"
    KEPT_BY_MEMBERS = "KEPT_BY_MEMBERS"
    TRANSACTION_OPEN = "TRANSACTION_OPEN"
    SPARED = "SPARED"

    TOPIC_DELETED = "TOPIC_DELETED"
    SEVERAL_GROUPS = "SEVERAL_GROUPS"
    DELETE_OR_TOPIC = "DELETE_OR_TOPIC"
    LIKELY_DELETE_OR_TOPIC = "LIKELY_DELETE_OR_TOPIC"
    TOPIC = "TOPIC"
    LIKELY_TOPIC = "LIKELY_TOPIC"

    PERHAPS_REBALANCING = "PERHAPS_REBALANCING"
    REBALANCING_UNKNOWN = "REBALANCING_UNKNOWN"
    ELECTED = "ELECTED"
    FIRST_OF_EPOCH = "FIRST_OF_EPOCH"
    KAFKA_13636 = "KAFKA_13636"
    KAFKA_13636_SINCE_COMMIT = "KAFKA_13636_SINCE_COMMIT"
    SCALA_COORDINATOR = "SCALA_COORDINATOR"
    KAFKA_8069 = "KAFKA_8069"
    OLD_CLEANUP = "OLD_CLEANUP"


_OF_13636 = "Kafka 2.4.0 to 2.8.1, 3.0.0 and 3.1.0"

FORMS: Mapping[RemovalFact, str] = {
    RemovalFact.NO_TIME: "the tombstone carries no timestamp",
    RemovalFact.LOGGED: "{text}",
    RemovalFact.GROUP_TOMBSTONE: "the group's tombstone was written with it",
    RemovalFact.NO_GROUP_TOMBSTONE: ", and no tombstone of the group was written with it",
    RemovalFact.GROUP_TOMBSTONE_MISSING: (
        "a tombstone of the group may have followed it: the log does not prove that there was none"
    ),
    RemovalFact.UNREADABLE: (
        "a commit that the same write removed can't be read, and with it whether it was past retention"
    ),
    RemovalFact.NOT_PROVEN: (
        "whether it was past {limit} is not proven: the log lacks the time of the commit, or the group's state then"
    ),
    RemovalFact.RETENTION_UNKNOWN: "the cluster's own retention is not known, and may have removed it",
    RemovalFact.RETENTION_UNKNOWN_FOR_ALL: (
        "; the cluster's own retention is not known, and retention may have removed all of them if it is shorter"
    ),
    RemovalFact.ALL_PAST: "each offset of the same write whose commit is on record was past {limit}",
    RemovalFact.PROMPT: ", and had been open to removal for at most {limit}",
    RemovalFact.LATE: "; one of them had been open to removal for longer than {limit}",
    RemovalFact.OTHER_GROUPS: "so were offsets of {count} other groups that were removed at the same time",
    RemovalFact.SOME_NOT_PAST: "an offset removed in the same write was not past {limit}, or was kept from expiring",
    RemovalFact.SOME_NOT_PROVEN: "whether each offset removed in the same write was past {limit} is not proven",
    RemovalFact.WITH_OTHERS: (
        "removed in the same write as an offset that was not past {limit}, or was kept from expiring"
    ),
    RemovalFact.PAST: "past {limit}",
    RemovalFact.OTHERS_NOT_PAST: "; another offset of the same write was not, or was kept from expiring",
    RemovalFact.NOT_PAST: "removed before the end of {limit}",
    RemovalFact.NOT_PAST_NAMED_TIME: "removed before {limit}",
    RemovalFact.PAST_SINCE_COMMIT: "past {limit} since its commit, but not since the group became Empty",
    RemovalFact.JUST_PAST: "past {limit}, and open to removal for at most ten minutes (Kafka's default check interval)",
    RemovalFact.KEPT_BY_MEMBERS: (
        ", but the records before show members that keep retention and DeleteOffsets away from its topic"
    ),
    RemovalFact.TRANSACTION_OPEN: ", but a transaction on it was open",
    RemovalFact.SPARED: ", which keeps retention away from it",
    RemovalFact.TOPIC_DELETED: f"{TOPIC_DELETED} {{elapsed_ms}} ms earlier (cluster metadata)",
    RemovalFact.SEVERAL_GROUPS: (
        "offsets of the topic that were not shown to be past retention were removed from {count} groups, with at most "
        "30 s between two of them"
    ),
    RemovalFact.DELETE_OR_TOPIC: ": DeleteOffsets, or the topic was deleted",
    RemovalFact.LIKELY_DELETE_OR_TOPIC: ": it is likely that DeleteOffsets removed it, or that the topic was deleted",
    RemovalFact.TOPIC: ": the topic was deleted",
    RemovalFact.LIKELY_TOPIC: ": it is likely that the topic was deleted",
    RemovalFact.PERHAPS_REBALANCING: (
        "the group may have been rebalancing: a rebalance of at most {limit_ms} ms was over {elapsed_ms} ms later"
    ),
    RemovalFact.REBALANCING_UNKNOWN: (
        f"whether the group was rebalancing then is not on record: {_OF_13636} expire other offsets while a group "
        "rebalances (KAFKA-13636)"
    ),
    RemovalFact.ELECTED: "leader epoch {count} of the log partition was elected {elapsed_ms} ms earlier",
    RemovalFact.FIRST_OF_EPOCH: (
        "the first record of leader epoch {count} of the log partition was {elapsed_ms} ms earlier"
    ),
    RemovalFact.KAFKA_13636: (
        f"{_OF_13636} expire offsets of subscribed topics while a group rebalances (KAFKA-13636)"
    ),
    RemovalFact.KAFKA_13636_SINCE_COMMIT: (
        f"{_OF_13636} count retention from the commit while a group rebalances (KAFKA-13636)"
    ),
    RemovalFact.SCALA_COORDINATOR: (
        "the coordinator written in Scala (all releases before 4.0) expires offsets with an open transaction"
    ),
    RemovalFact.KAFKA_8069: (
        "the commit is of version 1 and names no time of expiry: Kafka 2.1 with an inter.broker.protocol.version below "
        "2.1 expires such offsets once it has loaded them (KAFKA-8069)"
    ),
    RemovalFact.OLD_CLEANUP: (
        "Kafka 0.8.2 may expire older commits of a partition while it loads the log, and its tombstone then removes "
        "the newest one"
    ),
}
"""Words of each kind of fact. Words that begin with a comma, colon or semicolon continue the fact before. A word in
braces is replaced by the value of a field."""

FIELDS: Mapping[str, str] = {
    "kind": "VARCHAR",
    "topic": "VARCHAR",
    "partition": "INTEGER",
    "log_partition": "INTEGER",
    "log_offset": "BIGINT",
    "since_offset": "BIGINT",
    "elapsed_ms": "BIGINT",
    "limit": "VARCHAR",
    "limit_ms": "BIGINT",
    "count": "BIGINT",
    "text": "VARCHAR",
}
"""Fields of a fact, with their SQL types:

- ``kind``: the kind, see RemovalFact.
- ``topic``: the topic that the fact is about; null if it is about the whole write or the group.
- ``partition``: the partition whose offset the fact is about; null if it is about no single offset.
- ``log_partition``, ``log_offset``: the tombstone that removed this offset.
- ``since_offset``: the commit that it removed.
- ``elapsed_ms``: a duration.
- ``limit``, ``limit_ms``: name and value of the limit with which the duration is compared.
- ``count``: a number of groups, or a leader epoch.
- ``text``: a broker's line.
"""

_OFFSET = {
    "topic": "topic",
    "partition": "partition",
    "log_partition": "log_partition",
    "log_offset": "tombstone_offset",
    "since_offset": "from_offset",
}
_FIELD = re.compile(r"\{(\w+)\}")


def fact(kind: RemovalFact, **fields: str) -> str:
    """Return SQL for a fact about a write, a group or a topic.

    Args:
        kind: the kind of the fact.
        fields: SQL for the fields of FIELDS that the fact has.
    """
    values = {"kind": f"'{kind}'"} | fields
    return "{" + ", ".join(f"'{name}': CAST({values.get(name, 'NULL')} AS {sql})" for name, sql in FIELDS.items()) + "}"


def offset_fact(kind: RemovalFact, **fields: str) -> str:
    """Return SQL for a fact about the removed offset itself."""
    return fact(kind, **_OFFSET, **fields)


def evidence_sql(*sentences: Sequence[str]) -> str:
    """Return SQL for evidence.

    Args:
        sentences: SQL for the facts of each sentence.
    """
    return "[" + ", ".join(f"[{', '.join(facts)}]" for facts in sentences) + "]"


def _words(form: str) -> str:
    """Return SQL that makes the words of a fact ``f``.

    Args:
        form: the words, with names of the fact's fields in braces.
    """
    parts = _FIELD.split(form.replace("'", "''"))
    texts = (f"coalesce(CAST(f.\"{part}\" AS VARCHAR), '?')" if n % 2 else f"'{part}'" for n, part in enumerate(parts))
    return " || ".join(text for text in texts if text != "''")


_BRANCHES = " ".join(f"WHEN '{kind}' THEN {_words(form)}" for kind, form in FORMS.items())
_WORDS = f"CASE f.kind {_BRANCHES} END"


def sentences_of(evidence: str) -> str:
    """Return SQL for the sentences of evidence.

    Args:
        evidence: SQL for the evidence.
    """
    return f"list_transform({evidence}, lambda s: array_to_string(list_transform(s, lambda f: {_WORDS}), ''))"


def facts_of(evidence: str) -> str:
    """Return SQL for the facts of evidence: a list of structs with the fields of FIELDS and the number of the sentence.

    Args:
        evidence: SQL for the evidence.
    """
    fields = ", ".join(f"'{name}': f.\"{name}\"" for name in FIELDS)
    numbered = f"lambda s, n: list_transform(s, lambda f: {{'sentence': CAST(n - 1 AS INTEGER), {fields}}})"
    return f"flatten(list_transform({evidence}, {numbered}))"
