"""Filters for the groups of a question: by name of the group, client or host of a member, and topic that is read."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial

from coordinator_replay.errors import UsageError
from coordinator_replay.query.groups import group_names
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.query.tables import AS_OF, END, MEMBERS_AS_OF, Tables
from coordinator_replay.times import moment_text

_MEMBERS_IN_RANGE = """
    coalesce(valid_from < $end, true) AND coalesce(valid_to > $start, to_offset IS NULL OR $start IS NULL)
"""

_CLIENTS = """
    SELECT DISTINCT group_id, client_id, ltrim(client_host, '/') FROM member_timeline
    WHERE cluster = $cluster AND {holds}
"""

_STAYS = """
    SELECT group_id, valid_from, valid_to FROM member_timeline WHERE cluster = $cluster AND {} = $name
"""
_OF_CLIENT, _OF_HOST = _STAYS.format("client_id"), _STAYS.format("ltrim(client_host, '/')")

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
        sql: a SELECT that returns the groups of the client or host, with the times of its join and its leave.
        name: client id or host.
        times: the time that the user asks about: ``at``, or ``start`` and ``end``.
    """
    stays = warehouse.rows(sql, name=name)
    first, last = (times["at"], times["at"]) if "at" in times else (times["start"], times["end"])
    example = ", as in groups --at TIME" if "at" in times else ""
    earlier = [(until, group) for group, _, until in stays if until is not None and first and until <= first]
    if earlier:
        until, group = max(earlier)
        return f"it was in group {group!r} until {moment_text(until)}; ask about an earlier time{example}"
    later = [(since, group) for group, since, _ in stays if since is not None and last and since >= last]
    if later:
        since, group = min(later)
        return f"it came into group {group!r} at {moment_text(since)}; ask about a later time{example}"
    return ""


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
