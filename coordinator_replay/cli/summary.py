"""The summary that a run prints at its end."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from coordinator_replay.listing import counted
from coordinator_replay.safe_text import neutral
from coordinator_replay.times import moment_text

if TYPE_CHECKING:
    from coordinator_replay.completeness.past import Completeness
    from coordinator_replay.pipeline.audit import Summary

_MOST_NOTES = 10
_COUNTS = {
    "records_read": "",
    "records_decoded": "decoded and written",
    "records_quarantined": "quarantined",
    "control_records": "transaction markers and other control records",
    "duplicates_dropped": "further copies dropped",
    "already_audited": "already audited",
}
"""Counts of a run, each with its words in the summary. The count without words is in the first line."""

_STATUSES = {
    "EXPIRED": "expired",
    "DUE": "past retention without a tombstone yet",
    "EXPIRING": "to expire within the horizon",
}
"""Statuses of offsets in the table ``expired_offsets``, each with its words."""


def _most_first(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _facts(summary: "Summary", history: "Completeness", seconds: float) -> dict[str, Any]:
    run = summary.run
    since = history.since()
    return {
        **{name: getattr(run, name) for name in ("run_id", "cluster", *_COUNTS)},
        "log_partitions": len(run.to_offsets),
        "gaps": len(run.gaps),
        "is_history_complete": since.is_whole,
        "complete_since": None if since.since is None else moment_text(since.since),
        "missing_offsets": sum(partition.missing_offsets for partition in history.partitions.values()),
        "kinds": dict(_most_first(summary.kinds)),
        "quarantined": summary.quarantined,
        "groups": [{"type": kind, "state": state, "count": n} for (kind, state), n in sorted(summary.groups.items())],
        "rebalances": summary.rebalances,
        "causes": dict(_most_first(summary.causes)),
        "offsets": {status.lower(): summary.expired.get(status, 0) for status in _STATUSES},
        "findings": summary.findings,
        "new_findings": summary.new_findings,
        "notes": run.notes,
        "seconds": round(seconds, 1),
    }


def _print_counts(counts: Iterable[tuple[str, int]]) -> None:
    for words, n in counts:
        click.echo(f"  {n:>12,}  {words}")


def _print_records(summary: "Summary", kinds: dict[str, int]) -> None:
    run = summary.run
    click.echo(f"Read {counted(run.records_read, 'record')} of {counted(len(run.to_offsets), 'log partition')}:")
    _print_counts((words, getattr(run, name)) for name, words in _COUNTS.items() if words)
    if kinds:
        click.echo("By kind:")
    _print_counts(kinds.items())
    _print_counts((f"not decoded: {error}", n) for error, n in sorted(summary.quarantined.items()))


def _print_groups(summary: "Summary") -> None:
    if summary.groups:
        click.echo(f"{counted(sum(summary.groups.values()), 'group')} at the end of the log:")
    _print_counts((f"{kind}, {state}", n) for (kind, state), n in sorted(summary.groups.items()))
    click.echo(f"{counted(summary.rebalances, 'rebalance')} on record{':' if summary.causes else '.'}")
    _print_counts(_most_first(summary.causes))
    counts = [f"{summary.expired[status]:,} {words}" for status, words in _STATUSES.items() if summary.expired[status]]
    if counts:
        click.echo(f"Offsets: {', '.join(counts)}.")
    if summary.findings:
        by_severity = ((name, summary.findings.get(name, 0)) for name in ("error", "warning", "info"))
        severities = ", ".join(f"{n:,} {name}" for name, n in by_severity if n)
        new = summary.new_findings.total()
        has_read = summary.run.records_decoded or summary.run.records_quarantined
        since = "found by no audit before" if has_read else "found first by the last audit that read new records"
        click.echo(f"{counted(summary.findings.total(), 'finding')}, {new:,} {since}: {severities}.")


def print_summary(summary: "Summary", history: "Completeness", form: str, *, seconds: float) -> None:
    """Print the summary of a run.

    Print text if ``form`` is ``table``, else one JSON object.

    Args:
        summary: the summary of the run.
        history: the completeness of the cluster's log over all runs.
        form: ``table``, ``json`` or ``csv``.
        seconds: duration of the run in seconds.
    """
    facts = _facts(summary, history, seconds)
    if form != "table":
        click.echo(json.dumps(facts))
        return
    run = summary.run
    _print_records(summary, facts["kinds"])
    _print_groups(summary)
    for partition, start, end in run.gaps[:_MOST_NOTES]:
        click.echo(f"Gap: no record of log partition {partition} from offset {start} up to {end}.")
    for note in run.notes[:_MOST_NOTES]:
        click.echo(f"Note: {neutral(note)}.")
    hidden = max(0, len(run.notes) - _MOST_NOTES) + max(0, len(run.gaps) - _MOST_NOTES)
    if hidden:
        click.echo(f"… and {counted(hidden, 'more note')} in audit_runs.")
    if history.partitions:
        click.echo(history.history_line())
    click.echo(f"Run {run.run_id} of cluster {neutral(run.cluster)} took {seconds:.1f} s.")
