"""Rules for conditions that held at an earlier time, and no longer hold at the end of the log.

An example is a partition without commits for an hour, on which the group then committed again. The rules in
``commit_rules`` look for conditions that still hold at the end of the log.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from coordinator_replay.analysis.findings.context import GroupContext
from coordinator_replay.analysis.findings.evidence_rows import LastStatus, QuietTime, Range, Silence
from coordinator_replay.analysis.findings.observation import (
    MOST_NAMED,
    Observation,
    has_lasted,
    lasting,
    of_partitions,
)
from coordinator_replay.analysis.findings.totals import mean_interval_ms
from coordinator_replay.listing import counted
from coordinator_replay.times import latest_ms, time_order, time_text

_Row = TypeVar("_Row", bound=Mapping[str, Any])


def _by(rows: Iterable[_Row], *names: str) -> Iterable[tuple[tuple[str, ...], list[_Row]]]:
    """Return rows grouped by the values of some columns."""
    parts: dict[tuple[str, ...], list[_Row]] = {}
    for row in rows:
        parts.setdefault(tuple(row[name] for name in names), []).append(row)
    return parts.items()


def commit_stall_over(context: GroupContext) -> Iterator[Observation]:
    """Yield, for each topic and owner, the partitions whose commits stopped while the group still committed others."""
    for (topic, member_id), stalls in _by(context.stalls, "topic", "member_id"):
        last = max(stalls, key=itemgetter("until", "partition"))
        numbers = sorted({stall["partition"] for stall in stalls})
        went_on_ms = last["at"] + last["went_on_ms"]
        went_on = f" until {time_text(went_on_ms)}" if went_on_ms < last["until"] else ""
        where = f"at {last['committed_offset']} on" if len(numbers) == 1 else "on"
        if len({(stall["at"], stall["until"]) for stall in stalls}) > 1 < len(numbers):
            where = f"again and again; those of partition {last['partition']}, the last to go on, on"
        yield Observation(
            (topic, member_id),
            min(stall["at"] for stall in stalls),
            last["until"],
            f"commits of {of_partitions(topic, numbers)} stopped {where} {time_text(last['at'])}, until "
            f"{time_text(last['until'])}, while the group went on committing{went_on}",
            last["log_partition"],
            last["from_offset"],
            {
                "partitions": numbers[:MOST_NAMED],
                "partition_count": len(numbers),
                "committed_offset": last["committed_offset"],
                "usual_ms": last["usual_ms"],
                "stalled_ms": last["went_on_ms"],
                "owned_from": time_text(last["owned_from"]),
            },
            occurrences=len(stalls),
            topic=topic,
            topic_partition=numbers[0] if len(numbers) == 1 else None,
            member_id=member_id,
        )


def silent_group_over(context: GroupContext) -> Iterator[Observation]:
    """Yield times in which a Stable group with members wrote no record of any kind.

    All such times of one epoch are one finding.
    """
    commits, limits = context.commits, context.limits
    quiet = [*context.quiet, *_quiet_at_end(context)]
    if commits is None or not quiet:
        return
    pauses = _pauses(commits.get("active") or ())
    silences: dict[int, list[tuple[int, int, Silence]]] = {}
    for partition in quiet:
        for before, after, usual_ms in pauses:
            since = max(before, partition["at"])
            until = partition["until"] if after is None else min(after, partition["until"])
            if until - since >= max(limits.silent_ms, limits.patience * usual_ms):
                silences.setdefault(partition["epoch"], []).append((since, until, {**partition, "usual_ms": usual_ms}))
    for epoch, some in silences.items():
        since, until, last = max(some, key=itemgetter(1))
        yield Observation(
            (epoch,),
            min(first for first, _, _ in some),
            until,
            f"the group of {counted(last['members'], 'member')} wrote no record from {time_text(since)} to "
            f"{time_text(until)}, for {lasting(until - since)}: {epoch_of(last)}",
            last["partition"],
            last["offset"],
            {
                "epoch": epoch,
                "group_type": last["group_type"],
                "usual_ms": last["usual_ms"],
                "silent_ms": until - since,
            },
            occurrences=len(some),
        )


def epoch_of(row: LastStatus | Silence) -> str:
    """Return a group's epoch as text: "generation 5" for a classic group, "epoch 5" for any other group."""
    return f"{'generation' if row['group_type'] == 'classic' else 'epoch'} {row['epoch']}"


def _quiet_at_end(context: GroupContext) -> list[QuietTime]:
    """Return the time at the end of the log in which a Stable group wrote offset commits and no other records.

    The time begins with the last record that is not an offset commit, and ends with the last offset commit. Return an
    empty list if the group is not proven to be Stable, or if one of the two records has no time.
    """
    status, commits = context.status, context.commits
    if not context.is_stable or status is None or status["at"] is None or commits is None:
        return []
    quiet: QuietTime = {
        "group_type": status["group_type"],
        "epoch": status["epoch"],
        "members": status["members"],
        "partition": status["partition"],
        "offset": status["offset"],
        "at": status["at"],
        "until": commits["last_at"],
    }
    return [quiet]


def _pauses(active: Sequence[Range]) -> list[tuple[int, int | None, int]]:
    """Return the pauses between a group's commits.

    A pause is left out if too few commits came before it to show the usual time between two commits.

    Returns:
        For each pause, three values: the time of the last commit before it, the time of the first commit after it, and
        the usual time between two commits. The second value is None if no commit came after the pause.
    """
    pauses = []
    so_far = 0
    afters = [*(first for first, _, _ in active[1:]), None]
    for (_, before, commits), after in zip(active, afters, strict=True):
        so_far += commits
        usual_ms = mean_interval_ms(active[0][0], before, so_far)
        if usual_ms is not None:
            pauses.append((before, after, usual_ms))
    return pauses


def never_committed_over(context: GroupContext) -> Iterator[Observation]:
    """Yield partitions that had an owner for a long time before their first commit or the end of the ownership."""
    status = context.status
    if status is None or status["has_gap"] or status["group_type"] == "share":
        return
    for (topic,), rows in _by(context.uncommitted, "topic"):
        waiting = [
            (row["until"], latest_ms(row["at"], status["proven_from"]), row["partition"])
            for row in rows
            if has_lasted(context.limits.never_committed_ms, latest_ms(row["at"], status["proven_from"]), row["until"])
        ]
        if not waiting:
            continue
        until = max(last for last, _, _ in waiting)
        since = max((first for last, first, _ in waiting if last == until), key=time_order)
        numbers = sorted({number for _, _, number in waiting})
        yield Observation(
            (topic,),
            min((first for _, first, _ in waiting), key=time_order),
            until,
            f"{of_partitions(topic, numbers)} had an owner and no commit, the last from {time_text(since)} to "
            f"{time_text(until)}",
            None,
            None,
            {"partitions": numbers[:MOST_NAMED], "partition_count": len(numbers)},
            occurrences=len(numbers),
            topic=topic,
            topic_partition=numbers[0] if len(numbers) == 1 else None,
        )


def abandoned_topic_over(context: GroupContext) -> Iterator[Observation]:
    """Yield topics with offsets but no subscribed member, until the offsets were removed or a member subscribed."""
    for (topic,), rows in _by(context.abandoned, "topic"):
        until_ms = max(row["until"] for row in rows)
        last = max((row for row in rows if row["until"] == until_ms), key=itemgetter("since", "partition"))
        count = len({row["partition"] for row in rows})
        yield Observation(
            (topic,),
            last["since"],
            until_ms,
            f"no member subscribed to {topic}, and the group had {counted(count, 'committed offset')} of it, the "
            f"last of {time_text(last['since'])}, until {time_text(until_ms)}",
            last["log_partition"],
            last["from_offset"],
            {"offsets": count},
            occurrences=count,
            topic=topic,
        )


ENDED_RULES: tuple[Callable[[GroupContext], Iterator[Observation]], ...] = (
    commit_stall_over,
    silent_group_over,
    never_committed_over,
    abandoned_topic_over,
)
"""Rules for past findings. Each has the name of the rule for present findings, with the suffix ``_over``."""
