"""Faults of brokers that remove offsets which are not to expire: where they are possible, they are named."""

from datetime import timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from coordinator_replay.analysis.expiring import Retention
from coordinator_replay.api.warehouse import Warehouse
from coordinator_replay.pipeline.interval_rows import STAGED, Staged
from coordinator_replay.pipeline.offsets.causes import REBALANCED, tombstone_causes
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit, contents, cut
from tests.pipeline.staged_rows import moment, ms
from tests.samples import DATA

__all__ = ["audit"]

DAY, HOUR = 86_400, 3600
KNOWN, GUESSED = Retention(7 * DAY * 1000, True), Retention(7 * DAY * 1000, False)
ELECTED = (0, ms(9 * DAY - 60), 4, True)


def removed(**columns):
    """An offset committed at 0 and removed after nine days."""
    row = dict.fromkeys(STAGED.names)
    row |= {
        "kind": int(Staged.REMOVED),
        "group_id": "g",
        "topic": "t",
        "partition": 0,
        "committed_offset": 5,
        "commit_timestamp": moment(0),
        "base_timestamp": moment(0),
        "valid_from": moment(0),
        "valid_to": moment(9 * DAY),
        "from_offset": 1,
        "to_offset": 9,
        "log_partition": 0,
        "value_version": 3,
        "rule": "unsubscribed_topic",
        "is_protected": False,
        "has_group_tombstone": False,
        "is_exact": True,
        "is_proven": True,
    }
    return row | columns


YOUNG = {name: moment(9 * DAY - HOUR) for name in ("commit_timestamp", "base_timestamp", "valid_from")}
SUBSCRIBED = {"rule": "never_while_active", "base_timestamp": None}
EMPTY = {"rule": "empty_since", "base_timestamp": moment(8 * DAY)}
NAMED = {"rule": "explicit_expire_timestamp", "expire_timestamp": moment(10 * DAY), "value_version": 1}
HELD = {"is_protected": True, "base_timestamp": moment(2 * DAY - 60), "commit_timestamp": moment(2 * DAY - 60)}


def causes(*rows, retention=KNOWN, coordinators=(), rebalanced=(), deletions=()):
    """Each removed offset's cause, confidence, alternatives and evidence as one text."""
    table = pa.Table.from_pylist([*rows], STAGED)
    done = [dict(zip(REBALANCED.names, one, strict=True)) for one in rebalanced]
    after = pa.Table.from_pylist(done, REBALANCED)
    batches = tombstone_causes(table, retention, deletions, coordinators=coordinators, rebalanced=after)
    return [
        (row["ended_by"], row["ended_confidence"], row["ended_alternatives"], "; ".join(row["ended_evidence"]))
        for batch in batches
        for row in batch.to_pylist()
    ]


REBALANCE = ("g", moment(9 * DAY + 20), 60_000)
CASES = {
    "while the group rebalanced": (SUBSCRIBED, {"rebalanced": [REBALANCE]}, "EXPIRED", "possible", "KAFKA-13636"),
    "the rebalance began later": (
        SUBSCRIBED,
        {"rebalanced": [("g", moment(9 * DAY + 90), 60_000)]},
        "DELETED",
        "certain",
        "show members that keep retention and DeleteOffsets away",
    ),
    "another group rebalanced": (
        SUBSCRIBED,
        {"rebalanced": [("h", moment(9 * DAY + 20), 60_000)]},
        "DELETED",
        "certain",
        "show members that keep",
    ),
    "too young for that fault": (
        SUBSCRIBED | {"commit_timestamp": moment(8 * DAY)},
        {"rebalanced": [REBALANCE]},
        "DELETED",
        "certain",
        "removed before the end of offsets.retention.minutes",
    ),
    "while a member joined the Empty group": (
        EMPTY,
        {"rebalanced": [REBALANCE]},
        "EXPIRED",
        "possible",
        "since its commit, but not since the group became Empty; the group may have been rebalancing",
    ),
    "with the group, which was created again at once": (
        EMPTY | {"has_group_tombstone": True},
        {"rebalanced": [REBALANCE]},
        "GROUP_DELETED",
        "likely",
        "the group's tombstone was written with it",
    ),
    "of an Empty group with an open transaction, past both": (
        EMPTY | {"is_protected": True, "base_timestamp": moment(2 * DAY - 60)},
        {"rebalanced": [REBALANCE]},
        "EXPIRED",
        "possible",
        "written in Scala",
    ),
    "of an Empty group that nobody joined": (EMPTY, {}, "DELETED", "certain", "removed before the end of"),
    "of an Empty group, committed lately": (
        EMPTY | {"commit_timestamp": moment(8 * DAY)},
        {"rebalanced": [REBALANCE]},
        "DELETED",
        "certain",
        "removed before the end of",
    ),
    "of an Empty group that somebody joined later": (
        EMPTY,
        {"rebalanced": [("g", moment(9 * DAY + 90), 60_000)]},
        "DELETED",
        "certain",
        "removed before the end of",
    ),
    "with an open transaction, at once": (HELD, {}, "EXPIRED", "possible", "written in Scala"),
    "with an open transaction, long after": (
        {"is_protected": True},
        {},
        "DELETED",
        "certain",
        "a transaction on it was open",
    ),
    "loaded by Kafka 2.1": (
        YOUNG | {"value_version": 1},
        {"coordinators": [ELECTED]},
        "EXPIRED",
        "possible",
        "leader epoch 4 of the log partition was elected 60000 ms earlier; the commit is of version 1",
    ),
    "committed to the new coordinator": (
        {**dict.fromkeys(YOUNG, moment(9 * DAY - 30)), "value_version": 1},
        {"coordinators": [ELECTED]},
        "DELETED",
        "certain",
        "removed before the end of offsets.retention.minutes",
    ),
    "of a later version": (YOUNG, {"coordinators": [ELECTED]}, "DELETED", "certain", "removed before the end of"),
    "loaded long ago": (
        YOUNG | {"value_version": 1},
        {"coordinators": [(0, ms(9 * DAY - HOUR + 1), 4, True)]},
        "DELETED",
        "certain",
        "removed before the end of",
    ),
    "expired during load": (
        NAMED,
        {"coordinators": [(0, ms(9 * DAY), 4, False)]},
        "EXPIRED",
        "possible",
        "the first record of leader epoch 4 was 0 ms earlier; Kafka 0.8.2",
    ),
    "of another log partition": (
        NAMED,
        {"coordinators": [(1, ms(9 * DAY), 4, False)]},
        "DELETED",
        "certain",
        "removed before the time of expiry that the commit itself names",
    ),
}


@pytest.mark.parametrize("name", rest_at_night(CASES, list(CASES)[::3]))
def test_a_fault_is_possible_where_the_records_are_those_that_it_leaves(name):
    columns, more, ended_by, confidence, evidence = CASES[name]
    [(found, sure, alternatives, said)] = causes(removed(**columns), **more)
    assert (found, sure) == (ended_by, confidence), said
    assert evidence in said
    assert alternatives == (["DELETED"] if ended_by != "DELETED" else [])


def beside_others(**columns):
    """Return an offset that a fault may have removed, and offsets of three groups that lost the topic with it."""
    others = [removed(**YOUNG, group_id=f"other-{n}", to_offset=10 + n) for n in range(3)]
    return [removed(**columns), *others]


@pytest.mark.parametrize("tombstone", [False, True])
def test_a_fault_is_an_alternative_where_several_groups_lost_the_topic(tombstone):
    columns = HELD | {"has_group_tombstone": tombstone}
    [(ended_by, confidence, alternatives, _), *others] = causes(*beside_others(**columns))
    assert (ended_by, confidence) == ("GROUP_DELETED" if tombstone else "DELETED", "likely")
    assert "EXPIRED" in alternatives
    assert [other[:3] for other in others] == [("DELETED", "likely", [])] * 3


def test_retention_is_an_alternative_to_a_deleted_topic_if_its_length_is_a_guess():
    found = causes(*beside_others(**YOUNG), retention=GUESSED)
    assert [one[:3] for one in found] == [("DELETED", "likely", ["EXPIRED"])] * 4


def test_a_fault_is_an_alternative_to_a_topic_that_the_metadata_deleted():
    deletions = [("t", ms(9 * DAY - 5))]
    [(ended_by, confidence, alternatives, _)] = causes(removed(**HELD), deletions=deletions)
    assert (ended_by, confidence, alternatives) == ("DELETED", "likely", ["EXPIRED"])
    [(ended_by, confidence, alternatives, _)] = causes(removed(**YOUNG), deletions=deletions)
    assert (ended_by, confidence, alternatives) == ("DELETED", "certain", [])


def test_an_offset_past_retention_is_never_said_to_be_younger():
    for columns in (SUBSCRIBED, {"is_protected": True}):
        [(ended_by, confidence, alternatives, said)] = causes(removed(**columns), retention=GUESSED)
        assert (ended_by, confidence, alternatives) == ("DELETED", "likely", ["EXPIRED"])
        assert said.startswith("past the default of offsets.retention.minutes (7 days), but")


def test_an_offset_that_names_its_time_needs_no_retention():
    [(ended_by, confidence, alternatives, said)] = causes(removed(**NAMED), retention=GUESSED)
    assert (ended_by, confidence, alternatives) == ("DELETED", "likely", ["GROUP_DELETED"])
    assert "retention" not in said


def test_a_group_that_only_stores_offsets_may_have_been_deleted_without_a_tombstone():
    """Before Kafka 4.0, ``cleanupGroupMetadata`` writes no tombstone of a group whose generation is 0."""
    [(ended_by, confidence, alternatives, said)] = causes(removed(**YOUNG, rule="simple_group"))
    assert (ended_by, confidence, alternatives) == ("DELETED", "likely", ["GROUP_DELETED"])
    assert "it is likely that DeleteOffsets removed it" in said


def test_an_offset_that_names_its_time_is_compared_with_this_time():
    columns = NAMED | {"expire_timestamp": moment(9 * DAY - 60), "commit_timestamp": moment(9 * DAY - HOUR)}
    [(ended_by, _, _, said)] = causes(removed(**columns))
    assert ended_by == "EXPIRED"
    assert "was past offsets.retention.minutes, or the time of expiry that a commit names" in said


def test_a_proven_age_is_not_said_to_be_open():
    old, other = causes(removed(), removed(commit_timestamp=None, base_timestamp=None, partition=1, to_offset=10))
    assert old[3] == "whether each offset removed in the same write was past offsets.retention.minutes is not proven"
    assert other[3].startswith("whether it was past offsets.retention.minutes is not proven")


def test_a_retention_that_is_not_known_is_the_reason_for_its_alternative():
    for _, confidence, alternatives, said in causes(
        removed(), removed(**YOUNG) | {"partition": 1, "to_offset": 10}, retention=GUESSED
    ):
        assert (confidence, alternatives) == ("likely", ["EXPIRED"])
        assert said.endswith("the cluster's own retention is not known, and may have removed it")


def test_an_old_offset_removed_with_a_young_one_is_not_called_young():
    young = removed(**YOUNG) | {"partition": 1, "to_offset": 10}
    (_, _, _, old), (_, _, _, other) = causes(removed(), young)
    assert "removed in the same write" in old and "before" not in old
    assert "removed before the end of offsets.retention.minutes" in other


def test_every_offset_of_the_write_must_be_one_that_the_fault_removes():
    rows = [removed(**SUBSCRIBED), removed(**YOUNG) | {"partition": 1, "to_offset": 10}]
    assert {one[0] for one in causes(*rows, rebalanced=[REBALANCE])} == {"DELETED"}
    rows = [removed(**SUBSCRIBED), removed() | {"partition": 1, "to_offset": 10}]
    assert {one[0] for one in causes(*rows, rebalanced=[REBALANCE])} == {"EXPIRED"}


def test_an_offset_removed_while_its_group_rebalanced_may_have_expired(audit, tmp_path):
    recorded = str(DATA / "reports" / "removed-while-rebalancing" / "segments")
    audit(tmp_path / "once", recorded)
    [row] = [
        row
        for row in DeltaTable(tmp_path / "once" / "offset_history").to_pyarrow_table().to_pylist()
        if row["ended_by"] not in (None, "COMMIT")
    ]
    assert (row["ended_by"], row["ended_confidence"], row["ended_alternatives"]) == ("EXPIRED", "possible", ["DELETED"])
    assert "was over 20000 ms later" in row["ended_evidence"][1]
    [note] = [one for one in Warehouse(str(tmp_path / "once")).offsets("k13636").notes if "rare" in one]
    assert "KAFKA-13636" in note and "removed before" not in note and "younger" not in note
    [found] = [one for one in Warehouse(str(tmp_path / "once")).findings() if one.rule == "offset_lost"]
    assert "1 offset of rare may have expired on" in found.message and "(a member subscribed to it)" in found.message


@pytest.mark.long
def test_the_rebalance_in_which_an_offset_was_removed_may_be_in_the_next_nights_dump(audit, tmp_path):
    recorded = str(DATA / "reports" / "removed-while-rebalancing" / "segments")
    audit(tmp_path / "once", recorded)
    parts = [tmp_path / "first", tmp_path / "second"]
    cut(recorded, parts, lambda batches: [0, batches - 95])
    for part in parts:
        audit(tmp_path / "nights", str(part))
    assert contents(tmp_path / "nights") == contents(tmp_path / "once")


def test_a_change_of_coordinator_is_evidence_for_what_it_removed(audit, tmp_path):
    audit(tmp_path / "wh", str(DATA / "reports" / "expired-during-load" / "segments"))
    [row] = [
        row
        for row in DeltaTable(tmp_path / "wh" / "offset_history").to_pyarrow_table().to_pylist()
        if row["to_offset"] is not None and row["ended_by"] != "COMMIT"
    ]
    assert (row["ended_by"], row["ended_confidence"]) == ("EXPIRED", "possible")
    assert row["ended_alternatives"] == ["GROUP_DELETED", "DELETED"]
    assert "of the log partition" in row["ended_evidence"][1]
    assert row["valid_to"] - row["valid_from"] == timedelta(minutes=2)


BEFORE = ("g", moment(8 * DAY), 60_000)


@pytest.mark.parametrize("columns", [SUBSCRIBED, EMPTY])
@pytest.mark.parametrize("after", [[BEFORE], [BEFORE, ("g", moment(9 * DAY + 20), None)]])
@pytest.mark.parametrize("deletions", [(), [("t", ms(9 * DAY - 5))]])
def test_nothing_is_certain_if_the_end_of_a_rebalance_is_not_on_record(columns, after, deletions):
    [(ended_by, confidence, alternatives, said)] = causes(removed(**columns), rebalanced=after, deletions=deletions)
    assert (ended_by, confidence, alternatives) == ("DELETED", "likely", ["EXPIRED"])
    assert "whether the group was rebalancing then is not on record" in said


@pytest.mark.parametrize("columns", [YOUNG, NAMED, SUBSCRIBED])
def test_a_group_may_have_been_deleted_if_its_tombstone_may_be_missing(columns):
    [(ended_by, confidence, alternatives, said)] = causes(removed(**columns, has_group_tombstone=None))
    assert (ended_by, confidence, alternatives) == ("DELETED", "likely", ["GROUP_DELETED"])
    assert "a tombstone of the group may have followed it: the log does not prove that there was none" in said


def test_a_missing_tombstone_is_open_for_all_offsets_of_the_operation():
    first, last = removed(**YOUNG), removed(**YOUNG, partition=1, to_offset=10, has_group_tombstone=None)
    assert [one[1:3] for one in causes(first, last)] == [("likely", ["GROUP_DELETED"])] * 2


@pytest.mark.parametrize(
    "columns",
    [
        EMPTY | {"is_exact": False},
        EMPTY | {"last_state": "Unknown"},
        {"commit_timestamp": None, "base_timestamp": None},
        {"rule": None, "base_timestamp": None, "is_proven": False},
    ],
)
def test_an_offset_whose_age_is_not_proven_may_have_expired(columns):
    [(ended_by, confidence, alternatives, said)] = causes(removed(**columns))
    assert (ended_by, confidence, alternatives) == ("TOMBSTONE", "possible", ["EXPIRED", "DELETED"])
    assert said.startswith("whether it was past offsets.retention.minutes is not proven")
