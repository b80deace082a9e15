"""Holds the answers of a copy against those of the whole log: right, wrong, open, or open without need."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.completeness.asking import Key, Reply, Told

Must = Callable[[Key], bool | None]
"""Whether a row must be exact; None where the rules leave it to the audit."""


class Verdict(StrEnum):
    """What an answer is worth."""

    RIGHT = "right"
    OPEN = "open"
    WRONG = "wrong"
    NEEDLESS = "needless"


@dataclass(frozen=True, slots=True)
class Fault:
    """An answer that is wrong, or open without need."""

    verdict: Verdict
    question: str
    key: Key
    asked: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.verdict} {self.question} {self.key} {self.asked}: expected {self.expected}, found {self.found}"


@dataclass(slots=True)
class Tally:
    """How many answers of each question are worth what."""

    counts: Counter[tuple[str, Verdict]] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)

    def judge(
        self, question: str, asked: str, whole: Reply, copy: Reply, must: Must, *, is_complete: bool = False
    ) -> None:
        """Hold the answer of a copy against that of the whole log.

        Args:
            question: its name, which is counted by.
            asked: what else there is to say of it: time, group.
            whole: what the whole log answers.
            copy: what the copy answers.
            must: which rows must be exact.
            is_complete: whether the answer as a whole must be: what it does not have must not have been.
        """
        for key in sorted({*whole.rows, *copy.rows}, key=str):
            truth, told = whole.rows.get(key), copy.rows.get(key)
            if truth is not None and truth.is_open:
                continue
            is_open = copy.is_open if told is None else told.is_open
            if is_open:
                is_needless = is_complete if told is None else must(key)
                verdict = Verdict.NEEDLESS if is_needless else Verdict.OPEN
            else:
                verdict = Verdict.RIGHT if _agrees(truth, told) else Verdict.WRONG
            self._count(verdict, question, key, asked, truth, told)

    def _count(
        self, verdict: Verdict, question: str, key: Key, asked: str, truth: Told | None, told: Told | None
    ) -> None:
        self.counts[question, verdict] += 1
        if verdict in (Verdict.WRONG, Verdict.NEEDLESS):
            expected, found = _difference(truth, told)
            self.faults.append(Fault(verdict, question, key, asked, expected, found))

    def of(self, verdict: Verdict, question: str | None = None) -> list[Fault]:
        """The faults of one kind."""
        return [one for one in self.faults if one.verdict is verdict and question in (None, one.question)]

    def shares(self) -> str:
        """A table: of each question how many answers are right, open, open without need and wrong."""
        lines = [f"{'question':28}{'right':>8}{'open':>8}{'needless':>10}{'wrong':>8}"]
        for question in sorted({name for name, _ in self.counts}):
            row = [self.counts[question, one] for one in (Verdict.RIGHT, Verdict.OPEN, Verdict.NEEDLESS, Verdict.WRONG)]
            lines.append(f"{question:28}{row[0]:8}{row[1]:8}{row[2]:10}{row[3]:8}")
        return "\n".join(lines)


def _agrees(truth: Told | None, told: Told | None) -> bool:
    if truth is None or told is None:
        return truth is told
    # A column that the copy leaves out claims nothing; one that the whole log leaves out is not known there either.
    return all(value == truth.values[name] for name, value in told.values.items() if name in truth.values)


def _difference(truth: Told | None, told: Told | None) -> tuple[Any, Any]:
    if truth is None or told is None:
        return truth and truth.values, told and told.values
    names = [name for name in told.values if name in truth.values and told.values[name] != truth.values[name]]
    return {name: truth.values[name] for name in names}, {name: told.values[name] for name in names}
