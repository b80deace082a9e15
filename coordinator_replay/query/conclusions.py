"""Sentences that sum up the answer of a saved query, if its rows alone don't say enough."""

from collections.abc import Callable, Mapping

from coordinator_replay.listing import counted
from coordinator_replay.query.group_partitions import unaudited_note
from coordinator_replay.query.tables import Tables
from coordinator_replay.times import moment_text


def _history(warehouse: Tables) -> list[str | None]:
    """Return a sentence that says since when no record is missing, and a note on log partitions not yet audited."""
    history = warehouse.completeness
    if not history.partitions:
        return []
    first = f" The first record is of {moment_text(warehouse.coverage.first)}." if history.is_whole else ""
    return [f"{history.history_line()}{first}", unaudited_note(warehouse)]


_LOADINGS = """
    SELECT count(*), max(loading_ms) FROM coordinator_changes WHERE cluster = $cluster AND loading_ms IS NOT NULL
"""


def _loading(warehouse: Tables) -> list[str | None]:
    """Return a sentence that says how long coordinators took to load log partitions. Only brokers' logs show this.

    A second sentence names the log partitions that no audit has read.
    """
    if not warehouse.has_rows("broker_log"):
        return [
            "Brokers' logs were not audited: slow and failed loadings are not on record.",
            unaudited_note(warehouse),
        ]
    [(count, longest)] = warehouse.rows(_LOADINGS)
    shown = f"{counted(count, 'loading')}, the longest of {longest:,} ms" if count else "no loading that was finished"
    return [f"The brokers' logs that were audited show {shown}.", unaudited_note(warehouse)]


_CONCLUSIONS: Mapping[str, Callable[[Tables], list[str | None]]] = {
    "history-completeness": _history,
    "loading-risks": _loading,
}


def conclusions(warehouse: Tables, query: str) -> list[str | None]:
    """Return sentences that sum up the answer of a saved query. Most saved queries have no such sentences.

    Args:
        warehouse: the tables to read.
        query: full name of the saved query.
    """
    return _CONCLUSIONS[query](warehouse) if query in _CONCLUSIONS else []
