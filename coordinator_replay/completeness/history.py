"""History of a log partition: the ranges without missing records, from all its copies.

A newer copy that has every offset after the last range makes this range longer. If the newer copy lacks some of these
offsets, the cleaner removed their records before the copy was made. Then the range ends at the first missing offset,
and a new range begins after the last missing offset. Offsets that no file of a copy covers are a gap, which proves
nothing.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from coordinator_replay.completeness.copies import Copy, CopyBounds
from coordinator_replay.completeness.ranges import CompleteRange


def history_of(copies: Iterable[Copy]) -> list[CompleteRange]:
    """Return the history of a log partition: its complete ranges, oldest first.

    Args:
        copies: copies of the log partition, in any order.
    """
    ranges: list[CompleteRange] = []
    for copy in sorted(copies, key=_age):
        _add(ranges, copy)
    return ranges


def _age(copy: Copy) -> tuple[int, int, int, str]:
    """Return a key that sorts copies by age, oldest first.

    A copy that ends at a lower log offset is older. If two copies end at the same log offset, the copy that lacks fewer
    offsets is older.
    """
    missing = sum(high - low for low, high, _ in copy.missing(0))
    return copy.bounds.end, missing, copy.bounds.covered_from, copy.run_id


def _add(ranges: list[CompleteRange], copy: Copy) -> None:
    """Add a copy to the history. The copy's end must be at or after the history's end."""
    reached = ranges[-1].to_offset if ranges else 0
    bounds = copy.bounds
    missing = copy.missing(reached)
    if bounds.covered_from > reached and not bounds.is_export:
        missing = [(reached, bounds.covered_from, True), *missing]
    elif bounds.covered_from > reached:
        missing = [(reached, bounds.covered_from, bool(ranges)), *missing]
    if not missing:
        _continue(ranges, copy)
        return
    starts_over = not ranges or bounds.covered_from == 0
    gaps = [low for low, _, is_gap in missing if is_gap] if starts_over else [missing[0][0]]
    until = gaps[0] if gaps else bounds.end
    lacking = [(low, high) for low, high, is_gap in missing if not is_gap and high <= until]
    if lacking and starts_over:
        behind = lacking[-1][1]
        exact_from = None if gaps else _exact_from(bounds, behind)
        begins_at = lacking[0][0] if ranges else 0
        if ranges and ranges[-1].to_offset < begins_at:
            # The newer copy has all offsets before the first missing one.
            _extend(ranges, begins_at)
        ranges.append(_range(behind, exact_from, until, copy, begins_at))
    elif until > reached and ranges:
        _extend(ranges, until)
    elif until > reached:
        ranges.append(_range(0, 0, until, copy))
    for low, end in pairwise([*gaps, bounds.end]):
        behind = max(high for at, high, _ in missing if at < end)
        ranges.append(_range(behind, None, end, copy, low, is_gap=True))


def _exact_from(bounds: CopyBounds, behind: int) -> int | None:
    """Return the log offset from which a copy proves the value of every key.

    Return None if no such offset exists.

    Args:
        bounds: the end of the copy, and the offset below which the cleaner may have removed records.
        behind: the offset after the last offset that the copy lacks.
    """
    if bounds.cleaned_to > bounds.end:
        # A record may have been removed because of a record after the copy's end.
        return None
    # If offsets are missing in the newest segment, they were cleaned on another broker, and nothing bounds the
    # cleaner's work.
    return bounds.cleaned_to if behind <= bounds.cleaned_to else bounds.end


def _range(
    from_offset: int, exact_from: int | None, to_offset: int, copy: Copy, begins_at: int = 0, *, is_gap: bool = False
) -> CompleteRange:
    return CompleteRange(
        from_offset=from_offset,
        to_offset=to_offset,
        exact_from_offset=exact_from,
        begins_at=begins_at,
        is_gap=is_gap,
        copy=copy,
    )


def _extend(ranges: list[CompleteRange], to_offset: int) -> None:
    ranges[-1] = replace(ranges[-1], to_offset=to_offset)


def _continue(ranges: list[CompleteRange], copy: Copy) -> None:
    """Add a copy that lacks no offset after the history's end.

    The history becomes longer, and may prove more.
    """
    bounds = copy.bounds
    missing = copy.missing(0)
    is_from_start = bounds.covered_from == 0 and not any(is_gap for _, _, is_gap in missing)
    behind = missing[-1][1] if missing else 0
    exact_from = _exact_from(bounds, behind) if behind else 0
    if not is_from_start or exact_from is None:
        if ranges:
            _extend(ranges, bounds.end)
        return
    while ranges and (ranges[-1].exact_from_offset is None or ranges[-1].exact_from_offset >= exact_from):
        last = ranges[-1]
        if behind > last.begins_at and len(ranges) > 1:
            break
        ranges.pop()
    if not ranges:
        ranges.append(_range(behind, exact_from, bounds.end, copy))
    elif ranges[-1].exact_from_offset is None or ranges[-1].exact_from_offset > exact_from:
        # This copy covers the gap of older copies and lacks the same offsets, so their records were compacted away.
        ranges[-1] = _range(behind, exact_from, bounds.end, copy, ranges[-1].begins_at)
    else:
        _extend(ranges, bounds.end)
