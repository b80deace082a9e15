"""Answers about committed offsets: at a point in time, and their history."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from coordinator_replay.engine.model import GroupType
from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted
from coordinator_replay.query.answers.answered import Rows, nothing_note
from coordinator_replay.query.basis import Basis, basis_at, basis_from
from coordinator_replay.query.end_offsets import read_end_offsets
from coordinator_replay.query.group_moves import moves_of
from coordinator_replay.query.groups import groups_at, share_note
from coordinator_replay.query.offset_changes import (
    OffsetChange,
    created_again_note,
    offset_changes,
    partitions_without_note,
)
from coordinator_replay.query.offsets import (
    CommittedOffset,
    committed_again_note,
    committed_topics,
    is_asked,
    maybe_pending_note,
    negative_offsets_note,
    offsets_at,
    offsets_before_removal,
    open_offsets_note,
    partitions_asked,
    pending_commits,
    pending_notes,
    topics_asked,
    unstable_removal_note,
    with_lag,
)
from coordinator_replay.query.removed import (
    RemovedOffsets,
    before_removal_note,
    last_removals,
    removal_notes,
    removed_offsets,
)
from coordinator_replay.query.tables import END, Tables
from coordinator_replay.query.who import EVERYONE, Who, unknown_members_note
from coordinator_replay.times import moment_text


def offsets(
    warehouse: Tables,
    group: str,
    at: datetime | None,
    *,
    topics: Sequence[str] = (),
    require_stable: bool = False,
    end_offsets: str | Path | None = None,
    before_removal: bool = False,
) -> Rows[CommittedOffset]:
    """Return the committed offsets of a group at a point in time.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        at: the point in time; the end of the log if None.
        topics: only offsets of these topics; all topics if empty. A text like ``orders:0,1`` names partitions, see
            ``partitions_asked``.
        require_stable: show partitions with a pending transactional commit as unstable, without an offset.
        end_offsets: a file with the end offsets of partitions, to compute the lag.
        before_removal: return the offset of each partition just before its last removal, instead of the offsets at
            ``at``. Only removals up to ``at`` count.

    Raises:
        UsageError: ``before_removal`` is true and no removal is on record, or ``offsets_at`` raises this error.
    """
    if before_removal:
        return _before_removal(warehouse, group, at, topics, require_stable=require_stable, end_offsets=end_offsets)
    found, notes, late = _of_group(warehouse, group, at, topics, require_stable=require_stable, end_offsets=end_offsets)
    basis = basis_at(warehouse, at or END, group=group)
    every = [*_offset_notes(warehouse, found, at), *notes, late]
    return Rows(content=found, row_type=CommittedOffset, notes=every, basis=basis)


def _before_removal(
    warehouse: Tables,
    group: str,
    at: datetime | None,
    topics: Sequence[str],
    *,
    require_stable: bool,
    end_offsets: str | Path | None,
) -> Rows[CommittedOffset]:
    """Return the offset that each partition of a group had just before its offset was last removed.

    The arguments are those of ``offsets``.

    Raises:
        UsageError: no removal is on record, or ``offsets_before_removal`` raises this error.
    """
    late = warehouse.check_moment(at)
    found = offsets_before_removal(warehouse, group, at, topics=topics, require_stable=require_stable)
    if not found:
        moves = moves_of(warehouse.moves, group)
        of_topics = f" for {', '.join(topics)}" if topics else ""
        until = "" if at is None else f" up to {moment_text(at)}"
        moved = "".join(f"; the group {move}, and --at shows its offsets before that" for move in moves[-1:])
        raise UsageError(
            f"no removal of an offset of group {group!r}{of_topics}{until} is on record: give the command without "
            f"--before-removal{moved}"
        )
    if end_offsets is not None:
        found = with_lag(found, read_end_offsets(Path(end_offsets), at))
    removals = _about(last_removals(warehouse, group, at), topics_asked(warehouse, group, topics))
    notes = [
        "Each offset is the one just before the last removal.",
        *removal_notes(removals),
        committed_again_note(found),
        _unproven_note(found),
        negative_offsets_note(found),
        unstable_removal_note(found),
        late,
    ]
    basis = basis_at(warehouse, at or END, group=group)
    return Rows(content=found, row_type=CommittedOffset, notes=notes, basis=basis)


def _about(removals: Sequence[RemovedOffsets], asked: Collection[tuple[str, tuple[int, ...]]]) -> list[RemovedOffsets]:
    """Return those removals that are of the topics and partitions that a user asks about.

    Args:
        removals: removals of committed offsets.
        asked: topics and partitions that the user asks about; empty for all topics.
    """
    return [
        replace(removal, partitions=partitions)
        for removal in removals
        if (partitions := [number for number in removal.partitions if is_asked(removal.topic, number, asked)])
    ]


def offsets_of_groups(
    warehouse: Tables,
    groups: Sequence[str],
    at: datetime | None,
    *,
    topics: Sequence[str] = (),
    require_stable: bool = False,
    end_offsets: str | Path | None = None,
    who: Who = EVERYONE,
) -> Rows[CommittedOffset]:
    """Return the committed offsets of several groups at a point in time.

    The arguments are those of ``offsets``, and ``who``: the conditions by which the user chose the groups. A note about
    a single group begins with the group's name.
    """
    answers = {
        group: _of_group(warehouse, group, at, topics, require_stable=require_stable, end_offsets=end_offsets)
        for group in groups
    }
    found = [row for rows, _, _ in answers.values() for row in rows]
    notes = [f"{group}: {note}" for group, (_, notes, _) in answers.items() for note in notes if note]
    late = dict.fromkeys(note for _, _, note in answers.values())
    return Rows(
        content=found,
        row_type=CommittedOffset,
        notes=[*_offset_notes(warehouse, found, at), *notes, unknown_members_note(warehouse, who, groups, at), *late],
        basis=basis_at(warehouse, at or END),
    )


def _of_group(
    warehouse: Tables,
    group: str,
    at: datetime | None,
    topics: Sequence[str],
    *,
    require_stable: bool,
    end_offsets: str | Path | None,
) -> tuple[list[CommittedOffset], Sequence[str | None], str | None]:
    """Return the committed offsets of a group, notes on them, and a note if ``at`` is after the end of the log.

    A note that does not apply is None.
    """
    late = warehouse.check_moment(at)
    pending = pending_commits(warehouse, group, at)
    found = offsets_at(warehouse, group, at, topics=topics, require_stable=require_stable, pending=pending)
    if end_offsets is not None:
        found = with_lag(found, read_end_offsets(Path(end_offsets), at))
    nothing = None if found else _no_offset_note(warehouse, group, topics, basis_at(warehouse, at or END, group=group))
    open_partitions = {(offset.topic, offset.partition) for offset in found if not offset.is_exact}
    asked = topics_asked(warehouse, group, topics)
    lost = _about(removed_offsets(warehouse, group, at), asked)
    removed = removal_notes(lost, open_partitions)
    before = None if found else before_removal_note(lost)
    return found, [nothing, *removed, before, *pending_notes(pending, found, asked)], late


def _offset_notes(warehouse: Tables, offsets: Sequence[CommittedOffset], at: datetime | None) -> Sequence[str | None]:
    """Return notes that say why offsets may be wrong or missing. A note that does not apply is None."""
    return [
        _withheld_note(offsets),
        _unproven_note(offsets),
        negative_offsets_note(offsets),
        open_offsets_note(offsets),
        maybe_pending_note(warehouse, offsets, at),
    ]


def _withheld_note(offsets: Sequence[CommittedOffset]) -> str | None:
    """Return a note on partitions without an offset because a transactional commit was pending.

    Return None if there are no such partitions. The note is for users who asked for stable offsets only.
    """
    withheld = sum(offset.is_unstable for offset in offsets)
    if not withheld:
        return None
    return (
        f"{counted(withheld, 'partition')} (UNSTABLE true) without an offset: a transactional commit was pending, so a "
        "broker would answer UNSTABLE_OFFSET_COMMIT. Without --require-stable you see the offset committed before."
    )


def _unproven_note(offsets: Sequence[CommittedOffset]) -> str | None:
    """Return a note on offsets whose transaction may have been aborted; None if there are no such offsets."""
    unproven = sum(offset.is_proven is False for offset in offsets)
    if not unproven:
        return None
    return f"{unproven} of these may belong to aborted transactions: the input has no transaction markers."


def _no_offset_note(warehouse: Tables, group: str, topics: Sequence[str], basis: Basis) -> str:
    """Return a note for an answer without committed offsets."""
    if any(state.group_type == GroupType.SHARE for state in groups_at(warehouse, None, group=group)):
        return f"{share_note(group)}; describe shows what its members have."
    of_topics = f" of {', '.join(topics)}" if topics else ""
    if basis.is_complete:
        return f"Group {group!r} had no committed offset{of_topics} then."
    return f"No committed offset{of_topics} of group {group!r} at that time is on record."


def offset_history(
    warehouse: Tables, group: str, topic: str, partition: int | None, start: datetime | None, end: datetime | None
) -> Rows[OffsetChange]:
    """Return every committed offset of a topic, or of some of its partitions, in log order.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        topic: name of the topic, or a topic with partitions (``orders-4``, ``orders:0,1``).
        partition: only this partition; None for all partitions that ``topic`` names.
        start: leave out offsets that were no longer in force at this time; None for no lower bound.
        end: leave out offsets that were committed at this time or later; None for no upper bound.
    """
    partitions: Sequence[int] = () if partition is None else (partition,)
    if partition is None:
        topic, partitions = partitions_asked(topic, committed_topics(warehouse, group))
    changes = offset_changes(warehouse, group, topic, partitions, start, end)
    return Rows(
        content=changes,
        row_type=OffsetChange,
        notes=[
            created_again_note(changes),
            partitions_without_note(changes, topic, partitions),
            nothing_note(warehouse, "committed offset", changes, group),
        ],
        basis=basis_from(warehouse, start, group=group),
    )
