"""The true causes of recorded rebalances, from the broker's log and the journal of the clients.

The broker logs a reason for every rebalance of a classic group. For groups on newer protocols, it logs the members that
came and went, and the epoch. If its log leaves a cause open (a leader joins again), the client's own reason decides, or
an action in the journal.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinator_replay.analysis.reasons.vocabulary import Cause

Line = Mapping[str, Any]

FOLLOWS_WITHIN_MS = 200
"""Longest time until a member of a cooperative group joins again, after it had to give partitions up."""

ACTS_WITHIN_MS = 15_000
"""Longest time until an action on a client or topic shows in the group."""


class Truth(NamedTuple):
    """A rebalance that the broker logged.

    Attributes:
        group: the group.
        epoch: the generation or epoch to which the rebalance led.
        cause: the true cause.
        accepted: causes that count as right: the true cause, and more exact causes.
        text: the log line that shows the cause.
    """

    group: str
    epoch: int
    cause: Cause
    accepted: frozenset[Cause]
    text: str


_OF_TOPICS = ("partitions_increased", "topic_created", "topic_deleted")
_MEMBER = r"(?P<member>\S+?)"
STARTS = re.compile(
    r"Preparing to rebalance group (?P<group>\S+) .*old generation (?P<old>\d+)[^(]*.*\(reason: (?P<why>.*)\)\.?$"
)
SYNCED = re.compile(r"Assignment received from leader .*for group (?P<group>\S+) for generation (?P<epoch>\d+)\.")
EMPTIED = re.compile(r"Group (?P<group>\S+) with generation (?P<epoch>\d+) is now empty")
_HEAD = re.compile(r"^\[Group(?:Id)? (?P<group>[^\]]+)\](?:\[MemberId (?P<id>[^\]]+)\])? (?P<rest>.*)$", re.DOTALL)
_BUMPED = re.compile(r"Bumped (?:streams )?group epoch to (?P<epoch>\d+)(?: with metadata hash (?P<hash>-?\d+))?")
_TARGET = re.compile(r"Computed a new target assignment for epoch (?P<epoch>\d+) ")
_JOINS = re.compile(rf"(?:Static |Dynamic )?[Mm]ember {_MEMBER} (?:with instance id (?P<instance>\S+) )?joins the ")
_LEFT = re.compile(
    rf"(?:Static |Dynamic )?[Mm]ember {_MEMBER} (?:with instance id \S+ )?(?:left the|has left group through explicit)"
)
_FENCED = re.compile(rf"Member {_MEMBER} fenced from the group because (?P<why>.*)")
_SUBSCRIBED = re.compile(rf"Member {_MEMBER} updated its subscribed topics to")
_ADDING = re.compile(
    rf"adding new member {_MEMBER} with group instance id (?P<instance>[^;\s]+?)(?:;|$)", re.IGNORECASE
)
_MADE = re.compile(
    r"(?:groupInstanceId=(?P<instance>\S+) and )?unknown member id joins group (?P<group>\S+) in \S+ state\. "
    r"Created a new member id (?P<member>\S+)"
)
_DELETED = re.compile(r"The following groups were deleted: (?P<groups>.*)\. A total of")
_CLIENT_REASON = re.compile(r"client reason: (?P<reason>.*?)\)?\.?$")


@dataclass
class _Classic:
    """A rebalance of a classic group that has begun and is not over."""

    cause: Cause
    accepted: frozenset[Cause]
    text: str


class Witness:
    """A reader of a broker's log."""

    def __init__(self, journal: Sequence[Line], clients: Mapping[str, str]) -> None:
        self.journal = journal
        self.clients = clients
        self.found: list[Truth] = []
        self._running: dict[str, _Classic] = {}
        self._news: dict[str, list[tuple[Cause, str, str]]] = {}
        self._epochs: dict[str, int] = {}
        self._hashes: dict[str, str] = {}
        self._known: dict[str, set[str]] = {}
        self._gone_ms: dict[tuple[str, str], int] = {}
        self._polled_late: set[tuple[str, str]] = set()
        self._synced_ms: dict[str, int] = {}
        self._classic_groups: set[str] = set()
        self._joining: dict[str, list[tuple[str, str | None]]] = {}

    def read(self, log: Sequence[Line]) -> list[Truth]:
        """Return all rebalances whose end a log shows."""
        for line in log:
            self._classic(line["text"], line["at"])
            head = _HEAD.match(line["text"])
            if head is not None:
                self._modern(head["group"], head["id"], head["rest"], line["at"])
            self._departure(line["text"], line["at"])
            self._deletion(line["text"])
        for group in list(self._news):
            self._flush(group, 0)
        return self.found

    # --- classic groups -------------------------------------------------------------------------------------------

    def _classic(self, text: str, at_ms: int) -> None:
        made = _MADE.search(text)
        if made is not None:
            self._joining.setdefault(made["group"], []).append((made["member"], made["instance"]))
        starts = STARTS.search(text)
        if starts is not None:
            group, why = starts["group"], starts["why"]
            self._news.pop(group, None)
            cause, accepted = self._why(group, int(starts["old"]), why, text, at_ms)
            self._running[group] = _Classic(cause, accepted | {cause}, text)
            return
        over = SYNCED.search(text) or EMPTIED.search(text)
        if over is not None and over["group"] in self._running:
            one = self._came_back(over["group"], self._running.pop(over["group"]), at_ms)
            self.found.append(Truth(over["group"], int(over["epoch"]), one.cause, one.accepted, one.text))
            self._epochs[over["group"]] = int(over["epoch"])
            self._synced_ms[over["group"]] = at_ms
            (self._classic_groups.add if SYNCED.search(text) else self._classic_groups.discard)(over["group"])
            for member, instance in self._joining.pop(over["group"], []):
                self._remember(over["group"], [member], instance)

    def _came_back(self, group: str, one: _Classic, at_ms: int) -> _Classic:
        """Return a rebalance. The cause becomes a restart if a client left and joined again during the rebalance."""
        joining = {instance or self.clients.get(member, member) for member, instance in self._joining.get(group, [])}
        left = {client for member, client in self.clients.items() if member in one.text and client in joining}
        if one.cause is not Cause.MEMBER_LEAVE or not left:
            return one
        changed = [self._changes(group, client, at_ms - ACTS_WITHIN_MS, at_ms) for client in left]
        return _Classic(Cause.MEMBER_RESTART, frozenset({Cause.MEMBER_RESTART}).union(*changed), one.text)

    def _why(self, group: str, old: int, why: str, text: str, at_ms: int) -> tuple[Cause, frozenset[Cause]]:
        adding = _ADDING.search(why)
        if adding is not None:
            # Scala's coordinator logs an Option.
            named = adding["instance"].removeprefix("Some(").removesuffix(")")
            instance = None if named in ("null", "None") else named
            return self._arrival(group, adding["member"], instance, is_first=old == 0, at_ms=at_ms)
        lowered = why.lower()
        if "heartbeat expiration" in lowered:
            return Cause.SESSION_TIMEOUT, frozenset()
        if "leavegroup" in lowered:
            return Cause.MEMBER_LEAVE, self._late(group, why, at_ms)
        if "downgrade" in lowered:
            return Cause.GROUP_CONVERSION, frozenset()
        if "selectedprotocol will change" in lowered:
            return Cause.PROTOCOL_CHANGE, frozenset()
        return self._rejoin(group, text, at_ms), frozenset()

    def _rejoin(self, group: str, text: str, at_ms: int) -> Cause:
        """Return why a member of a Stable group joins again, from the client's reason or else from the journal."""
        given = _CLIENT_REASON.search(text)
        reason = given["reason"] if given is not None else "not provided"
        if "cached metadata has changed" in reason:
            return Cause.TOPIC_METADATA_CHANGE
        if "need to revoke partitions" in reason:
            return Cause.COOPERATIVE_FOLLOW_UP
        if "subscription has changed" in reason:
            return Cause.SUBSCRIPTION_CHANGE
        if reason.rstrip(").") != "not provided":
            return Cause.LEADER_REJOIN
        if at_ms - self._synced_ms.get(group, 0) <= FOLLOWS_WITHIN_MS:
            return Cause.COOPERATIVE_FOLLOW_UP
        acts = [act for act in self.journal if at_ms - ACTS_WITHIN_MS <= act["at"] <= at_ms]
        for act in reversed(acts):
            if act["action"] == "subscription_changed" and act["group"] == group:
                return Cause.SUBSCRIPTION_CHANGE
            if act["action"] in _OF_TOPICS and not self._is_of_another(act["topic"], group):
                return Cause.TOPIC_METADATA_CHANGE
        return Cause.LEADER_REJOIN

    def _is_of_another(self, topic: str, group: str) -> bool:
        """Return whether a topic belongs to another group. Topics of the lab's lives begin with their group's id."""
        others = {act["group"] for act in self.journal} - {None, group}
        return any(topic.startswith(f"{other}.") for other in others)

    # --- groups on newer protocols --------------------------------------------------------------------------------

    def _modern(self, group: str, member: str | None, rest: str, at_ms: int) -> None:
        bumped, target = _BUMPED.search(rest), _TARGET.search(rest)
        if bumped is not None:
            self._bump(group, int(bumped["epoch"]), bumped["hash"], rest, at_ms)
        elif target is not None and int(target["epoch"]) > self._epochs.get(group, 0):
            self._flush(group, at_ms)
        elif "Converted the classic group" in rest:
            self._news.setdefault(group, []).append((Cause.GROUP_CONVERSION, "", rest))
        elif "Converted the consumer group" in rest:
            self._news.pop(group, None)
        elif "joins the" in rest and "re-joins" not in rest and "unknown member id" not in rest:
            self._flush(group, at_ms)
            joins = _JOINS.search(rest)
            name = member or (joins["member"] if joins is not None else "")
            if name not in self._known.get(group, set()):
                self._news.setdefault(group, []).append((Cause.MEMBER_JOIN, name, rest))
        elif _SUBSCRIBED.search(rest) is not None:
            self._news.setdefault(group, []).append((Cause.SUBSCRIPTION_CHANGE, "", rest))
        elif _LEFT.search(rest) is not None and "temporarily" not in rest:
            self._flush(group, at_ms)
            self._news.setdefault(group, []).append((Cause.MEMBER_LEAVE, "", rest))
        elif (fenced := _FENCED.search(rest)) is not None:
            self._flush(group, at_ms)
            late = "failed to transition" in fenced["why"]
            self._news.setdefault(group, []).append(
                (Cause.REBALANCE_TIMEOUT if late else Cause.SESSION_TIMEOUT, "", rest)
            )

    def _flush(self, group: str, at_ms: int) -> None:
        """Note the new epoch after a departure. Some versions of Kafka do not log it, but the next line implies it."""
        news = self._news.get(group) or []
        departures = (Cause.MEMBER_LEAVE, Cause.SESSION_TIMEOUT, Cause.REBALANCE_TIMEOUT)
        if any(cause in departures for cause, _, _ in news):
            self._bump(group, self._epochs.get(group, 0) + 1, None, news[-1][2], at_ms)

    def _bump(self, group: str, epoch: int, hash_: str | None, text: str, at_ms: int) -> None:
        news = self._news.pop(group, [])
        known = {cause: (member, line) for cause, member, line in reversed(news)}
        accepted: frozenset[Cause] = frozenset()
        old_hash, self._hashes[group] = self._hashes.get(group), hash_ or self._hashes.get(group, "")
        # Kafka 3.9 does not log a conversion. It shows in a classic group with members that now has a group epoch.
        is_converted = group in self._classic_groups
        self._classic_groups.discard(group)
        if Cause.GROUP_CONVERSION in known or is_converted:
            cause = Cause.GROUP_CONVERSION
            self._remember(group, [member for _, member, _ in news if member])
        elif Cause.MEMBER_JOIN in known:
            member, text = known[Cause.MEMBER_JOIN]
            joins = _JOINS.search(text)
            instance = joins["instance"] if joins is not None else None
            is_first = group not in self._epochs
            cause, accepted = self._arrival(group, member, instance, is_first=is_first, at_ms=at_ms)
        elif known:
            cause, (_, text) = next(iter(known.items()))
            accepted = self._late(group, text, at_ms) if cause is Cause.MEMBER_LEAVE else frozenset()
        else:
            cause = self._unsaid(group, old_hash == hash_, at_ms)
        self._epochs[group] = epoch
        self.found.append(Truth(group, epoch, cause, accepted | {cause}, text))

    def _unsaid(self, group: str, is_same_hash: bool, at_ms: int) -> Cause:
        """Return the cause of a new epoch for which the log has no other line."""
        if is_same_hash:
            return Cause.SHARE_PARTITIONS_READY
        for act in reversed(self.journal):
            is_near = at_ms - 3_000 <= act["at"] <= at_ms
            if is_near and act["action"] == "subscription_changed" and act["group"] == group:
                return Cause.SUBSCRIPTION_CHANGE
        return Cause.TOPIC_METADATA_CHANGE

    # --- who came back --------------------------------------------------------------------------------------------

    def _arrival(
        self, group: str, member: str, instance: str | None, *, is_first: bool, at_ms: int
    ) -> tuple[Cause, frozenset[Cause]]:
        who = instance or self.clients.get(member, member)
        is_known = who in self._known.get(group, set())
        self._remember(group, [member], instance)
        if is_first:
            return Cause.GROUP_CREATED, frozenset()
        if not is_known:
            return Cause.MEMBER_JOIN, frozenset()
        if (group, who) in self._polled_late or self._last_act(group, who, at_ms) == "stall":
            self._polled_late.discard((group, who))
            return Cause.POLL_TIMEOUT_REJOIN, frozenset()
        return Cause.MEMBER_RESTART, self._changes(group, who, self._gone_ms.get((group, who), 0), at_ms)

    def _late(self, group: str, text: str, at_ms: int) -> frozenset[Cause]:
        """Return the more exact cause of a leave, if the client left because it had not polled for too long."""
        clients = {client for member, client in self.clients.items() if member in text}
        late = any(
            (group, client) in self._polled_late or self._last_act(group, client, at_ms) == "stall"
            for client in clients
        )
        return frozenset({Cause.POLL_TIMEOUT_REJOIN}) if late else frozenset()

    def _last_act(self, group: str, client: str, at_ms: int) -> str | None:
        acts = [act for act in self.journal if act["at"] <= at_ms and act["group"] == group]
        return next((act["action"] for act in reversed(acts) if act.get("member") == client), None)

    def _changes(self, group: str, client: str, since_ms: int, at_ms: int) -> frozenset[Cause]:
        """Return the more exact causes of a restart, if the client got another protocol or assignor."""
        acts = [
            act["action"]
            for act in self.journal
            if act["group"] == group and act.get("member") == client and since_ms <= act["at"] <= at_ms
        ]
        upgraded = any(act.startswith("upgrade_") or act == "assignor_list" for act in acts)
        downgraded = any(act.startswith("downgrade_") for act in acts)
        return frozenset(
            cause for cause, is_so in ((Cause.CLIENT_UPGRADE, upgraded), (Cause.CLIENT_DOWNGRADE, downgraded)) if is_so
        )

    def _remember(self, group: str, members: Sequence[str], instance: str | None = None) -> None:
        known = self._known.setdefault(group, set())
        for member in members:
            known.update({member, instance or self.clients.get(member, member)})

    def _deletion(self, text: str) -> None:
        """Forget groups that are deleted."""
        deleted = _DELETED.search(text)
        for group in deleted["groups"].split(", ") if deleted is not None else ():
            for known in (self._epochs, self._known, self._news, self._hashes):
                known.pop(group, None)

    def _departure(self, text: str, at_ms: int) -> None:
        """Note when a client left, and whether its reason was a late poll."""
        for member, client in self.clients.items():
            if member in text and ("has left" in text or "left the" in text or "fenced" in text):
                for group in (group for group, known in self._known.items() if member in known):
                    self._gone_ms[group, client] = at_ms
                    # A member of a consumer group keeps its id when it joins again.
                    self._known[group].discard(member)
                    if "poll timeout has expired" in text:
                        self._polled_late.add((group, client))
