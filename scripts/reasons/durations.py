"""Durations of classic groups' rebalances, from the broker's log."""

from collections.abc import Sequence

from scripts.reasons.logged_truth import EMPTIED, STARTS, SYNCED, Line


def durations(log: Sequence[Line]) -> dict[tuple[str, int], int]:
    """Return the milliseconds from the first to the last log line of each rebalance, by group and generation."""
    began: dict[str, int] = {}
    took: dict[tuple[str, int], int] = {}
    for line in log:
        starts = STARTS.search(line["text"])
        over = SYNCED.search(line["text"]) or EMPTIED.search(line["text"])
        if starts is not None:
            began.setdefault(starts["group"], line["at"])
        elif over is not None and over["group"] in began:
            took[over["group"], int(over["epoch"])] = line["at"] - began.pop(over["group"])
    return took
