"""Judges causes by random lives on the simulated coordinator, which knows what set off each rebalance."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.analysis.reasons.signs import DEPARTURES, SIGNS_WITHIN_MS
from coordinator_replay.analysis.reasons.topic_changes import NO_CHANGES
from coordinator_replay.analysis.reasons.vocabulary import Cause, Confidence
from coordinator_replay.engine.model import Marker, Record
from coordinator_replay.records.blobs import open_blobs
from coordinator_replay.simulation.coordinator import BatchWritten, EpochBumped, RebalanceStarted
from coordinator_replay.simulation.coordinator.truth import TriggerKind
from scripts.reasons.true_facts import Witness
from scripts.world.cluster import TRIGGERS_A_LIFE
from scripts.world.consumers import LEFT_BY_POLL_TIMEOUT
from scripts.world.life import Life, Sender
from scripts.world.mixes import HELD_OUT, MIXES, Mix

FIRST_EPOCH = 2
"""Epoch of a consumer group's first member since Kafka 4.2."""

PAGE_REBALANCES = 400

MOST_A_LIFE = 40
"""Rebalances of a life that are judged: one whose members can't join in time goes on rebalancing."""

Row = Mapping[str, Any]


class Verdict(NamedTuple):
    """A rebalance that was found, and what set it off.

    Attributes:
        seed: seed of the life.
        row: the row of ``rebalances``.
        truth: the cause; None where nothing set this off.
        accepted: what counts as right: the truth, and causes that say the same with more or fewer words.
        why: Kafka's own reason.
        false: facts of its evidence that are not true.
    """

    seed: int
    row: Row
    truth: Cause | None
    accepted: frozenset[Cause]
    why: str
    false: tuple[Row, ...] = ()

    @property
    def is_right(self) -> bool:
        """The row names the cause."""
        return self.row["cause"] in self.accepted

    @property
    def is_open(self) -> bool:
        """The row says that the log does not show the cause."""
        return bool(self.row["cause"] == Cause.UNKNOWN)

    @property
    def is_among(self) -> bool:
        """The cause is named, or among the alternatives; an open row claims nothing."""
        return self.is_right or self.is_open or not self.accepted.isdisjoint(map(Cause, self.row["alternatives"]))


def rebalances(life: Life) -> list[Row]:
    """Return the rows of ``rebalances`` that an audit makes of a life."""
    replay = GroupReplay("simulated", life.group, life.names, NO_CHANGES)
    commits: dict[tuple[str, int], tuple[int, int, int]] = {}
    rows: list[Row] = []
    for record in life.written:
        if isinstance(record, Marker):
            continue
        if record.kind == "OffsetCommit":
            if record.value is not None:
                place = (record.key["topic"], record.key["partition"])
                commits[place] = (record.timestamp_ms or 0, record.partition, record.offset)
            continue
        at_ms = record.timestamp_ms or 0
        if DEPARTURES.get(record.kind) is (record.value is None):
            recent = [(*key, *sign) for key, sign in commits.items() if at_ms - sign[0] <= SIGNS_WITHIN_MS]
            replay.heed_commits(record.offset, recent)
            commits = {}
        opened = record._replace(value=open_blobs(record.kind, record.value))
        rows += [row for table, row in replay.feed(opened) if table == "rebalances"]
    return rows + [row for table, row in replay.finish() if table == "rebalances"]


class _Cause(NamedTuple):
    truth: Cause | None
    accepted: frozenset[Cause]
    why: str


class _Found(NamedTuple):
    """What set off the rebalance that led to a generation or epoch, the first of it first."""

    at_ms: int
    causes: list[_Cause]


Truths = dict[tuple[str, int], list[_Found]]
"""By protocol and generation or epoch; a group that was deleted has it again."""


def judge(seed: int, mix: Mix) -> Iterator[Verdict]:
    """Judge every rebalance that an audit finds in a life."""
    life = Life(seed, mix).run(TRIGGERS_A_LIFE)
    yield from judge_rows(seed, life, rebalances(life)[:MOST_A_LIFE])


def judge_rows(seed: int, life: Life, rows: Iterable[Row]) -> Iterator[Verdict]:
    """Judge some rows of ``rebalances``, whose times are in milliseconds."""
    truths, witness = _truths(life), Witness(life)
    for row in rows:
        causes = _nearest(truths, row)
        accepted = frozenset[Cause]().union(*(cause.accepted for cause in causes))
        first = causes[0] if causes else _Cause(None, accepted, "")
        yield Verdict(seed, row, first.truth, accepted, first.why, tuple(witness.false_facts(row)))


def _nearest(truths: Truths, row: Row) -> list[_Cause]:
    """Return the causes of the rebalance that led to a row's epoch at about its time."""
    found = truths.get((str(row["group_type"]), row["epoch"]), [])
    at_ms = row["started_at"] if row["started_at"] is not None else row["completed_at"]
    return min(found, key=lambda one: abs(one.at_ms - (at_ms or 0))).causes if found else []


def _truths(life: Life) -> Truths:
    """Return what set off each rebalance."""
    records = {record.offset: record for record in life.written if isinstance(record, Record)}
    found: Truths = defaultdict(list)
    waiting: list[_Cause] = []
    pending: dict[int, _Cause] = {}
    converted_ms, last_epoch = -1, 0
    for number, event in enumerate(life.truth):
        if isinstance(event, RebalanceStarted):
            waiting.append(_cause(event, life.senders.get(number)))
        elif isinstance(event, EpochBumped):
            pending[event.epoch] = cause = _cause_of_epoch(event, life.senders.get(number), last_epoch)
            last_epoch = event.epoch
            if cause.truth is Cause.GROUP_CONVERSION:
                converted_ms = event.at_ms
            elif event.trigger.kind is TriggerKind.JOB and converted_ms == event.at_ms:
                # The heartbeat that converted the group asked for its expression to be resolved.
                accepted = cause.accepted | {Cause.GROUP_CONVERSION}
                pending[event.epoch] = cause._replace(accepted=accepted)
        elif isinstance(event, BatchWritten):
            batch = [records[at] for at in range(event.first_offset, event.last_offset + 1) if at in records]
            if pending:
                _add_epochs(found, pending, batch, event.at_ms)
                pending = {}
            for record in batch:
                # The record of a group that was just created has no generation yet.
                if record.kind == "GroupMetadata" and record.value and record.value["generation"] and waiting:
                    found["classic", record.value["generation"]].append(_Found(event.at_ms, waiting))
                    # What converts a group back sets off the rebalance that follows, too.
                    waiting = list(waiting) if len(batch) > 1 else []
    return found


def _cause_of_epoch(event: EpochBumped, sender: Sender | None, last_epoch: int) -> _Cause:
    """Return the cause of an epoch; one that follows that of a conversion is no group's first one."""
    cause = _cause(event, sender)
    if cause.truth is Cause.GROUP_CREATED and event.epoch == last_epoch + 1:
        return _arrival(event.reason, sender, is_first=False)
    return cause


def _add_epochs(found: Truths, pending: Mapping[int, _Cause], batch: Sequence[Record], at_ms: int) -> None:
    """Add what set off the epochs of a batch; one that converts a group has those of both its steps."""
    causes = [pending[epoch] for epoch in sorted(pending)]
    written = {record.value["epoch"] for record in batch if record.kind == "ConsumerGroupMetadata" and record.value}
    for epoch in {max(pending), *written}:
        found["consumer", epoch].append(_Found(at_ms, causes))


def _cause(event: RebalanceStarted | EpochBumped, sender: Sender | None) -> _Cause:
    why, trigger = event.reason, event.trigger
    if "Downgrade group" in why or "Converted the" in why:
        conversion = _known(Cause.GROUP_CONVERSION, why)
        # The member that converts a group back may raise its epoch by that, too.
        others = _return(why).accepted if "re-joins" in why else frozenset[Cause]()
        if "Converted the empty" in why:
            others |= {Cause.GROUP_CREATED}
        return conversion._replace(accepted=conversion.accepted | others)
    if "on heartbeat expiration" in why or "session expired" in why:
        return _known(Cause.SESSION_TIMEOUT, why)
    if "pending sync request" in why or "fenced from the group" in why:
        return _known(Cause.REBALANCE_TIMEOUT, why)
    if "explicit `LeaveGroup`" in why or "left the consumer group" in why:
        is_late = sender is not None and sender.ended == LEFT_BY_POLL_TIMEOUT
        extra = {Cause.POLL_TIMEOUT_REJOIN} if is_late else set()
        return _known(Cause.MEMBER_LEAVE, why, *extra, Cause.MEMBER_RESTART)
    if "Adding new member" in why or "joins the consumer group" in why:
        is_first = event.generation == 0 if isinstance(event, RebalanceStarted) else event.epoch <= FIRST_EPOCH
        return _arrival(why, sender, is_first=is_first)
    if "static member" in why.lower():
        return _return(why)
    if trigger.kind is TriggerKind.JOB:
        # Expressions are resolved for a member that joined, or asked for another one, or since topics are others.
        is_first = isinstance(event, EpochBumped) and event.epoch <= FIRST_EPOCH
        joined = _arrival(why, sender, is_first=is_first).accepted
        return _known(Cause.TOPIC_METADATA_CHANGE, why, Cause.SUBSCRIPTION_CHANGE, *joined)
    if isinstance(event, EpochBumped):
        is_subscription = "updated its subscribed" in why
        return _known(Cause.SUBSCRIPTION_CHANGE if is_subscription else Cause.TOPIC_METADATA_CHANGE, why)
    return _rejoin(why, sender)


def _known(cause: Cause, why: str, *others: Cause) -> _Cause:
    return _Cause(cause, frozenset({cause, *others}), why)


def _arrival(why: str, sender: Sender | None, *, is_first: bool) -> _Cause:
    if is_first:
        return _known(Cause.GROUP_CREATED, why)
    if sender is None or not sender.has_been_member:
        migrated = {Cause.CLIENT_UPGRADE, Cause.CLIENT_DOWNGRADE, Cause.MEMBER_RESTART}
        is_migrated = sender is not None and sender.ended == "migrated"
        return _known(Cause.MEMBER_JOIN, why, *(migrated if is_migrated else ()))
    # The log knows a dynamic member by its client.id and host: one with others is a new member to it.
    others = {Cause.MEMBER_JOIN} if sender.is_elsewhere else set[Cause]()
    if sender.ended == LEFT_BY_POLL_TIMEOUT:
        return _known(Cause.POLL_TIMEOUT_REJOIN, why, *_return(why).accepted, *others)
    back = _return(why)
    return back._replace(accepted=back.accepted | others)


def _return(why: str) -> _Cause:
    changed = {Cause.CLIENT_UPGRADE, Cause.CLIENT_DOWNGRADE, Cause.PROTOCOL_CHANGE}
    if "updated its subscribed" in why:
        changed.add(Cause.SUBSCRIPTION_CHANGE)
    if "metadata hash" in why:
        changed.add(Cause.TOPIC_METADATA_CHANGE)
    return _known(Cause.MEMBER_RESTART, why, *changed)


def _rejoin(why: str, sender: Sender | None) -> _Cause:
    says = (sender.says if sender is not None else None) or ""
    if "cached metadata" in says:
        return _known(Cause.TOPIC_METADATA_CHANGE, why)
    if "need to revoke" in says:
        return _known(Cause.COOPERATIVE_FOLLOW_UP, why)
    if "subscription has changed" in says:
        return _known(Cause.SUBSCRIPTION_CHANGE, why)
    return _known(Cause.LEADER_REJOIN, why)


def judge_all(seeds: Iterable[int], mix: Mix, most: int) -> list[Verdict]:
    """Judge lives until there are so many rebalances."""
    verdicts: list[Verdict] = []
    for seed in seeds:
        verdicts += judge(seed, mix)
        if len(verdicts) >= most:
            break
    return verdicts


def wrong_kinds(verdicts: Sequence[Verdict]) -> Counter[tuple[str, str, str, str]]:
    """Count answers that claim too much, by confidence, protocol, answer and truth."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for verdict in verdicts:
        row = verdict.row
        claims = row["confidence"] != Confidence.POSSIBLE
        if not verdict.is_open and (not verdict.is_among or (claims and not verdict.is_right)):
            kind = (row["confidence"], row["group_type"], row["cause"], str(verdict.truth or "nothing"))
            counts[kind] += 1
    return counts


def table(name: str, verdicts: Sequence[Verdict]) -> list[str]:
    """Return the table of a mix, as lines."""
    total = len(verdicts)
    lines = [f"### {name}: {total} rebalances", ""]
    for confidence in Confidence:
        rated = [v for v in verdicts if v.row["confidence"] == confidence and not v.is_open]
        right, among = sum(v.is_right for v in rated), sum(v.is_among for v in rated)
        lines.append(
            f"- `{confidence}`: {_share(right, len(rated))} right; the truth is named in {_share(among, len(rated))}"
        )
    unknown = sum(v.is_open for v in verdicts)
    alternatives = sum(len(v.row["alternatives"]) for v in verdicts) / max(1, total)
    lines += [f"- UNKNOWN: {_share(unknown, total)}", f"- alternatives on average: {alternatives:.2f}"]
    facts, false = sum(len(v.row["facts"]) for v in verdicts), sum(len(v.false) for v in verdicts)
    lines += [
        f"- facts of the evidence: {facts}; not true: {false}",
        f"- calibration: {_calibration(verdicts)}",
        "",
    ]
    lines += ["| cause | certain | likely | possible | truth named |", "|---|---|---|---|---|"]
    by_cause: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_cause[verdict.row["cause"]].append(verdict)
    for cause in Cause:
        found = by_cause.get(cause, [])
        if not found:
            continue
        cells = []
        for confidence in Confidence:
            rated = [v for v in found if v.row["confidence"] == confidence]
            cells.append(f"{sum(v.is_right for v in rated)}/{len(rated)}" if rated else "–")
        lines.append(f"| {cause} | {' | '.join(cells)} | {sum(v.is_among for v in found)}/{len(found)} |")
    lines += ["", "| wrong | protocol | said | truth | rebalances |", "|---|---|---|---|---|"]
    for (confidence, group_type, cause, truth), count in wrong_kinds(verdicts).most_common():
        lines.append(f"| {confidence} | {group_type} | {cause} | {truth} | {count} |")
    return [*lines, ""]


def _calibration(verdicts: Sequence[Verdict]) -> str:
    """Return how many of the answers of each confidence are right, as one line."""
    parts = []
    for confidence in Confidence:
        rated = [v for v in verdicts if v.row["confidence"] == confidence and not v.is_open]
        parts.append(f"`{confidence}` {100 * sum(v.is_right for v in rated) / max(1, len(rated)):.0f} %")
    return ", ".join(parts)


PAGE = f"""## Compared with the simulated coordinator

The simulated coordinator knows which request or timer set off each rebalance (`simulate --truth`).
`scripts/world/` makes random lives of groups on this coordinator, in two mixes. *uniform* draws each kind of event
equally often; *fleet* draws it as often as we guess for production. Both mixes were fixed before anybody looked at a
rule. The seeds are held out: nobody looked at these lives while the rules were changed. {PAGE_REBALANCES}
rebalances of each mix are judged here; `scripts/judge-reasons --lives N` judges more.

The true cause is the first trigger of the join phase or epoch. A row is right if it names the true cause or an
equivalent one. Example: a client leaves, which begins a rebalance, and is back before the rebalance ends; the row may
name the return. UNKNOWN claims nothing. A fact of the evidence is not true if something else happened: another request
or client, or another timer that removed the member.
"""


def pages() -> list[str]:
    """Return the part of ``docs/reasons-judged.md`` about random lives, as lines."""
    lines = PAGE.splitlines()
    for mix in MIXES.values():
        lines += ["", *table(mix.name, judge_all(HELD_OUT, mix, PAGE_REBALANCES))]
    return lines


def _share(part: int, of: int) -> str:
    return f"{part} of {of} ({100 * part / of:.1f} %)" if of else "0 of 0"
