"""Answers about offsets that retention removes."""

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted
from coordinator_replay.query.answers.answered import Answered, nothing_note, on_record
from coordinator_replay.query.basis import basis_from
from coordinator_replay.query.choices import STATUSES, chosen
from coordinator_replay.query.expired import (
    ExpiredOffset,
    applied_retention,
    expired_offsets,
    looked_note,
    looked_until,
)
from coordinator_replay.query.tables import Tables
from coordinator_replay.query.unread_subscriptions import unexpiring_note, unread_at_end
from coordinator_replay.query.who import Who, groups_at_time, unknown_members_note
from coordinator_replay.times import moment_text


@dataclass(frozen=True, slots=True)
class Expiry:
    """Offsets that expired or are about to expire.

    Attributes:
        offsets: the offsets, the earliest first.
        looked_until: the answer has the offsets that will expire before this time. None if the time is unknown, or if
            the user asked only for offsets that have expired.
    """

    offsets: Sequence[ExpiredOffset]
    looked_until: datetime | None


def expired(
    warehouse: Tables,
    group: str | None,
    *,
    statuses: Sequence[str],
    within: timedelta | None,
    until: datetime | None,
    who: Who,
) -> Answered[Expiry]:
    """Return offsets that expired or will expire soon, the earliest first.

    Args:
        warehouse: the tables to read.
        group: only offsets of this group; None for all groups.
        statuses: only offsets with one of these statuses; empty for all statuses.
        within: of the offsets that have not expired, only those that expire within this duration after the end of the
            log.
        until: of the offsets that have not expired, only those that expire up to this time.
        who: only offsets of groups that meet these conditions at the end of the log.

    Raises:
        UsageError: both ``within`` and ``until`` are given, or ``until`` lies before the end of the log.
    """
    wanted = [chosen(status.upper(), STATUSES, "status") for status in statuses]
    if until is not None:
        within = _up_to(warehouse, until, within)
    names = groups_at_time(warehouse, who)
    found = expired_offsets(warehouse, group, statuses=wanted, within=within)
    shown = [offset for offset in found if names is None or offset.group_id in names]
    is_past = bool(wanted) and set(wanted) == {"EXPIRED"}
    limit = None if is_past else looked_until(warehouse, within)
    # If the answer is empty, a note says so already.
    has_none = bool(shown) and _has_none(shown, wanted)
    none_expires = None
    if within is not None and not shown and not wanted:
        none_expires = _none_expires_note(warehouse, group, limit, who, names)
    looked = looked_note(limit, is_chosen=within is not None, has_none=has_none)
    notes = [
        _retention_note(warehouse, shown, is_past=is_past),
        *([none_expires] if none_expires else [looked, nothing_note(warehouse, _what(wanted), shown, group)]),
        unknown_members_note(warehouse, who, names) if group is None else None,
        unexpiring_note(unread_at_end(warehouse, group)),
    ]
    return Answered(content=Expiry(shown, limit), notes=notes, basis=basis_from(warehouse, group=group))


def _what(wanted: Sequence[str]) -> str:
    """Return the words for an offset with one of several statuses, such as "EXPIRED or DUE offset".

    Args:
        wanted: the statuses that the user asked for; empty for all statuses.
    """
    return f"{' or '.join(wanted)} offset" if wanted else "expired or expiring offset"


def _none_expires_note(
    warehouse: Tables, group: str | None, limit: datetime | None, who: Who, names: Collection[str] | None
) -> str | None:
    """Return a note that says that no offset expires up to ``limit``, and how many expired before the end of the log.

    Return None if ``limit`` is None.

    Args:
        warehouse: the tables to read.
        group: the group that the user asks about; None for all groups.
        limit: a time after the end of the log; None if unknown.
        who: conditions on groups that the user gave.
        names: the groups that meet these conditions; None if there are no conditions.
    """
    if limit is None:
        return None
    offsets = expired_offsets(warehouse, group, statuses=["EXPIRED"])
    gone = [offset for offset in offsets if names is None or offset.group_id in names]
    verb = "expired" if all(offset.confidence == "certain" for offset in gone) else "expired, or may have expired,"
    asked = shlex.join(["expired", *filter(None, [group]), *who.options, "--status", "EXPIRED"])
    earlier = f" {counted(len(gone), 'offset')} {verb} before: {asked}." if gone else ""
    of_groups = " of these groups" if names is not None else "" if group is None else f" of {group}"
    return (
        f"No offset{of_groups}{on_record(warehouse, group)} is due, or expires by {moment_text(limit)} if groups stay "
        f"as they are at the end of the log.{earlier}"
    )


def _has_none(shown: Sequence[ExpiredOffset], wanted: Sequence[str]) -> bool:
    """Return whether the user asked for offsets that have not expired, and the answer has only expired offsets.

    Args:
        shown: the offsets of the answer.
        wanted: the statuses that the user asked for, such as ``EXPIRED``; empty for all statuses.
    """
    return (not wanted or any(status != "EXPIRED" for status in wanted)) and all(
        offset.status == "EXPIRED" for offset in shown
    )


def _retention_note(warehouse: Tables, shown: Sequence[ExpiredOffset], *, is_past: bool) -> str | None:
    """Return a note on the retention from which the last audit computed when offsets expire.

    Return None if the user gave the audit this retention, or if the answer has only expired offsets and the retention
    is Kafka's default.

    Args:
        warehouse: the tables to read.
        shown: rows of the answer.
        is_past: whether the user asked for expired offsets only.
    """
    retention = applied_retention(warehouse)
    is_over = is_past or (bool(shown) and all(offset.status == "EXPIRED" for offset in shown))
    if not retention.is_known and is_over:
        return None
    return retention.note or None


def _up_to(warehouse: Tables, until: datetime, within: timedelta | None) -> timedelta:
    """Return the duration from the end of the log to a time.

    Raises:
        UsageError: the user also gave ``within``, or the time lies before the end of the log.
    """
    if within is not None:
        raise UsageError("give either within or until")
    end = warehouse.coverage.last
    if until < end:
        raise UsageError(f"{moment_text(until)} lies before the end of the log, {moment_text(end)}: it ends there")
    return until - end
