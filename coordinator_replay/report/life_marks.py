"""Bars and marks on the page of a group: states, commit pauses, rollouts, findings, and rebalances by cause."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from coordinator_replay.analysis.reasons.vocabulary import by_frequency
from coordinator_replay.listing import counted_as
from coordinator_replay.query.rebalances import Rebalance
from coordinator_replay.report.bounds import blocked_by, member_counts, moved, pause, took, unowned
from coordinator_replay.report.columns import Clock, Columns, columns
from coordinator_replay.report.life import GroupLife, StateBand
from coordinator_replay.report.members import MemberIdentities
from coordinator_replay.report.wording import (
    SEVERITY_COLOURS,
    STATE_COLOURS,
    UNKNOWN_COLOUR,
    cause_colour,
    neutral,
)
from coordinator_replay.times import milliseconds

STATES = ("left", "right", "row", "state", "type", "colour", "epochs", "members", "seen")
UNSEEN = ("left", "right", "row")
PAUSES = ("left", "right", "row", "length", "partition", "rebalance")
ROLLOUTS = ("left", "right", "row", "restarts", "clients", "costs")
FINDINGS = ("left", "right", "row", "colour", "severity", "rule", "message", "times")
REBALANCES = (
    *("at", "end", "row", "id", "cause", "colour", "alpha", "confidence", "began", "ended"),
    *("took", "epoch", "members", "moved", "unowned", "pause", "blocked_by", "what", "evidence", "others"),
)

CONFIDENCE_ALPHA = {"certain": 0.95, "likely": 0.5, "possible": 0.12}
"""Opacity of a rebalance's mark: the surer the cause, the more opaque."""

MOST_MOVES = 12
"""Largest number of partitions that a tooltip names."""

Move = tuple[str, int, str | None, str]
"""A partition that changed its owner: topic, number, old owner and new owner."""

STATE, PAUSED, ROLLOUT, FINDINGS_ROW = "state", "commits paused", "rollouts", "findings"


def state_rows(life: GroupLife) -> list[str]:
    """Return the names of the rows in the figure of the group's state, from top to bottom.

    Rows without marks, such as rollouts of a group without rollouts, are left out.
    """
    rows = ((PAUSED, life.pauses), (ROLLOUT, life.rollouts), (FINDINGS_ROW, life.findings))
    return [STATE, *(name for name, marks in rows if marks)]


def state_columns(life: GroupLife, clock: Clock) -> Mapping[str, Columns]:
    """Return the bars of the group's states and their hatching, as columns that the page's script reads.

    A bar is hatched if records of the bar's time are missing.
    """
    rows = [
        {
            "left": clock.left(band.since),
            "right": clock.right(band.until),
            "row": 0,
            "state": neutral(band.state),
            "type": band.group_type,
            "colour": STATE_COLOURS.get(band.state, UNKNOWN_COLOUR),
            "epochs": _range(band.first_epoch, band.last_epoch),
            "members": _range(band.fewest_members, band.most_members),
            "seen": _seen(band),
        }
        for band in life.states
    ]
    unseen = [row for row, band in zip(rows, life.states, strict=True) if not band.is_exact]
    ends = ("left", "right")
    return {"states": columns(rows, STATES, ends), "unseen": columns(unseen, UNSEEN, ends)}


def _seen(band: StateBand) -> str:
    if not band.is_exact:
        return "not proven: records of that time are missing"
    return "by the broker's log; epochs and members by the last record" if band.is_logged else "complete"


def _range(lowest: int | None, highest: int | None) -> str:
    return "not on record" if lowest is None else f"{lowest} to {highest}"


def finding_columns(life: GroupLife, clock: Clock) -> Columns:
    """Return the bars that show findings about the group, as columns that the page's script reads.

    The bar of a finding begins at the first time that the finding is about, and ends at the last. Findings without a
    time, or outside of the page's time range, are left out.
    """
    row = state_rows(life).index(FINDINGS_ROW) if life.findings else None
    rows = [
        {
            "left": clock.left(finding.first_seen),
            "right": clock.right(finding.last_seen or finding.first_seen),
            "row": row,
            "colour": SEVERITY_COLOURS.get(finding.severity, UNKNOWN_COLOUR),
            "severity": finding.severity,
            "rule": neutral(finding.rule),
            "message": neutral(clock.sentence(finding.message or "")),
            "times": f"{'at least ' * finding.is_at_least}{counted_as(finding.occurrences)}",
        }
        for finding in life.findings
        if finding.first_seen is not None
        and finding.first_seen < life.end
        and (finding.last_seen or finding.first_seen) >= life.start
    ]
    return columns(rows, FINDINGS, ("left", "right"))


def rollout_columns(life: GroupLife, clock: Clock) -> Columns:
    """Return the bars that show rollouts, as columns that the page's script reads.

    A bar goes from the first to the last restart of a rollout. Rollouts without a time are left out.
    """
    row = state_rows(life).index(ROLLOUT) if life.rollouts else None
    rows = [
        {
            "left": clock.left(rollout.first_at),
            "right": clock.right(rollout.last_at or rollout.first_at),
            "row": row,
            "restarts": counted_as(rollout.restarts),
            "clients": neutral(rollout.some_clients or "not on record"),
            "costs": rollout.costs,
        }
        for rollout in life.rollouts
        if rollout.first_at is not None
    ]
    return columns(rows, ROLLOUTS, ("left", "right"))


def causes_of(life: GroupLife) -> list[str]:
    """Return the causes of the group's rebalances, the most frequent first. Each cause is a row of the figure."""
    return list(by_frequency(rebalance.cause for rebalance in life.rebalances))


def began(rebalance: Rebalance) -> datetime | None:
    """Return the latest time at which a rebalance can have begun.

    If this time is unknown, return the end of the rebalance. If the end is also unknown, return None.
    """
    return rebalance.began_by or rebalance.completed_at


def rebalance_columns(life: GroupLife, clock: Clock, members: MemberIdentities) -> Columns:
    """Return the marks of rebalances, as columns that the page's script reads.

    Each mark has a bar. The length of the bar is the shortest time that the rebalance can have taken.
    """
    place = {cause: row for row, cause in enumerate(causes_of(life))}
    moves = moves_of(life)
    rows = [
        _rebalance(
            rebalance, place[rebalance.cause or "UNKNOWN"], clock, members, moves.get(rebalance.rebalance_id, ())
        )
        for rebalance in life.rebalances
    ]
    return columns(rows, REBALANCES, ("at", "end"))


def _rebalance(
    rebalance: Rebalance, row: int, clock: Clock, members: MemberIdentities, moves: Sequence[Move]
) -> dict[str, Any]:
    at = clock.left(began(rebalance))
    return {
        "at": at,
        "end": at if rebalance.is_end_untimed else max(clock.right(rebalance.in_progress_to), at),
        "row": row,
        "id": rebalance.rebalance_id,
        "cause": neutral(rebalance.cause or "UNKNOWN"),
        "colour": cause_colour(rebalance.cause),
        "alpha": CONFIDENCE_ALPHA.get(rebalance.confidence or "", 0.12),
        "confidence": rebalance.confidence or "not inferred",
        "began": _began(rebalance, clock),
        "ended": _ended(rebalance, clock),
        "took": took(rebalance),
        "epoch": "-" if rebalance.epoch is None else str(rebalance.epoch),
        "members": member_counts(rebalance),
        "moved": moved(rebalance),
        "unowned": unowned(rebalance),
        "pause": pause(rebalance),
        "blocked_by": blocked_by(rebalance, members) or "nobody for long on record",
        "what": _moves_shown(moves, members),
        "evidence": "\n".join(neutral(clock.sentence(fact)) for fact in rebalance.evidence or ()) or "none on record",
        "others": neutral(", ".join(rebalance.alternatives or ()) or "nothing else"),
    }


def _began(rebalance: Rebalance, clock: Clock) -> str:
    """Return a text with the time at which a rebalance began, or with bounds of this time if it is not on record."""
    if rebalance.started_at is not None:
        return clock.text(rebalance.started_at)
    if rebalance.began_by is None:
        return "not on record"
    after = "" if rebalance.began_after is None else f"after {clock.text(rebalance.began_after)}, "
    return f"not on record: {after}by {clock.text(rebalance.began_by)}"


def _ended(rebalance: Rebalance, clock: Clock) -> str:
    if rebalance.completed_at is not None:
        return f"{'by ' * rebalance.is_end_open}{clock.text(rebalance.completed_at)}"
    return "at an unknown time" if rebalance.is_over else rebalance.open_end


def _moves_shown(moves: Sequence[Move], members: MemberIdentities) -> str:
    """Return the partitions that changed their owner in a rebalance, as text with a line for each partition.

    The text has the first ``MOST_MOVES`` partitions. A last line has the number of further partitions.

    Args:
        moves: the changes of owners.
        members: labels of the members.
    """
    first = [
        f"{neutral(f'{topic}-{partition}')}: {'nobody' if giver is None else members.label(giver)} → "
        f"{members.label(taker)}"
        for topic, partition, giver, taker in moves[:MOST_MOVES]
    ]
    more = [f"and {len(moves) - MOST_MOVES:,} more"] if len(moves) > MOST_MOVES else []
    return "\n".join([*first, *more]) or "none moved"


def moves_of(life: GroupLife) -> Mapping[str, Sequence[Move]]:
    """Return the partitions that changed their owner in each rebalance, by rebalance id.

    A change of an owner belongs to the last rebalance that began before it.
    """
    begun = sorted(
        ((began(rebalance) or life.start, rebalance.rebalance_id) for rebalance in life.rebalances),
        key=lambda pair: pair[0],
    )
    starts = [milliseconds(moment) for moment, _ in begun]
    moves: dict[str, list[Move]] = defaultdict(list)
    before: dict[tuple[str, int], str] = {}
    for topic, partition, member_id, _, from_ms, *_ in life.holdings:
        key = (topic, partition)
        giver, before[key] = before.get(key), member_id
        if giver == member_id or from_ms is None or not starts or from_ms < starts[0]:
            continue
        moves[begun[bisect_right(starts, from_ms) - 1][1]].append((topic, partition, giver, member_id))
    return moves


def pause_columns(life: GroupLife, clock: Clock) -> Columns:
    """Return the commit pauses of a group as columns, in the form that the page's script reads."""
    causes = {rebalance.rebalance_id: rebalance for rebalance in life.rebalances}
    row = state_rows(life).index(PAUSED) if life.pauses else None
    rows = [
        {
            "left": clock.left(span.since),
            "right": clock.right(span.until),
            "row": row,
            "length": pause(causes[span.rebalance_id]),
            "partition": neutral(f"{span.topic}-{span.partition}"),
            "rebalance": neutral(causes[span.rebalance_id].cause or "UNKNOWN"),
        }
        for span in life.pauses
        if span.rebalance_id in causes
    ]
    return columns(rows, PAUSES, ("left", "right"))
