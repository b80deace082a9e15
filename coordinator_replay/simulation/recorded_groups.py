"""What-if for groups in the tables: reads a group's records and topics, and passes them to ``what_if.answer``.

``what_if`` answers for one group. ``what_if_all`` ranks all groups by the gain of one alternative.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from coordinator_replay.analysis.reasons.topic_changes import DatedTopicChange
from coordinator_replay.engine.model import Record
from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted, listed
from coordinator_replay.query.basis import basis_of_group
from coordinator_replay.query.completeness import undecoded_note
from coordinator_replay.query.group_moves import moves_of
from coordinator_replay.query.groups import check_group, group_names
from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from coordinator_replay.records.blobs import open_blobs
from coordinator_replay.simulation.what_if import answer
from coordinator_replay.simulation.what_if.answer import WhatIf
from coordinator_replay.simulation.what_if.measures import Gain
from coordinator_replay.simulation.what_if.record import Recorded
from coordinator_replay.simulation.what_if.settings import Alternative, Settings, changed, texts_of
from coordinator_replay.times import milliseconds, moment_text

_RECORDS = """
    SELECT group_id, kind, key_json, value_json, log_partition, log_offset,
           epoch_ms(log_timestamp), coalesce(missing_before, 0), value_version
    FROM group_records
    WHERE cluster = $cluster {of_groups} AND (group_id, log_partition) NOT IN (
        SELECT (group_id, log_partition) FROM group_moves WHERE cluster = $cluster
    )
    ORDER BY group_id, log_partition, log_offset
"""
"""SQL for records of groups; if a group moved, only its records in the new log partition."""

_GROUPS = "SELECT DISTINCT group_id FROM group_records WHERE cluster = $cluster ORDER BY group_id"

_ON_CLASSIC = "classic-protocol-groups"
"""Saved query for obstacles to the consumer protocol that the log shows (column ``obstacle``)."""

_NO_OBSTACLE = "none on record"
"""Value of the column ``obstacle`` for a group without an obstacle."""

_NOT_SIMULATED = (
    "can't be simulated (share or streams groups, or too little on record in this time range, such as no members)"
)
"""The words after the number of groups that can't be simulated."""

_AT_LEAST = "Records of that time may be missing from the log: the true numbers of the recorded group may be higher."
"""A note on a group of which the log may lack records."""

_MOST_NAMED = 10
"""Largest number of groups that a sentence names; the others are only counted."""

_TOPICS = (
    "SELECT topic_id, topic, partition_count, changes FROM topics WHERE cluster = $cluster ORDER BY topic, topic_id"
)

_REBALANCE = (
    *("rebalance_id", "group_type", "epoch", "started_at", "completed_at", "cause", "confidence", "is_exact"),
    *("members_before", "members_after", "members_joined", "members_left", "partitions_reassigned"),
    *("unowned_ms_max", "unowned_ms_total", "commit_pause_ms", "is_pause_at_least"),
    "metadata_delay_ms",
)
_REBALANCES = f"""
    SELECT group_id, {", ".join(f"epoch_ms({name})" if name.endswith("_at") else name for name in _REBALANCE)}
    FROM rebalances
    WHERE cluster = $cluster AND epoch IS NOT NULL {{of_groups}} AND coalesce(completed_at, started_at) >= coalesce(
        (SELECT max(moved_at) FROM group_moves WHERE cluster = $cluster AND group_moves.group_id = rebalances.group_id),
        '-infinity'::TIMESTAMPTZ)
"""  # noqa: S608 - our own names

_LAST_COMMITS = """
    SELECT group_id, owner_member_id, epoch_ms(max(valid_from))
    FROM offset_history
    WHERE cluster = $cluster {of_groups} AND owner_member_id IS NOT NULL AND valid_from IS NOT NULL
    GROUP BY ALL
"""

_RANGED, _RANGED_STEPS = 10, 15_000
"""Number of groups that get ranges, from the top of the ranking, and the most simulation steps for each."""

_GROUPS_AT_ONCE = 100
"""Number of groups that are read together. This limits the memory that a large cluster needs."""


class _Topics:
    """The cluster's topics.

    Attributes:
        names: topic name by id.
        counts: last known partition count of each topic.
        changes: changes of each topic, with their times.
    """

    def __init__(self, warehouse: Tables) -> None:
        self.names: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.changes: dict[str, list[DatedTopicChange]] = {}
        for topic_id, topic, count, changes in warehouse.rows(_TOPICS):
            self.names[topic_id] = topic
            if count is not None:
                self.counts[topic] = count
            if changes:
                self.changes[topic] = [
                    DatedTopicChange(
                        milliseconds(change["changed_at"]), change["change"], change["partition_count"] or 0
                    )
                    for change in changes
                ]


def what_if_all(
    warehouse: Tables,
    alternative: Alternative,
    start: datetime | None = None,
    end: datetime | None = None,
    known: Mapping[str, str | int] | None = None,
) -> tuple[list[Gain], list[str]]:
    """Return the gain of an alternative for each group, the largest gain first.

    Args:
        warehouse: the tables to read.
        alternative: settings to try.
        start: start of the time range, included; None to begin at each group's first record.
        end: end of the time range, excluded. None for the end of the log, or ten minutes after the group's last record
            if that is earlier.
        known: the groups' settings that the log does not show.

    Returns:
        The gains, and sentences about groups without a prediction. Only the first ``_RANGED`` gains have a lowest and
        a highest value.

    Raises:
        UsageError: a setting is unknown, or the tables have no record of that range.
    """
    warehouse.check_range(start, end)
    given = texts_of(known or {})
    # A setting that no group can have is an error of the call, not of a group.
    changed(Settings(protocol="classic"), {**given, **alternative.values})
    topics, simulate = _Topics(warehouse), _simulation(start, end, given)
    gains, refused, unread = [], [], set(group_names(warehouse))
    empty: list[str] = []
    unlike: list[str] = []
    moved = [group for group in sorted(unread) if _moved(warehouse, group, start)]
    groups = [group for (group,) in warehouse.rows(_GROUPS)]
    for first in range(0, len(groups), _GROUPS_AT_ONCE):
        for recorded in _read(warehouse, groups[first : first + _GROUPS_AT_ONCE], topics, start):
            unread.discard(recorded.group_id)
            try:
                simulated = simulate(recorded, [alternative], most_steps=0)
            except UsageError:
                refused.append(recorded.group_id)
                continue
            if simulated.fidelity.is_enough:
                gains.append(_gain(simulated))
            else:
                (empty if simulated.fidelity.is_empty else unlike).append(recorded.group_id)
    notes = [
        f"{counted(len(names), 'group')} {why}: {', '.join(names[:_MOST_NAMED])}{', …' * (len(names) > _MOST_NAMED)}."
        for names, why in (
            (sorted({*refused, *unread.intersection(moved)}), _NOT_SIMULATED),
            (sorted(unread.difference(moved)), "with only offsets on record"),
            (empty, "without a prediction, because no rebalance is on record that a simulation could reproduce"),
            (unlike, "without a prediction, because the simulation does not reproduce enough of the recorded group"),
            (moved, "covered only since the move to another log partition (finding group_moved)"),
        )
        if names
    ]
    ranked = sorted(gains, key=lambda gain: (-gain.interruptions_spared, -gain.rebalances_spared, gain.group_id))
    leading = [gain.group_id for gain in ranked[:_RANGED]]
    ranges: dict[str, dict[str, tuple[int, int]]] = {}
    for recorded in _read(warehouse, leading, topics, start) if leading else ():
        simulated = simulate(recorded, [alternative], most_steps=_RANGED_STEPS)
        ranges[recorded.group_id] = dict(_ranges_of_gain(simulated))
    obstacles = _obstacles(warehouse) if _changes_to_consumer(alternative) else {}
    answers = [
        replace(gain, ranges=ranges.get(gain.group_id), obstacle=obstacles.get(gain.group_id)) for gain in ranked
    ]
    undecoded = undecoded_note(warehouse)
    notes += [undecoded] if undecoded is not None else []
    return answers, [*notes, *_not_predicted(obstacles, [gain.group_id for gain in gains])]


def _changes_to_consumer(alternative: Alternative) -> bool:
    return str(alternative.values.get("group.protocol", "")).strip().lower() == "consumer"


def _obstacles(warehouse: Tables) -> dict[str, str]:
    """Return what prevents a group from changing to the consumer protocol, as far as the log shows it.

    The keys are the ids of all groups on the classic protocol. If the log shows nothing that prevents the change, the
    value is ``_NO_OBSTACLE``.
    """
    names, rows = run_saved_query(warehouse, _ON_CLASSIC)
    group, obstacle = names.index("group_id"), names.index("obstacle")
    return {row[group]: row[obstacle] for row in rows if row[obstacle] is not None}


def _not_predicted(obstacles: Mapping[str, str], predicted: Collection[str]) -> list[str]:
    """Return a note that names classic groups without a prediction and what keeps each of them from KIP-848.

    The result is a list with this note; an empty list if there is no such group.

    Args:
        obstacles: for each classic group, a text on what keeps the group from KIP-848.
        predicted: the groups with a prediction.
    """
    others = [
        f"{group}: {obstacle}"
        for group, obstacle in obstacles.items()
        if group not in predicted and obstacle != _NO_OBSTACLE
    ]
    if not others:
        return []
    return [f"Obstacles of groups not predicted: {listed(others, _MOST_NAMED, '; ')} (sql --query {_ON_CLASSIC})."]


def _gain(what_if: WhatIf) -> Gain:
    before, after = what_if.simulated, what_if.alternatives[0]
    return Gain(
        group_id=what_if.group_id,
        share=what_if.fidelity.share,
        recorded_rebalances=what_if.recorded.rebalances,
        is_at_least=what_if.recorded.is_at_least,
        rebalances=after.rebalances,
        rebalances_spared=before.rebalances - after.rebalances,
        interruptions=after.members_interrupted,
        interruptions_spared=before.members_interrupted - after.members_interrupted,
        pause_ms_spared=(before.pause_ms_total or 0) - (after.pause_ms_total or 0),
    )


def _ranges_of_gain(what_if: WhatIf) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the names of fields of ``Gain``, each with the lowest and the highest value that is predicted for it."""
    before, after = what_if.simulated, what_if.alternatives[0]
    for name, predicted, spared in (
        ("rebalances", "rebalances", "rebalances_spared"),
        ("members_interrupted", "interruptions", "interruptions_spared"),
        ("pause_ms_total", None, "pause_ms_spared"),
    ):
        if name in after.ranges:
            least, most = after.ranges[name]
            if predicted is not None:
                yield predicted, (least, most)
            count = getattr(before, name) or 0
            yield spared, (count - most, count - least)


def recorded_of(warehouse: Tables, group: str, start: datetime | None = None) -> Recorded:
    """Return the recorded facts of a group.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        start: start of the asked time range; None for the start of the log. Earlier records are read, too.

    Raises:
        UsageError: the tables don't know the group, or have only its offset commits.
    """
    topics = _Topics(warehouse)
    for recorded in _read(warehouse, [group], topics, start):
        return recorded
    check_group(warehouse, group)
    nothing = Recorded(group, [], topics.names, topics.counts, topics.changes, moved=_moved(warehouse, group, start))
    raise nothing.nothing("has no members on record to replay")


def _read(warehouse: Tables, groups: Sequence[str], topics: _Topics, start: datetime | None) -> Iterator[Recorded]:
    """Yield the recorded facts of groups, read with one statement for each table.

    Groups without records are left out.
    """
    records = warehouse.rows_by_group(_RECORDS, groups)
    rebalances = warehouse.rows_by_group(_REBALANCES, groups)
    commits = warehouse.rows_by_group(_LAST_COMMITS, groups)
    end_ms = milliseconds(warehouse.coverage.last)
    note = undecoded_note(warehouse, groups[0] if len(groups) == 1 else None)
    undecoded = [] if note is None else [note]
    for group, rows in records.items():
        own = list(_records(rows))
        if own:
            of_group = [dict(zip(_REBALANCE, row, strict=True)) for row in rebalances.get(group, ())]
            last = dict(commits.get(group, ()))
            moved = _moved(warehouse, group, start)
            lacks = [*_lacks(warehouse, group, own[-1].partition, start), *undecoded]
            yield Recorded(
                group, own, topics.names, topics.counts, topics.changes, of_group, end_ms, last, moved, lacks
            )


def _moved(warehouse: Tables, group: str, start: datetime | None) -> str:
    """Return a clause on a group's last move to another log partition, if a time range begins before it.

    Otherwise return an empty text.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        start: start of the time range; None for the start of the log.
    """
    moves = moves_of(warehouse.moves, group)
    if not moves:
        return ""
    moved_at = moves[-1].moved_at
    if start is not None and moved_at is not None and start >= moved_at:
        return ""
    return f"its move to another log partition{'' if moved_at is None else f' at {moment_text(moved_at)}'}"


def _lacks(warehouse: Tables, group: str, log_partition: int, start: datetime | None) -> Iterator[str]:
    """Yield sentences on what the log may lack of a group in a time range.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        log_partition: the group's present log partition.
        start: start of the time range; None for the start of the log.
    """
    moved = _moved(warehouse, group, start)
    if moved:
        yield f"What-if covers the group only since {moved}."
    if not basis_of_group(warehouse, start, group, log_partition).is_complete:
        yield _AT_LEAST


def _records(rows: Iterable[tuple[Any, ...]]) -> Iterator[Record]:
    unread = 0
    for kind, key, value, partition, offset, at_ms, missing, version in rows:
        if key is None:
            # A row without a key, which no audit writes, stands for a record that is missing before the next one.
            unread += 1
            continue
        opened, of = (None, None) if value is None else (open_blobs(kind, json.loads(value)), version)
        yield Record(kind, json.loads(key), opened, partition, offset, at_ms, missing + unread, of)
        unread = 0


def what_if(
    warehouse: Tables,
    group: str,
    alternatives: Sequence[Alternative],
    start: datetime | None = None,
    end: datetime | None = None,
    known: Mapping[str, str | int] | None = None,
) -> WhatIf:
    """Simulate a recorded group under other settings.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        alternatives: settings to try.
        start: start of the time range, included; None to begin at the group's first record.
        end: end of the time range, excluded. None for the end of the log, or ten minutes after the group's last record
            if that is earlier.
        known: the group's settings that the log does not show.

    Raises:
        UsageError: the tables don't know the group, the tables have no record of the range, the group can't be
            simulated, or a setting is unknown.
    """
    warehouse.check_range(start, end)
    return _simulation(start, end, texts_of(known or {}))(recorded_of(warehouse, group, start), alternatives)


def _simulation(start: datetime | None, end: datetime | None, known: Mapping[str, str]) -> Callable[..., WhatIf]:
    """Return a function that simulates a recorded group: ``answer.what_if`` with three arguments already set.

    Args:
        start: start of the time range, included; None to begin at the group's first record.
        end: end of the time range, excluded; None for the default of ``answer.what_if``.
        known: settings of the group that the log does not show.
    """
    start_ms, end_ms = (None if moment is None else milliseconds(moment) for moment in (start, end))
    return partial(answer.what_if, start_ms=start_ms, end_ms=end_ms, known=known)
