"""Output of rebalances for people: first the cause of a rebalance, then its costs, then the evidence."""

import re
from bisect import bisect_right
from collections import Counter
from itertools import accumulate, chain
from math import inf
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

_LEAST_LINES = 10
"""Number of these lines that are there for rebalances, however long the notes are."""

_LEAST_NAMED = 2
"""Number of other rebalances that an excerpt always names, even if the explanation is long."""

_MOST_FAULTS = 2
"""Largest number of known faults that are named with their rebalances."""


def _duration(rebalance: "Rebalance") -> str:
    """Return a clause on how long a rebalance took, or why that is not known.

    If the join phase is not on record, the clause has the duration of the sync. The clause then also has an upper bound
    for the whole rebalance, if the log shows one.
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
    in_all = f" ({wait.waited_ms_total:,} ms in all)" if wait.waited_ms_total > wait.waited_ms else ""
    return f"{wait.member_id} waited {wait.waited_ms:,} ms{in_all} for {partitions}"


def _times(reasons: "Sequence[str]") -> "list[tuple[str, int]]":
    """Return each reason with the number of times it was given, in order of first appearance."""
    return list(Counter(reasons).items())


def reason_lines(rebalance: "Rebalance", hold_up: "HoldUp | None" = None, most_lines: float = inf) -> list[str]:
    """Return the lines about one rebalance.

    The first line has the time, the group and the cause. The other lines have the costs and the evidence. Evidence that
    names a known fault of Kafka comes first.

    Args:
        rebalance: the rebalance to explain.
        hold_up: the member that blocked the rebalance, if there was one.
        most_lines: largest number of lines. If the evidence has too many sentences, the last line has the number of
            those left out. The first sentence is always printed.
    """
    facts = sorted(rebalance.evidence or (), key=lambda fact: not _ISSUE.search(fact))
    texts = [_duration(rebalance)]
    if rebalance.members_after is not None:
        texts.append(_cost(rebalance))
    if hold_up is not None and hold_up.waited_ms >= work.SHORT_WAIT_MS:
        texts.append(_blocked(hold_up))
    head = [*text_lines(_heading(rebalance)), *_indented(texts)]
    tail = _indented(_doubts(rebalance))
    room = most_lines - len(head) - len(tail)
    evidence = [_indented([f"- {fact}"]) for fact in facts]
    if len(facts) > 1 and sum(map(len, evidence)) > room:
        # The line that counts the other facts needs room, too.
        shown = max(bisect_right(list(accumulate(map(len, evidence))), room - 1), 1)
        more = counted(len(facts) - shown, "more fact")
        evidence[shown:] = [_indented([f"- {more} of the evidence: --wide"])]
    return [*head, *chain.from_iterable(evidence), *tail]


def _doubts(rebalance: "Rebalance") -> list[str]:
    """Return texts that are printed below the cause of a rebalance.

    The texts have the reasons that the coordinator and the clients gave, other possible causes, and a note if the
    rebalance is not exact.
    """
    texts = []
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
    return texts


def _indented(texts: "Iterable[str]") -> list[str]:
    return [line for text in texts for line in text_lines(text, indent="  ")]


def _heading(rebalance: "Rebalance", *, has_group: bool = True) -> str:
    at = rebalance.shown_at
    sure = f", {rebalance.confidence}" if rebalance.confidence else ""
    when = "at an unknown time" if at is None else f"{'by ' * rebalance.is_end_open}{moment_text(at)}"
    matched = " (matched by an alternative)" if rebalance.matched_by == "alternative" else ""
    group = rebalance.group_id if has_group else None
    parts = [when, group, rebalance.number, f"{rebalance.cause or 'UNKNOWN'}{sure}{matched}"]
    return "  ".join(filter(None, parts))


def _names(rebalances: "Sequence[Rebalance]") -> list[list[str]]:
    """Return the lines that name each rebalance.

    If the names are wider than the terminal, a group that all rebalances share is left out.
    """
    names = [text_lines(_heading(rebalance)) for rebalance in rebalances]
    if any(len(name) > 1 for name in names) and len({rebalance.group_id for rebalance in rebalances}) == 1:
        return [text_lines(_heading(rebalance, has_group=False)) for rebalance in rebalances]
    return names


def print_reasons(reasons: "Reasons", *, is_wide: bool, is_at: bool = False) -> None:
    """Print rebalances in log order, with a blank line between them.

    If all explanations take more than ``_MOST_LINES``, a terminal gets an excerpt: explanations of as many rebalances
    as fit, and the first line of each other rebalance. If there are too many of these lines, some rebalances are only
    counted.

    Args:
        reasons: the rebalances with their explanations and notes. The caller prints the notes below; the excerpt leaves
            room for them.
        is_wide: whether a terminal gets all explanations.
        is_at: whether the user asked about a point in time. The explanations then come first, and the other rebalances
            below.
    """
    blocks = [reason_lines(reason, reasons.hold_ups.get(reason.rebalance_id)) for reason in reasons]
    opening = [line for sentence in reasons.summary for line in text_lines(sentence)]
    explained, listing = range(len(blocks)), list[str]()
    notes = sum(len(text_lines(note, err=True)) for note in reasons.notes)
    room = max(_MOST_LINES - len(opening) - notes, _LEAST_LINES)
    if terminal_width() is not None and not is_wide and sum(len(block) + 1 for block in blocks) > room:
        explained, listing = _excerpt(reasons, blocks, room, is_at=is_at)
    end_waiting()
    told = [[styled(blocks[place][0], bold=True), *blocks[place][1:]] for place in explained]
    parts = [opening, *told, listing] if is_at else [opening, listing, *told]
    for number, part in enumerate(filter(None, parts)):
        if number:
            click.echo()
        _echo(part)


def _excerpt(reasons: "Reasons", blocks: list[list[str]], most_lines: int, *, is_at: bool) -> tuple[range, list[str]]:
    """Return the indexes of the rebalances that an excerpt explains, and the lines that name the others.

    An excerpt is for a terminal with too few lines for all explanations. It explains the rebalance that ``_telling``
    chooses, and as many rebalances before that one as fit. It names other rebalances in a line each.

    Args:
        reasons: the rebalances with their explanations.
        blocks: the lines that explain each rebalance. This function shortens the lines about the chosen rebalance if
            they don't fit.
        most_lines: largest number of lines for all rebalances, blank lines included.
        is_at: whether the user asked about a point in time.
    """
    telling, names = _telling(reasons, is_at=is_at), _names(reasons)
    # Blank lines before and after the names, and the hint below them, take three lines.
    left = most_lines - 3 * (len(blocks) > 1)
    least = sum(len(names[place]) for place in _others(range(telling, telling + 1), len(names))[-_LEAST_NAMED:])
    hold_up = reasons.hold_ups.get(reasons[telling].rebalance_id)
    blocks[telling] = reason_lines(reasons[telling], hold_up, left - least)
    left -= len(blocks[telling])
    explained = range(telling, telling + 1)
    while explained.start:
        wider = range(explained.start - 1, telling + 1)
        taken = len(blocks[wider.start]) + 1
        if taken + sum(len(names[place]) for place in _others(wider, len(names))) > left:
            break
        explained, left = wider, left - taken
    others = _others(explained, len(blocks))
    if not others:
        return explained, []
    fitting = bisect_right(list(accumulate(len(names[place]) for place in reversed(others))), left)
    named = others[len(others) - fitting :]
    lines = [line for place in named for line in names[place]]
    return explained, [*lines, *text_lines(_hint(reasons, others, len(named), telling, is_at=is_at))]


def _others(explained: range, count: int) -> list[int]:
    return [*range(explained.start), *range(explained.stop, count)]


def _telling(reasons: "Sequence[Rebalance]", *, is_at: bool) -> int:
    """Return the index of the rebalance that an excerpt explains even if there is room for only one.

    With ``is_at``, this is the first rebalance, except if all rebalances are of one consumer, share or streams group.
    Otherwise it is the last rebalance whose evidence names a known bug of Kafka, or the last rebalance if there is
    none.

    Args:
        reasons: the rebalances.
        is_at: whether the user asked about a point in time.
    """
    is_modern_group = len({rebalance.group_id for rebalance in reasons}) == 1 and reasons[0].group_type != "classic"
    if is_at and not is_modern_group:
        return 0
    faulty = [place for place, rebalance in enumerate(reasons) if _issues([rebalance])]
    return faulty[-1] if faulty else len(reasons) - 1


def _hint(reasons: "Sequence[Rebalance]", others: "Sequence[int]", named: int, telling: int, *, is_at: bool) -> str:
    """Return a sentence that says which evidence is not printed, how to see it, and which rebalance is explained.

    Args:
        reasons: all rebalances of the answer.
        others: indexes of the rebalances that are not explained.
        named: how many of the rebalances in ``others`` are named.
        telling: index of the rebalance that is explained even if there is room for only one.
        is_at: whether the user asked about a point in time.
    """
    earlier = len(others) - named
    if not is_at:
        what = f"{counted(earlier, 'earlier rebalance')}, and the evidence of all" if earlier else "Evidence"
    elif earlier:
        what = f"{counted(earlier, 'other rebalance')}, and the evidence of all others"
    else:
        what = f"Evidence of {reasons[others[0]].number if len(others) == 1 else 'the others'}"
    faults = [
        f"{issue} in that of {reasons[place].group_id} {reasons[place].number}"
        for place in others
        for issue in _issues([reasons[place]])
    ]
    fault = f" ({listed(faults, _MOST_FAULTS)})" if faults else ""
    how = "--wide" if is_at else "--wide, or --at TIME for one"
    issues = _issues([reasons[telling]])
    where = "Above" if is_at else "Below"
    below = f" {where} is {reasons[telling].number}, whose evidence names {listed(issues)}." if issues else ""
    return f"{what}{fault}: {how}.{below if telling < others[-1] else ''}"


def _issues(rebalances: "Iterable[Rebalance]") -> list[str]:
    """Return the ids of Kafka's bugs, such as ``KAFKA-9752``, that the evidence of rebalances names."""
    texts = (text for rebalance in rebalances for text in rebalance.evidence or ())
    return list(dict.fromkeys(issue for text in texts for issue in _ISSUE.findall(text)))


def _echo(lines: "Iterable[str]") -> None:
    for line in lines:
        click.echo(line)
