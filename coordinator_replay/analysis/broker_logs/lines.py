"""Lines of a broker's log about groups: their order, and the causes that their words name.

Sources: ``ClassicGroup`` and ``GroupMetadataManager`` of Kafka 3.9 to 4.3, ``GroupCoordinator`` (Scala) of 2.x and 3.x;
KIP-800 for client reasons.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from coordinator_replay.analysis.reasons.vocabulary import Cause

SLACK_MS = 2_000
"""Longest time between a line and the record that the line reports."""

LONGEST_MS = 7 * 86_400_000
"""Longest time before the end of a rebalance in which its beginning is looked for."""

BEGIN = "PREPARING_REBALANCE"
LOADED = "LOADING_FINISHED"
"""A line about a loaded log partition. Its groups are then in the state of their last record."""

_STEPS: Mapping[str, int] = {"ASSIGNMENT_RECEIVED": 1, BEGIN: 2}
"""Order of the lines of one generation; lines of other kinds come first."""

DEPARTURES = frozenset(
    {Cause.LEAVE_OR_TIMEOUT, Cause.MEMBER_LEAVE, Cause.SESSION_TIMEOUT, Cause.REBALANCE_TIMEOUT, Cause.UNKNOWN}
)
"""Causes of a rebalance that begins because a member left, or may have left."""


_COORDINATOR_REASONS: Sequence[tuple[re.Pattern[str], Cause]] = (
    (re.compile(r"adding new member ", re.IGNORECASE), Cause.MEMBER_JOIN),
    (re.compile(r"removing member \S+ on heartbeat expiration"), Cause.SESSION_TIMEOUT),
    (re.compile(r"removing .* on pending sync request expiration", re.IGNORECASE), Cause.REBALANCE_TIMEOUT),
    (re.compile(r"removing member \S+ on LeaveGroup|explicit `LeaveGroup` request "), Cause.MEMBER_LEAVE),
    (re.compile(r"leader \S+ re-?joining group |updating metadata for ", re.IGNORECASE), Cause.LEADER_REJOIN),
)
_CLIENT_REASONS: Sequence[tuple[str, Cause]] = (
    ("cached metadata has changed", Cause.TOPIC_METADATA_CHANGE),
    ("need to revoke partitions ", Cause.COOPERATIVE_FOLLOW_UP),
    ("the subscription has changed", Cause.SUBSCRIPTION_CHANGE),
)
"""Beginnings of the Java client's reasons to join again (``ConsumerCoordinator``)."""

POLL_TIMEOUT = "poll timeout has expired"
"""Reason with which a consumer or a Connect worker leaves after exceeding max.poll.interval.ms."""

NO_REASON = ("not provided", "")
"""Client reasons that say nothing."""

_HEAD = re.compile(r"\[Group(?:Coordinator|MetadataManager) [^\]]*\]:? ?(?:\[Group(?:Id)?[ =][^\]]*\] )?")


class GroupLogLine(NamedTuple):
    """A line of a broker's log about a group, see table ``broker_log``."""

    at_ms: int
    event: str
    epoch: int | None
    member_id: str | None
    member_count: int | None
    reason: str | None
    client_reason: str | None
    broker: int | None
    text: str

    @property
    def order(self) -> tuple[int, int, str, int]:
        """Return the sort key of the line among the lines of its group."""
        return self.at_ms, step_of(self.event, self.epoch), self.text, -1 if self.broker is None else self.broker

    @property
    def words(self) -> str:
        """Return the coordinator's reason if the line begins a rebalance.

        For any other line, return the logged text without its beginning, which names the broker and the group.
        """
        if self.event == BEGIN:
            return self.reason or ""
        return _HEAD.sub("", self.text, count=1)

    def names(self, members: Iterable[str]) -> bool:
        """Return whether the line names one of these members."""
        return any(member == self.member_id or member in self.text for member in members if member)


def step_of(event: str, epoch: int | None) -> int:
    """Return the sort key of a line among lines of the same millisecond.

    Lines without a generation come first. A generation's lines come before lines of the next generation.

    Args:
        event: the event that the line reports.
        epoch: the generation or epoch in the line; None if the line has none.
    """
    return -1 if epoch is None else 3 * epoch + _STEPS.get(event, 0)


def cause_of(reason: str | None) -> Cause | None:
    """Return the cause that the coordinator's reason for a classic rebalance names; None for an unknown reason."""
    return next((cause for words, cause in _COORDINATOR_REASONS if words.match(reason or "")), None)


def rejoin_cause(client_reason: str | None) -> Cause:
    """Return the cause of a rebalance that a member began by joining again.

    The member's own reason decides. Without a known reason, the cause is LEADER_REJOIN.
    """
    return next(
        (cause for words, cause in _CLIENT_REASONS if (client_reason or "").startswith(words)), Cause.LEADER_REJOIN
    )


def fencing_cause(reason: str | None) -> Cause:
    """Return the timeout for which a coordinator fenced a member of a group on a newer protocol."""
    return Cause.SESSION_TIMEOUT if "session expired" in (reason or "") else Cause.REBALANCE_TIMEOUT


def broker_name(broker: int | None) -> str:
    """Return how a sentence names a broker.

    Args:
        broker: id of the broker; None if the line does not have the id.
    """
    return "a broker" if broker is None else f"broker {broker}"
