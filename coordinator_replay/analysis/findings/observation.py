"""An observation: a time range in which the condition of a rule held.

If the condition still holds at the group's last record, the observation is *open*. An open observation becomes a
finding only if it has lasted for ``needed_ms`` at the end of the log.

Observations of a group's steps are stored in the internal table ``group_evidence``. If a run evaluates a group, it
makes the group's findings again from all these observations. Observations of a rule with the same subject become one
row of ``findings``.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coordinator_replay.analysis.findings.evidence_rows import ObservationRow
from coordinator_replay.analysis.findings.rules import RULES
from coordinator_replay.analysis.findings.thresholds import DAY_MS
from coordinator_replay.analysis.rows import Scope
from coordinator_replay.listing import listed, partition_ranges
from coordinator_replay.times import elapsed_ms, time_text

MOST_NAMED = 20
"""Largest number of members or partitions that an observation names."""


class Observation(NamedTuple):
    """A time range in which the condition of a rule held.

    Attributes:
        subject: identifies the finding among others of the rule in the group: a topic, an instance id, a position.
        first_ms: start of the observation; None if no record has it.
        last_ms: end of the observation; None if the observation is open, or if no record has the end.
        needed_ms: how long an open observation must have lasted at the end of the log to be a finding.
        goes_on_ms: how long the observation holds after ``last_ms`` if no later record ends it; None means for ever.
        partition: log partition of the record that shows the observation, or None.
        offset: log offset of this record.
        topic_partition: the partition of ``topic`` that the observation is about; None if it is about several or none.
        detail: numbers and names for the message, fit for JSON.
        joins_ms: if an earlier observation ended less than this duration before this one began, both belong to the same
            finding.
        is_begin_open: whether the observation may have begun earlier, because records of the group are missing.
        is_end_open: whether the observation may have gone on, because records of the group are missing.
    """

    subject: tuple[Any, ...]
    first_ms: int | None
    last_ms: int | None
    message: str
    partition: int | None
    offset: int | None
    detail: Mapping[str, Any] = {}
    needed_ms: int = 0
    goes_on_ms: int | None = 0
    occurrences: int = 1
    topic: str | None = None
    topic_partition: int | None = None
    member_id: str | None = None
    joins_ms: int = 0
    is_begin_open: bool = False
    is_end_open: bool = False


def has_lasted(needed_ms: int, first_ms: int | None, until_ms: int | None) -> bool:
    """Return whether an observation lasted for at least ``needed_ms``.

    If no record shows its start or its end, return True only if ``needed_ms`` is 0.

    >>> has_lasted(5, 10, 15), has_lasted(5, None, 15), has_lasted(0, None, 15)
    (True, False, True)
    """
    lasted_ms = elapsed_ms(first_ms, until_ms)
    return needed_ms <= 0 if lasted_ms is None else lasted_ms >= needed_ms


def of_partitions(topic: str, numbers: Sequence[int]) -> str:
    """Return partitions of a topic as text for messages.

    >>> of_partitions("orders", [3]), of_partitions("orders", [0, 1, 2, 3, 4, 5, 8])
    ('orders-3', '7 partitions of orders (0-5, 8)')
    """
    if len(numbers) == 1:
        return f"{topic}-{numbers[0]}"
    return f"{len(numbers):,} partitions of {topic} ({listed(partition_ranges(sorted(numbers)).split(','))})"


def finding_id(cluster: str, rule: str, group_id: str, *subject: object) -> str:
    """Return the id of a finding, which is the same in every run.

    >>> finding_id("default", "offset_rewind", "orders", "shop", 3)
    'bec09c0e074b343280e4a640bc70c845'
    """
    place = "\x00".join((cluster, rule, group_id, *map(str, subject)))
    return hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def at(at_ms: int | None) -> str:
    """Return a time with its preposition for messages.

    >>> at(1795249931062), at(None)
    ('on 2026-11-21T08:32:11.062Z', 'at an unknown time')
    """
    return "at an unknown time" if at_ms is None else f"on {time_text(at_ms)}"


def lasting(duration_ms: int | None) -> str:
    """Return a duration as text for messages.

    >>> lasting(90_000), lasting(3_600_000), lasting(1500), lasting(7 * 86_400_000)
    ('90 s', '60 min', '1.5 s', '7 d')
    >>> lasting(None)
    'an unknown time'
    """
    if duration_ms is None:
        return "an unknown time"
    if duration_ms and duration_ms % DAY_MS == 0:
        return f"{duration_ms // DAY_MS} d"
    if duration_ms >= 10 * 60_000:
        return f"{duration_ms // 60_000} min"
    return f"{duration_ms / 1000:g} s"


def threshold_shown(name: str, value: int) -> tuple[str, str]:
    """Return the name of a threshold on the command line, and its value as text.

    >>> threshold_shown("stuck_ms", 600_000), threshold_shown("hot_minutes", 10)
    (('stuck', '10 min'), ('hot-minutes', '10'))
    """
    shown = lasting(value) if name.endswith("_ms") else f"{value:,}"
    return name.removesuffix("_ms").replace("_", "-"), shown


def row(scope: Scope, rule: str, observation: Observation, *, is_open: bool = False) -> ObservationRow:
    """Return an observation of a rule as a row."""
    return {
        "cluster": scope.cluster,
        "group_id": scope.group_id,
        "finding_id": finding_id(scope.cluster, rule, scope.group_id, *observation.subject),
        "rule": rule,
        "severity": str(RULES[rule].severity),
        "topic": observation.topic,
        "partition": observation.topic_partition,
        "member_id": observation.member_id,
        "first_seen": observation.first_ms,
        "last_seen": observation.last_ms,
        "occurrences": observation.occurrences,
        "message": observation.message,
        "detail": scope.encode(dict(observation.detail)),
        "needed_ms": observation.needed_ms,
        "goes_on_ms": observation.goes_on_ms,
        "joins_ms": observation.joins_ms,
        "log_partition": observation.partition,
        "log_offset": observation.offset,
        "is_begin_open": observation.is_begin_open,
        "is_end_open": observation.is_end_open,
        "is_open": is_open,
    }
