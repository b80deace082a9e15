"""Filters for the groups of a question: by name of the group, client or host of a member, and topic that is read."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

from coordinator_replay.engine.model import GroupState
from coordinator_replay.errors import UsageError
from coordinator_replay.query.groups import group_names, groups_at
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.query.tables import AS_OF, END, MEMBER_END_IS_OPEN, MEMBERS_AS_OF, Tables
from coordinator_replay.times import moment_text

_MEMBERS_IN_RANGE = """
    coalesce(valid_from < $end, true) AND coalesce(valid_to > $start, to_offset IS NULL OR $start IS NULL)
"""

_CLIENTS = """
    SELECT DISTINCT group_id, client_id, ltrim(client_host, '/') FROM member_timeline
    WHERE cluster = $cluster AND {holds}
"""

_STAYS = """
    SELECT group_id, valid_from, valid_to, coalesce(is_begin_open, true), {is_end_open}, coalesce(is_exact, false)
    FROM member_timeline WHERE cluster = $cluster AND {who} = $name
"""
_OF_CLIENT, _OF_HOST = (
    _STAYS.format(who=who, is_end_open=MEMBER_END_IS_OPEN) for who in ("client_id", "ltrim(client_host, '/')")
)

_LOSSES = """
    SELECT DISTINCT group_id FROM group_timeline
    WHERE cluster = $cluster AND event = 'RECORDS_MISSING'
      AND coalesce(log_timestamp >= $start, true) AND coalesce(log_timestamp < $end, true)
"""

_TOPICS = """
    SELECT DISTINCT group_id, topic FROM (
        SELECT group_id, unnest(subscribed_topics) AS topic FROM member_timeline
        WHERE cluster = $cluster AND {members_hold}
        UNION ALL SELECT group_id, unnest(assigned).topic FROM member_timeline
        WHERE cluster = $cluster AND {members_hold}
        UNION ALL SELECT group_id, topic FROM offset_history WHERE cluster = $cluster AND {offsets_hold}
    ) WHERE topic IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Conditions on groups.

    A group must match no pattern of ``excluded``, and one pattern of each other list that is not empty. ``*`` in a
    pattern matches any text.

    Attributes:
        hosts: hosts of members, with or without the slash that Kafka writes before an address.
        clients: client ids of members; one member must have both a wanted host and a wanted client id.
        topics: topics that members subscribe to or own, or that the group has committed offsets of.
        names: names of groups.
        excluded: names of groups to leave out.
    """

    hosts: Sequence[str] = ()
    clients: Sequence[str] = ()
    topics: Sequence[str] = ()
    names: Sequence[str] = ()
    excluded: Sequence[str] = ()

    @property
    def is_everyone(self) -> bool:
        """Return whether no condition is given."""
        return not (self.hosts or self.clients or self.topics or self.names or self.excluded)

    @property
    def options(self) -> list[str]:
        """Return the conditions as options of a command, such as ``["--host", "10.0.0.1"]``."""
        values = {
            "--host": self.hosts,
            "--client": self.clients,
            "--topic": self.topics,
            "--name": self.names,
            "--exclude": self.excluded,
        }
        return [text for option, patterns in values.items() for pattern in patterns for text in (option, pattern)]

    def has_name(self, group: str) -> bool:
        """Return whether the name of a group meets the conditions on names."""
        return (not self.names or _matches(group, self.names)) and not _matches(group, self.excluded)

    def has_client(self, client: str | None, host: str | None) -> bool:
        """Return whether a member with this client id and host meets the conditions on clients and hosts."""
        hosts = [pattern.lstrip("/") for pattern in self.hosts]
        return (not hosts or _matches((host or "").lstrip("/"), hosts)) and (
            not self.clients or _matches(client or "", self.clients)
        )


EVERYONE = Who()
"""No condition."""


class _Stay(NamedTuple):
    """An interval in which a client or host was in a group.

    Attributes:
        is_begin_open: whether it may have been there before ``since``, because records are missing.
        is_end_open: whether it may have been there after ``until``, because records are missing.
        is_exact: whether the log proves the whole interval.
    """

    group: str
    since: datetime | None
    until: datetime | None
    is_begin_open: bool
    is_end_open: bool
    is_exact: bool


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(text == pattern or fnmatchcase(text, pattern) for pattern in patterns)


def groups_at_time(warehouse: Tables, who: Who, at: datetime | None = None) -> set[str] | None:
    """Return the names of the groups that meet conditions at a point in time.

    Return None if there are no conditions: all groups meet them.

    Args:
        warehouse: the tables to read.
        who: the conditions.
        at: the point in time; the end of the log if None.

    Raises:
        UsageError: a condition is a name, not a pattern, and this name is not on record.
    """
    return _groups(warehouse, who, MEMBERS_AS_OF, AS_OF, at=at or END)


def groups_in_range(
    warehouse: Tables, who: Who, start: datetime | None = None, end: datetime | None = None
) -> set[str] | None:
    """Return the names of the groups that meet conditions at some time in a time range.

    Return None if there are no conditions: all groups meet them.

    Args:
        warehouse: the tables to read.
        who: the conditions.
        start: start of the time range; None for the start of the log.
        end: end of the range; None means the end of the log.

    Raises:
        UsageError: a condition is a name, not a pattern, and this name is not on record.
    """
    return _groups(warehouse, who, _MEMBERS_IN_RANGE, _MEMBERS_IN_RANGE, start=start, end=end)


def unknown_members_note(
    warehouse: Tables, who: Who, known: Collection[str] | None, at: datetime | None = None
) -> str | None:
    """Return a note that counts groups that may meet conditions on clients and hosts, in addition to known groups.

    Not all members of these groups at the point in time are on record. Return None if there are no such groups.

    Args:
        warehouse: the tables to read.
        who: the conditions.
        known: the result of ``groups_at_time`` for the same conditions and the same point in time.
        at: the point in time; the end of the log if None.
    """
    if not _asks_for_doubts(warehouse, who):
        return None
    return _doubt_note(who, known, _unknown_members(warehouse, at))


def unknown_members_in_range_note(
    warehouse: Tables,
    who: Who,
    known: Collection[str] | None,
    start: datetime | None = None,
    end: datetime | None = None,
) -> str | None:
    """Return a note as ``unknown_members_note`` does, for a time range.

    Args:
        warehouse: the tables to read.
        who: the conditions.
        known: the result of ``groups_in_range`` for the same conditions and the same time range.
        start: start of the time range; None for the start of the log.
        end: end of the range; None means the end of the log.
    """
    if not _asks_for_doubts(warehouse, who):
        return None
    # Where a group's members are not on record later in the range, its timeline has an event.
    lost = {group for (group,) in warehouse.rows(_LOSSES, start=start, end=end)}
    return _doubt_note(who, known, lost | _unknown_members(warehouse, start or warehouse.coverage.first))


def _asks_for_doubts(warehouse: Tables, who: Who) -> bool:
    return bool(who.hosts or who.clients) and not warehouse.completeness.is_whole


def _unknown_members(warehouse: Tables, at: datetime | None) -> set[str]:
    """Return the groups that may have had members at a point in time that are not on record."""
    # Whether a group is Empty is proven even if its offsets are not.
    return {
        group.group_id for group in groups_at(warehouse, at) if not group.is_exact and group.state != GroupState.EMPTY
    }


def _doubt_note(who: Who, known: Collection[str] | None, doubtful: Collection[str]) -> str | None:
    count = sum(who.has_name(group) for group in set(doubtful).difference(known or ()))
    if not count:
        return None
    groups_may, their = ("1 more group may", "its") if count == 1 else (f"{count:,} more groups may", "their")
    return f"{groups_may} match: not all of {their} members at that time are on record."


def _groups(
    warehouse: Tables, who: Who, members_hold: str, offsets_hold: str, **times: datetime | None
) -> set[str] | None:
    if who.is_everyone:
        return None
    every = group_names(warehouse)
    for name in who.names:
        _check(name, every, "group")
    chosen = {name for name in every if who.has_name(name)}
    if who.hosts or who.clients:
        when = "at the end of the log" if times.get("at") == END else "at that time"
        clients = warehouse.rows(_CLIENTS.replace("{holds}", members_hold), **times)
        for host in who.hosts:
            name, known = host.lstrip("/"), [found_host for *_, found_host in clients]
            hint = partial(_other_time, warehouse, _OF_HOST, name, **times)
            _check(name, known, "host of a member", hint, when=when)
        for client in who.clients:
            known = [found_client for _, found_client, _ in clients]
            hint = partial(_other_time, warehouse, _OF_CLIENT, client, **times)
            _check(client, known, "client id", hint, when=when)
        chosen &= {group for group, client, host in clients if who.has_client(client, host)}
    if who.topics:
        sql = _TOPICS.replace("{members_hold}", members_hold).replace("{offsets_hold}", offsets_hold)
        topics = warehouse.rows(sql, **times)
        for topic in who.topics:
            _check(topic, [found_topic for _, found_topic in topics], "topic")
        chosen &= {group for group, topic in topics if _matches(topic, who.topics)}
    return chosen


def is_pattern(text: str) -> bool:
    """Return whether a text is a pattern, which may match several names."""
    return any(sign in text for sign in "*?[")


def _other_time(warehouse: Tables, sql: str, name: str, **times: datetime | None) -> str:
    """Return a hint that a client or host was in a group before or after the time that the user asks about.

    Return an empty text if the client or host was in no group before or after this time.

    Args:
        warehouse: the tables to read.
        sql: a SELECT that returns the groups of the client or host, with the columns of ``_Stay``.
        name: client id or host.
        times: the time that the user asks about: ``at``, or ``start`` and ``end``.
    """
    stays = [_Stay(*row) for row in warehouse.rows(sql, name=name)]
    first, last = (times["at"], times["at"]) if "at" in times else (times["start"], times["end"])
    example = ", as in groups --at TIME" if "at" in times else ""
    earlier = [(stay.until, stay) for stay in stays if stay.until is not None and first and stay.until <= first]
    if earlier:
        return f"{_end(*max(earlier, key=_by_time))}; ask about an earlier time{example}"
    later = [(stay.since, stay) for stay in stays if stay.since is not None and last and stay.since >= last]
    if later:
        return f"{_begin(*min(later, key=_by_time))}; ask about a later time{example}"
    return ""


def _by_time(timed: tuple[datetime, _Stay]) -> tuple[datetime, str]:
    """Return the sort key of a stay and one of its times. The other time of the stay may be null."""
    at, stay = timed
    return at, stay.group


def _end(until: datetime, stay: _Stay) -> str:
    """Return a clause that says until when a client or host was in a group, as far as the log proves it."""
    if not stay.is_exact:
        return f"it may have been in group {stay.group!r} until {moment_text(until)}: records of that time are missing"
    was_there = f"it was in group {stay.group!r} until {moment_text(until)}"
    return f"{was_there} at least: from then on records of the group are missing" if stay.is_end_open else was_there


def _begin(since: datetime, stay: _Stay) -> str:
    """Return a clause that says since when a client or host was in a group, as far as the log proves it."""
    if stay.is_begin_open:
        return f"it is first on record in group {stay.group!r} at {moment_text(since)}, and may have been there before"
    return f"it came into group {stay.group!r} at {moment_text(since)}"


def _check(
    pattern: str,
    known: Iterable[str | None],
    what: str,
    other_time: Callable[[], str] = str,
    *,
    when: str = "at that time",
) -> None:
    """Check that the name in a condition is on record. A pattern with ``*`` always passes.

    Args:
        pattern: the name or pattern.
        known: the names on record at the time that the user asks about.
        what: kind of the name, for the error message, such as ``client id``.
        other_time: a function that returns a hint for the error message: another time at which the name is on record.
            It returns an empty text if there is no such time.
        when: the time that the user asks about, in words, for the error message.

    Raises:
        UsageError: the name is not on record.
    """
    names = sorted({name for name in known if name is not None})
    if is_pattern(pattern) or pattern in names:
        return
    hint = other_time() or did_you_mean(pattern, names)
    raise UsageError(f"no {what} {pattern!r} is on record {when}{hint and f': {hint}'}")


def named_groups(warehouse: Tables, typed: Sequence[str], there: Sequence[str]) -> list[str]:
    """Replace each pattern among names of groups by the groups that match it. Return all names, sorted.

    Args:
        warehouse: the tables to read.
        typed: names and patterns with ``*``.
        there: names of the groups that the patterns are compared with.

    Raises:
        UsageError: a pattern matches no group.
    """
    known = set(group_names(warehouse))
    chosen: set[str] = set()
    for name in typed:
        if name in known or not is_pattern(name):
            chosen.add(name)
            continue
        matching = {group for group in there if fnmatchcase(group, name)}
        if not matching:
            raise UsageError(f"no group at that time matches {name!r}")
        chosen |= matching
    return sorted(chosen)
