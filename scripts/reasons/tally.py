"""Counts of judged rebalances, so that many lives need no more memory than few."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from coordinator_replay.analysis.reasons.vocabulary import Cause, Confidence
from scripts.reasons.simulated import Verdict


class Rated(NamedTuple):
    """A key by which rows are counted together.

    Attributes:
        cause: the cause that the rows name.
        group_type: the type of the rows' groups.
        confidence: the confidence of the rows.
        facts: the kinds of facts in the rows' evidence, which show the rule.
    """

    cause: Cause
    group_type: str
    confidence: Confidence
    facts: tuple[str, ...]


OFTEN = 3
"""Factor by which ``Tally.least`` makes a true cause more frequent, or rarer."""


class Least(NamedTuple):
    """The lowest share of right rows if one true cause were more frequent, or rarer.

    Attributes:
        share: the share, from 0 to 1.
        truth: the true cause that is more frequent or rarer; "nothing" where nothing set rebalances off.
        factor: how many times as frequent the true cause is; below 1 if it is rarer.
    """

    share: float
    truth: str
    factor: float


class Tally:
    """Counts of judged rebalances of a mix.

    Attributes:
        seeds: the first and the last seed.
        rows: number of rows.
        right: number of rows that name the truth.
        named: number of rows that have the truth as cause or alternative, or are UNKNOWN.
        truths: number of rows by their true cause and by whether they are right.
        wrong: number of rows that claim too much, by confidence, protocol, cause and truth.
        faults: lines about each row that is certain and wrong, does not name the truth, or has a false fact.
        alternatives: number of alternatives of all rows.
        facts: number of facts of all rows.
        false: number of facts that are not true.
    """

    def __init__(self, verdicts: Iterable[Verdict] = ()) -> None:
        self.seeds: tuple[int, int] | None = None
        self.rows, self.right, self.named = Counter[Rated](), Counter[Rated](), Counter[Rated]()
        self.truths = Counter[tuple[Rated, str, bool]]()
        self.wrong = Counter[tuple[str, str, str, str]]()
        self.faults: list[str] = []
        self.alternatives = self.facts = self.false = 0
        for verdict in verdicts:
            self.add(verdict)

    @property
    def total(self) -> int:
        """Return the number of all rows."""
        return self.rows.total()

    def add(self, verdict: Verdict) -> None:
        """Count a row."""
        row = verdict.row
        self.seeds = (self.seeds[0] if self.seeds else verdict.seed, verdict.seed)
        kinds = tuple(dict.fromkeys(str(fact["kind"]) for fact in row["facts"]))
        rated = Rated(Cause(row["cause"]), row["group_type"], Confidence(row["confidence"]), kinds)
        self.rows[rated] += 1
        self.right[rated] += verdict.is_right
        self.named[rated] += verdict.is_among
        truth = str(verdict.truth or "nothing")
        self.truths[rated, truth, verdict.is_right] += 1
        self.alternatives += len(row["alternatives"])
        self.facts += len(row["facts"])
        self.false += len(verdict.false)
        if verdict.claims_too_much:
            self.wrong[rated.confidence, rated.group_type, rated.cause, truth] += 1
        if faults := verdict.faults:
            self.faults.append(f"{verdict.seed}: {'; '.join(faults)}: {_told(verdict)}")

    def share(self, counts: Counter[Rated], **fields: Any) -> tuple[int, int]:
        """Return how many rows with the given values are in ``counts``, and how many rows have these values."""
        rated = [rated for rated in self.rows if _has(rated, fields)]
        return sum(counts[one] for one in rated), sum(self.rows[one] for one in rated)

    def least(self, **fields: Any) -> Least:
        """Return the lowest share of right rows with the given values, if one true cause had another weight.

        Rebalances with this true cause count by its weight, so no other lives are needed.
        """
        right, rows = Counter[str](), Counter[str]()
        for (rated, truth, is_right), count in self.truths.items():
            if _has(rated, fields):
                rows[truth] += count
                right[truth] += count * is_right
        return min(
            Least(
                (right.total() + (factor - 1) * right[truth]) / (rows.total() + (factor - 1) * rows[truth]),
                truth,
                factor,
            )
            for truth in rows
            for factor in (OFTEN, 1 / OFTEN)
        )


def _has(rated: Rated, fields: Mapping[str, Any]) -> bool:
    return all(getattr(rated, name) == value for name, value in fields.items())


def _told(verdict: Verdict) -> str:
    row = verdict.row
    said = f"{row['group_type']} {row['epoch']} {row['cause']} {row['confidence']} {', '.join(row['alternatives'])}"
    return f"{said} | truth {verdict.truth}: {verdict.why} | {', '.join(map(_kind, verdict.false))}"


def _kind(fact: Mapping[str, Any]) -> str:
    return f"{fact['kind']} {fact['members']} {fact['log_offset']}"
