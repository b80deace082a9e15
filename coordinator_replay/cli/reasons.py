"""Output of rebalances for people: first the reason, then the costs, then the records of the evidence."""

import re
from collections import Counter
from typing import TYPE_CHECKING

import click

from coordinator_replay.cli import work
from coordinator_replay.cli.output import styled, terminal_width, text_lines
from coordinator_replay.cli.waiting import end_waiting
from coordinator_replay.listing import counted, counted_as, listed, ranges_by_topic
from coordinator_replay.times import moment_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coordinator_replay.api.answers import Reasons
    from coordinator_replay.query.hold_ups import HoldUp, Wait
    from coordinator_replay.query.rebalances import Rebalance

_MOST_NAMED = 8
"""Largest number of partitions or members that a line names; the rest is counted."""

_ISSUE = re.compile(r"KAFKA-\d+")

_MOST_LINES = 22
"""Largest number of lines about several rebalances on a terminal: the basis and the prompt fit below."""


def _duration(rebalance: "Rebalance") -> str:
    """Return a clause on how long a rebalance took, or why that is not known.

    If the join phase is not on record, the clause has the duration of the sync. It also has the upper bound of the
    whole rebalance, if there is one.
    """
    if not rebalance.is_over:
        return "when it was over is not on record" if rebalance.is_end_missing else "not over at the end of the log"
    if rebalance.duration_ms is not None:
        return f"took {rebalance.duration_ms:,} ms"
    if rebalance.is_end_open:
        return "the log does not show when it was over, and how long it took"
    # A lower bound of 0 says nothing: if brokers' clocks differ, an earlier record may have a later time.
    if not rebalance.duration_ms_min and rebalance.limit_ms is None:
        return "the log does not show how long it took"
    most = "" if rebalance.limit_ms is None else f", the whole rebalance at most {rebalance.limit_ms:,} ms"
    return f"sync took {rebalance.duration_ms_min:,} ms{most}; its join phase is not on record"


def _cost(rebalance: "Rebalance") -> str:
    parts = [
        f"{counted_as(rebalance.members_before)} to {counted(rebalance.members_after, 'member')}",
        f"{counted(rebalance.partitions_reassigned, 'partition')} reassigned",
        f"{rebalance.partitions_added or 0:,} newly assigned",
    ]
    if rebalance.unowned_ms_max:
        parts.append(f"longest without an owner {rebalance.unowned_ms_max:,} ms")
    if rebalance.commit_pause_ms is not None:
        parts.append(f"commits paused {'at least ' * rebalance.is_pause_at_least}{rebalance.commit_pause_ms:,} ms")
    # In other rebalances there may have been earlier members and partitions that are not on record.
    return f"{'' if rebalance.is_exact is not False else 'on record: '}{', '.join(parts)}"


def _blocked(hold_up: "HoldUp") -> str:
    client = " on ".join(name.lstrip("/") for name in (hold_up.client_id, hold_up.client_host) if name)
    name = f"{hold_up.member_id} ({client})" if client else hold_up.member_id
    waits = [_wait(wait) for wait in hold_up.waits if wait.waited_ms >= work.SHORT_WAIT_MS]
    return f"held up by member {name}: {listed(waits, _MOST_NAMED, '; ')}"


def _wait(wait: "Wait") -> str:
    names = (partition.rpartition("-") for partition in wait.partitions)
    partitions = ranges_by_topic((topic, int(number)) for topic, _, number in names)
    return f"{wait.member_id} waited {wait.waited_ms:,} ms for {partitions}"


def _times(reasons: "Sequence[str]") -> "list[tuple[str, int]]":
    """Return each reason with the number of times it was given, in order of first appearance."""
    return list(Counter(reasons).items())


def reason_lines(rebalance: "Rebalance", hold_up: "HoldUp | None" = None) -> list[str]:
    """Return the lines about one rebalance.

    The first line has the time, the group and the cause. The other lines have the costs and the evidence.

    Args:
        rebalance: the rebalance to explain.
        hold_up: the member that blocked the rebalance, if there was one.
    """
    texts = [_duration(rebalance)]
    if rebalance.members_after is not None:
        texts.append(_cost(rebalance))
    if hold_up is not None and hold_up.waited_ms >= work.SHORT_WAIT_MS:
        texts.append(_blocked(hold_up))
    texts += [f"- {fact}" for fact in rebalance.evidence or ()]
    if rebalance.reasons and len(rebalance.reasons) > 1:
        reasons = [reason.rstrip(".") for reason in rebalance.reasons]
        texts.append(f"reasons of the coordinator: {listed(reasons, _MOST_NAMED, '; ')}")
    if rebalance.client_reasons:
        given = [
            f"{reason} ({times:,} times)" if times > 1 else reason for reason, times in _times(rebalance.client_reasons)
        ]
        texts.append(f"reasons of clients: {listed(given, _MOST_NAMED, '; ')}")
    if rebalance.alternatives:
        texts.append(f"could also be: {', '.join(rebalance.alternatives)}")
    if rebalance.exactness_note is not None:
        texts.append(rebalance.exactness_note)
    return [*text_lines(_heading(rebalance)), *(line for text in texts for line in text_lines(text, indent="  "))]


def _heading(rebalance: "Rebalance") -> str:
    at = rebalance.shown_at
    sure = f", {rebalance.confidence}" if rebalance.confidence else ""
    when = "at an unknown time" if at is None else f"{'by ' * rebalance.is_end_open}{moment_text(at)}"
    matched = " (matched by an alternative)" if rebalance.matched_by == "alternative" else ""
    parts = [when, rebalance.group_id, rebalance.number, f"{rebalance.cause or 'UNKNOWN'}{sure}{matched}"]
    return "  ".join(filter(None, parts))


def print_reasons(reasons: "Reasons", *, is_wide: bool) -> None:
    """Print rebalances in log order, with a blank line between them.

    On a terminal, only the latest rebalances are explained, as far as ``_MOST_LINES`` allow. An earlier rebalance gets
    its first line, or is only counted.

    Args:
        reasons: the rebalances with their explanations.
        is_wide: whether a terminal gets all of them in full.
    """
    blocks = [reason_lines(reason, reasons.hold_ups.get(reason.rebalance_id)) for reason in reasons]
    opening = [line for sentence in reasons.summary for line in text_lines(sentence)]
    first_named, first_explained = 0, 0
    if terminal_width() is not None and not is_wide:
        first_named, first_explained = _shown_places(blocks, _MOST_LINES - len(opening))
    end_waiting()
    _echo(opening)
    if first_explained:
        if opening:
            click.echo()
        _echo([name for name, *_ in blocks[first_named:first_explained]])
        earlier = f"{counted(first_named, 'earlier rebalance')}, and the evidence of all" if first_named else "Evidence"
        issues = _issues(reasons[:first_explained])
        named = f" (names {listed(issues)})" if issues else ""
        _echo(text_lines(f"{earlier}{named}: --wide, or --at TIME for one."))
    for number, (name, *lines) in enumerate(blocks[first_explained:]):
        if number or opening or first_explained:
            click.echo()
        click.echo(styled(name, bold=True))
        _echo(lines)


def _issues(rebalances: "Iterable[Rebalance]") -> list[str]:
    """Return the known faults of Kafka that the evidence of rebalances names."""
    texts = (text for rebalance in rebalances for text in rebalance.evidence or ())
    return list(dict.fromkeys(issue for text in texts for issue in _ISSUE.findall(text)))


def _echo(lines: "Iterable[str]") -> None:
    for line in lines:
        click.echo(line)


def _shown_places(blocks: "Sequence[Sequence[str]]", most_lines: int) -> tuple[int, int]:
    """Return the index of the first rebalance that is named, and of the first that is explained.

    The last rebalance is always explained. Both results are 0 if there is room to explain all.

    Args:
        blocks: the lines about each rebalance.
        most_lines: largest number of lines for all rebalances, blank lines included.
    """
    if sum(len(block) + 1 for block in blocks) <= most_lines:
        return 0, 0
    explained = len(blocks) - 1
    # The blank line and the hint below the names take two lines.
    left = most_lines - len(blocks[explained]) - 1 - 2
    while explained and len(blocks[explained - 1]) + explained <= left:
        explained -= 1
        left -= len(blocks[explained]) + 1
    return max(explained - max(left, 0), 0), explained
