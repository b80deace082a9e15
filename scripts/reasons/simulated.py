"""Judges causes by random lives on the simulated coordinator, where the trigger of each rebalance is known."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.analysis.reasons.signs import DEPARTURES, SIGNS_WITHIN_MS
from coordinator_replay.analysis.reasons.topic_changes import NO_CHANGES
from coordinator_replay.analysis.reasons.vocabulary import Cause, Confidence
from coordinator_replay.engine.model import Marker
from coordinator_replay.garbage import few_collections
from coordinator_replay.records.blobs import open_blobs
from scripts.reasons.true_causes import TrueCause, Truths, true_causes
from scripts.reasons.true_facts import Witness
from scripts.world.cluster import TRIGGERS_A_LIFE
from scripts.world.life import Life
from scripts.world.mixes import Mix

MOST_A_LIFE = 40
"""Largest number of judged rebalances of a life. A group whose members can't join in time rebalances endlessly."""

Row = Mapping[str, Any]


class Verdict(NamedTuple):
    """A rebalance that an audit found, and its true cause.

    Attributes:
        seed: seed of the life.
        row: the row of ``rebalances``.
        truth: the true cause; None if nothing set the rebalance off.
        accepted: causes that count as right: the true cause, and causes that mean the same.
        why: Kafka's own reason.
        beside: causes that count as the truth among the row's alternatives, but not as the row's cause.
        false: facts of the row's evidence that are not true.
    """

    seed: int
    row: Row
    truth: Cause | None
    accepted: frozenset[Cause]
    why: str
    beside: frozenset[Cause] = frozenset()
    false: tuple[Row, ...] = ()

    @property
    def is_right(self) -> bool:
        """Return whether the row names the true cause."""
        return self.row["cause"] in self.accepted

    @property
    def is_open(self) -> bool:
        """Return whether the row's cause is UNKNOWN."""
        return bool(self.row["cause"] == Cause.UNKNOWN)

    @property
    def is_among(self) -> bool:
        """Return whether the row's cause or one of its alternatives is true. UNKNOWN also counts: it claims nothing."""
        named = self.accepted | self.beside
        return self.is_right or self.is_open or not named.isdisjoint(map(Cause, self.row["alternatives"]))

    @property
    def claims_too_much(self) -> bool:
        """Return whether the row is wrong and surer than ``possible``, or does not name the true cause at all."""
        is_claim = self.row["confidence"] != Confidence.POSSIBLE and not self.is_open
        return not self.is_among or (is_claim and not self.is_right)

    @property
    def faults(self) -> list[str]:
        """Return the goals that the row misses, in words."""
        is_sure = self.row["confidence"] == Confidence.CERTAIN
        found = {
            "certain and wrong": is_sure and not self.is_right,
            "truth not named": not self.is_among,
            "false fact": bool(self.false),
        }
        return [fault for fault, is_so in found.items() if is_so]


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


def judge(seed: int, mix: Mix) -> Iterator[Verdict]:
    """Judge every rebalance that an audit finds in a life."""
    life = Life(seed, mix).run(TRIGGERS_A_LIFE)
    yield from judge_rows(seed, life, rebalances(life)[:MOST_A_LIFE])


def judge_rows(seed: int, life: Life, rows: Iterable[Row]) -> Iterator[Verdict]:
    """Judge some rows of ``rebalances``, whose times are in milliseconds."""
    truths, witness = true_causes(life), Witness(life)
    for row in rows:
        causes = _nearest(truths, row)
        accepted = frozenset[Cause]().union(*(cause.accepted for cause in causes))
        beside = frozenset[Cause]().union(*(cause.beside for cause in causes))
        first = causes[0] if causes else TrueCause(None, accepted, "")
        yield Verdict(seed, row, first.truth, accepted, first.why, beside, tuple(witness.false_facts(row)))


def _nearest(truths: Truths, row: Row) -> list[TrueCause]:
    """Return the causes of the rebalance that led to a row's epoch, and is nearest to the row's time."""
    found = truths.get((str(row["group_type"]), row["epoch"]), [])
    at_ms = row["started_at"] if row["started_at"] is not None else row["completed_at"]
    return min(found, key=lambda one: abs(one.at_ms - (at_ms or 0))).causes if found else []


def judge_lives(seeds: Iterable[int], mix: Mix, most: int) -> Iterator[Verdict]:
    """Judge whole lives until there are ``most`` rebalances or more."""
    total = 0
    for seed in seeds:
        with few_collections():
            verdicts = list(judge(seed, mix))
        total += len(verdicts)
        yield from verdicts
        if total >= most:
            break
