"""Tables of rebalances that random lives judge, and the part of ``docs/reasons-judged.md`` with these tables."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from coordinator_replay.analysis.reasons.vocabulary import Cause, Confidence
from scripts.reasons.simulated import judge_lives
from scripts.reasons.tally import OFTEN, Rated, Tally
from scripts.world.mixes import HELD_OUT, MIXES, Mix

PAGE_REBALANCES = 400

MANY = 200
"""Smallest number of ``likely`` causes for which a share of right causes is shown."""

TOLD_EACH = 1000
"""Number of rebalances after which a long run reports its counts."""


PAGE = f"""## Compared with the simulated coordinator

The simulated coordinator knows which request or timer started each rebalance (`simulate --truth`).
`scripts/world/` makes random *lives* of groups on this coordinator: sequences of events such as joins, crashes and
commits. There are two *mixes*, which decide how often each kind of event happens. All kinds are equally frequent in
*uniform*, and as frequent as we guess for production in *fleet*. We fixed both mixes before we looked at a rule.
While we changed rules, we did not look at the lives of this page. For each mix, whole lives are judged
until there are {PAGE_REBALANCES} rebalances or more.
`scripts/judge-reasons --lives N` judges N rebalances.

The broker of a few lives has a fault of an earlier release: KAFKA-8653, KAFKA-9801 or KAFKA-13636. Tests also run the
lives without such a fault on Kafka's own coordinator. At each step, both coordinators send the same responses, write
the same records, and log the same reasons for rebalances.

The true cause of a rebalance is the first request or timer that started its join phase or epoch. A row is *right* if it
has the true cause or an equivalent cause. For example, a client leaves, this begins a rebalance, and the client is back
before the rebalance ends. The true cause is then MEMBER_LEAVE, and MEMBER_RESTART is right, too. A row with UNKNOWN
claims nothing, so it is neither right nor wrong. *The truth is named* if the true cause is the row's cause or one of
its alternatives. A fact of the evidence is *not true* if another request, client or timer did what the fact says.

The last table of a mix has a column about changed mixes. In a changed mix, one true cause is three times as frequent
or three times as rare: each rebalance with this cause counts three times, or a third. The column has the lowest share
of right rows in any changed mix.
"""

LONG_RUN = """### Many more lives

On 27 November 2026, we judged 100,039 rebalances of *uniform* (seeds 7,000,000 to 7,007,206) and 100,025 of *fleet*
(seeds 7,500,000 to 7,506,512). Nobody had looked at these lives before. If a line has two numbers, the first is
about *uniform* and the second about *fleet*:

- `certain`: all 24,957 rows and all 21,156 rows are right.
- `likely`: 97.5 % and 99.5 % of the rows are right. Among causes with 200 `likely` rows or more, SESSION_TIMEOUT of
  classic groups has the lowest share of right rows: 88.5 % and 98.0 %. If one true cause is three times as frequent or
  as rare, this share is 73.4 % and 94.3 %, and still the lowest. We also divided the `likely` rows of each cause by the
  kinds of facts in their evidence. Among the parts with 200 rows or more, in *fleet*, the lowest share is 97.5 %. It is
  92.9 % if one true cause is three times as frequent or as rare.
- The true cause is the cause of the row or one of its alternatives, except for two rows of *uniform* (seeds 7,002,356
  and 7,002,756). The rules were changed after the run, and now name the true cause of both rows.
- All facts are true: 622,864 in both mixes together. The script that judges counted one fact as untrue (seed
  7,000,389), but the script was wrong.
- UNKNOWN: 26.6 % and 4.0 % of the rows. We also judged 8,023 rebalances of other lives by the rules of the first
  release. They gave UNKNOWN as often as today's rules.
- Alternatives of a row, on average: 1.11 and 1.74.

A row misses a goal if it is `certain` and wrong, if it does not name the true cause, or if one of its facts is not
true. In an earlier run of 74,000 rebalances of *uniform* (from seed 4,000,000), the script reported that five rows
missed a goal. Three of the five were reported as `certain` and wrong. About three of the five rows, the script itself
was wrong. For the other two, we changed the rules.

We also judged 100,348 removed offsets: 55,304 of *uniform* (from seeds 9,200,000 and 10,000,000) and 45,044 of *fleet*
(from seeds 9,000,000 and 10,500,000). The audits were given the value of offsets.retention.minutes.

- `certain`: all 8,416 rows and all 1,285 rows are right.
- The true cause is the cause of the row or one of its alternatives, except for one row of *uniform* (seed 9,202,295).
  The rules were changed because of this row, and now name its true cause. The 60,299 offsets from seeds 10,000,000 and
  10,500,000 were judged after that change.
- In another run of 20,270 removed offsets, the audits were not given the retention (10,205 of *uniform*, from seed
  11,000,000, and 10,065 of *fleet*, from seed 11,500,000). All 1,862 `certain` rows are right, and the true cause is
  always named.
- After these runs, the rules were changed: more causes are now only `likely`, because records are missing or a
  rebalance has no end in the log. With the changed rules, another 20,258 offsets were judged (12,257 of *uniform*, from
  seed 12,000,000, and 8,001 of *fleet*, from seed 12,500,000). All 2,242 `certain` rows are right, and the true cause
  is always named.

Twelve rows missed a goal in an earlier run of 23,837 other offsets. The rules were changed after that run.
"""


def table(name: str, tally: Tally) -> list[str]:
    """Return the tables of a mix, as lines."""
    lines = [f"### {name}: {tally.total} rebalances", ""]
    calibration = []
    for confidence in Confidence:
        right, of = _claiming(tally, tally.right, confidence)
        named, _ = _claiming(tally, tally.named, confidence)
        lines.append(f"- `{confidence}`: {_share(right, of)} right; the truth is named in {_share(named, of)}")
        calibration.append(f"`{confidence}` {100 * right / max(1, of):.0f} %")
    _, unknown = tally.share(tally.rows, cause=Cause.UNKNOWN)
    return [
        *lines,
        f"- UNKNOWN: {_share(unknown, tally.total)}",
        f"- alternatives of a row, on average: {tally.alternatives / max(1, tally.total):.2f}",
        f"- facts of the evidence: {tally.facts}; not true: {tally.false}",
        f"- calibration: {', '.join(calibration)}",
        "",
        *_by_cause(tally),
        "",
        *_wrong(tally),
        "",
    ]


def _claiming(tally: Tally, counts: Counter[Rated], confidence: Confidence) -> tuple[int, int]:
    """Return how many rows of a confidence are in ``counts``, and how many exist, both without the cause UNKNOWN."""
    part, of = tally.share(counts, confidence=confidence)
    open_part, opened = tally.share(counts, confidence=confidence, cause=Cause.UNKNOWN)
    return part - open_part, of - opened


def _by_cause(tally: Tally) -> list[str]:
    lines = ["| cause | certain | likely | possible | truth named |", "|---|---|---|---|---|"]
    for cause in Cause:
        named, of = tally.share(tally.named, cause=cause)
        if of:
            shares = [tally.share(tally.right, cause=cause, confidence=confidence) for confidence in Confidence]
            cells = [f"{right}/{rated}" if rated else "–" for right, rated in shares]
            lines.append(f"| {cause} | {' | '.join(cells)} | {named}/{of} |")
    return lines


def _wrong(tally: Tally) -> list[str]:
    lines = [
        "| confidence of wrong rows | protocol | the row's cause | true cause | rebalances |",
        "|---|---|---|---|---|",
    ]
    for (confidence, group_type, cause, truth), count in tally.wrong.most_common():
        lines.append(f"| {confidence} | {group_type} | {cause} | {truth} | {count} |")
    return lines


def by_rule(tally: Tally) -> list[str]:
    """Return a table of ``likely`` causes, by cause and protocol and by kinds of facts in the evidence, as lines."""
    lines = [
        f"| cause of `likely` rows | protocol | facts of the evidence | right | {_OFTEN} |",
        "|---|---|---|---|---|",
    ]
    likely = [rated for rated in tally.rows if rated.confidence is Confidence.LIKELY]
    for cause, group_type in sorted({(rated.cause, rated.group_type) for rated in likely}):
        cells = _rated(tally, cause=cause, group_type=group_type, confidence=Confidence.LIKELY)
        lines.append(f"| {cause} | {group_type} | all | {cells} |")
    for rated in sorted(likely):
        if tally.rows[rated] >= MANY:
            cells = _rated(tally, **rated._asdict())
            lines.append(f"| {rated.cause} | {rated.group_type} | {', '.join(rated.facts)} | {cells} |")
    return lines


_OFTEN = f"right if one true cause is {OFTEN} times as frequent or as rare"


def _rated(tally: Tally, **fields: Any) -> str:
    """Return the share of right rows among those with the given values, and the lowest share (``least``), as cells."""
    right, of = tally.share(tally.right, **fields)
    least = tally.least(**fields)
    weight = f"{OFTEN} times as {'frequent' if least.factor > 1 else 'rare'}"
    beside = "" if least.share == right / of else f" ({least.truth} {weight})"
    return f"{_share(right, of)} | {100 * least.share:.1f} %{beside}"


def _share(part: int, of: int) -> str:
    return f"{part} of {of} ({100 * part / of:.1f} %)" if of else "0 of 0"


def pages() -> list[str]:
    """Return the part of ``docs/reasons-judged.md`` about random lives, as lines."""
    lines = PAGE.splitlines()
    for mix in MIXES.values():
        tally = Tally(judge_lives(HELD_OUT, mix, PAGE_REBALANCES))
        lines += ["", *table(mix.name, tally), *by_rule(tally)]
    lines.append("")
    return [*lines, *LONG_RUN.splitlines(), ""]


def judge_many(seeds: Iterable[int], mix: Mix, most: int) -> Iterator[Tally]:
    """Judge whole lives until there are ``most`` rebalances or more. Yield the counts now and then, and at the end."""
    tally = Tally()
    for number, verdict in enumerate(judge_lives(seeds, mix, most), start=1):
        tally.add(verdict)
        if number % TOLD_EACH == 0:
            yield tally
    yield tally


def report(name: str, tally: Tally) -> list[str]:
    """Return all tables of a mix, its seeds, and each row that misses a goal, as lines."""
    first, last = tally.seeds or (0, 0)
    faults = [f"- {fault}" for fault in tally.faults]
    return [*table(name, tally), *by_rule(tally), "", f"seeds {first} to {last}; rows that miss a goal:", *faults, ""]
