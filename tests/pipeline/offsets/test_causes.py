"""Why offsets were removed, and what expires: the broker's own expirations, and situations that no sample holds."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from coordinator_replay.pipeline.audit import ExpiryOptions
from coordinator_replay.pipeline.interval_rows import STAGED
from coordinator_replay.pipeline.offsets.causes import SURVIVORS, infer_retention
from coordinator_replay.query.offset_events import offset_events
from coordinator_replay.query.removed import removed_offsets
from coordinator_replay.query.tables import Tables
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit
from tests.pipeline.staged_rows import (
    audit_rows,
    auditor_of_rows,
    commit,
    emptied,
    group_record,
    marker,
    moment,
    ms,
)
from tests.samples import DATA, Sample, lines

__all__ = ["audit", "audit_rows"]

MINUTE = 60_000
HOUR = 3600
DAY = 24 * HOUR


def rows(warehouse, name):
    return DeltaTable(warehouse / name).to_pyarrow_table().to_pylist()


def in_ms(time):
    return None if time is None else round(time.timestamp() * 1000)


def removed(warehouse):
    return [row for row in rows(warehouse, "offset_history") if row["ended_by"] not in (None, "COMMIT")]


@pytest.fixture(scope="module")
def expiration(audited_once):
    """The warehouse of a broker that let offsets expire, and what its audit said."""
    return audited_once(Sample("expiration").segments)


def test_every_expiration_of_the_broker_is_explained_and_nothing_else(expiration):
    warehouse, summary = expiration
    assert "offset retention: 1 minutes, inferred from observed expirations" in summary.run.notes
    ended = removed(warehouse)
    assert len(ended) == 17
    by_group = {row["group_id"]: row["ended_by"] for row in ended}
    assert by_group.pop("shop-doomed") == "GROUP_DELETED"
    assert set(by_group.values()) == {"EXPIRED"}
    expired = [row for row in rows(warehouse, "expired_offsets") if row["status"] == "EXPIRED"]
    assert {(row["group_id"], row["topic"]): row["rule"] for row in expired} == {
        ("shop-stale", "shop.stale"): "empty_since",
        ("shop-stale-new", "shop.stale"): "unsubscribed_topic",
        ("shop-stale-simple", "shop.stale"): "simple_group",
        ("shop-simple", "shop.simple"): "simple_group",
        ("shop-stale-live", "shop.stale"): "unsubscribed_topic",
    }
    late = [in_ms(row["tombstone_at"]) - in_ms(row["expire_at"]) for row in expired]
    assert len(late) == 14
    # The broker looked every four seconds.
    assert all(0 <= lateness <= 4_000 for lateness in late)


def server_log(name, folder):
    """The lines of a sample's coordinators, in Kafka's own layout."""
    out = []
    for one in lines(Sample(name).folder / "broker-log.jsonl"):
        at = datetime.fromtimestamp(one["at"] / 1000, UTC)
        head = f"[GroupCoordinator id=1 topic=__consumer_offsets partition={one['partition']}]"
        out.append(f"[{at:%Y-%m-%d %H:%M:%S},{one['at'] % 1000:03}] INFO {head} {one['text']} (o.C)\n")
    (folder / "server.log").write_text("".join(out))
    return str(folder / "server.log")


def test_what_the_broker_logged_makes_causes_certain(expiration, audit, tmp_path):
    log = server_log("expiration", tmp_path)
    shutil.copytree(expiration[0], tmp_path / "wh")
    # A log that comes a night later counts for the past.
    audit(tmp_path / "wh", Sample("expiration").segments, broker_logs=[log], broker_log_zone="UTC")
    found = {
        name: sorted((row["group_id"], row["topic"], row["partition"], row["ended_by"]) for row in removed(place))
        for name, place in (("alone", expiration[0]), ("with the log", tmp_path / "wh"))
    }
    assert found["alone"] == found["with the log"]
    causes = {row["ended_confidence"] for row in rows(tmp_path / "wh", "removed_offsets")}
    assert causes == {"certain"}
    assert all(
        row["ended_evidence"][0].startswith("log of broker 1 at ") and not row["ended_alternatives"]
        for row in rows(tmp_path / "wh", "removed_offsets")
    )
    # With one tombstone more than were written, the line is of another write, or false.
    forged = tmp_path / "forged.log"
    text = (tmp_path / "server.log").read_text()
    forged.write_text(text.replace("Generated 3 tombstone", "Generated 4 tombstone"))
    audit(tmp_path / "forged", Sample("expiration").segments, broker_logs=[str(forged)], broker_log_zone="UTC")
    likely = [row for row in rows(tmp_path / "forged", "removed_offsets") if row["ended_confidence"] != "certain"]
    assert len(likely) == 3


def sure_of(warehouse):
    """How sure the cause of each group's removed offsets is."""
    return {(row["group_id"], row["ended_by"], row["ended_confidence"]) for row in rows(warehouse, "removed_offsets")}


def test_a_log_names_topics_and_groups_that_were_deleted(audit, tmp_path):
    log = Path(server_log("group-lifecycles", tmp_path))
    audit(tmp_path / "wh", Sample("group-lifecycles").segments, broker_logs=[str(log)], broker_log_zone="UTC")
    assert sure_of(tmp_path / "wh") == {
        ("shop-doomed", "GROUP_DELETED", "certain"),
        ("shop-trim", "DELETED", "certain"),
    }
    # Lines with another number, time, log partition or topic are about something else, or false.
    lines_of_log = log.read_text().splitlines(keepends=True)
    [trimmed] = [one for one in lines_of_log if "Generated 3 tombstone" in one]
    [doomed] = [one for one in lines_of_log if "groups were deleted" in one]
    forged = [
        trimmed.replace("Generated 3", "Generated 4"),
        trimmed.replace(":40,", ":43,"),
        trimmed.replace("partition=1]", "partition=2]"),
        trimmed.replace("shop.gone", "shop.simple"),
        doomed.replace("shop-doomed", "shop-trim"),
    ]
    assert len({*forged, trimmed, doomed}) == 7
    log.write_text("".join([one for one in lines_of_log if one not in (trimmed, doomed)] + forged))
    audit(tmp_path / "forged", Sample("group-lifecycles").segments, broker_logs=[str(log)], broker_log_zone="UTC")
    assert sure_of(tmp_path / "forged") == {
        ("shop-doomed", "GROUP_DELETED", "likely"),
        ("shop-trim", "DELETED", "likely"),
    }


SCALA_LINES = [
    ("Removed 2 offsets", "Removed 3 offsets"),
    ("deleted.gone-0,", "deleted.gone-7,"),
    ("Removed 2 offsets associated with deleted partitions: ", "Removed 2 expired offsets in 1 milliseconds. "),
    ("04:45:00.698", "04:45:02.698"),
]
"""What stands in the log, and what would be about something else."""


def test_lines_of_a_scala_coordinator_count_by_what_they_name(audit, tmp_path):
    """They name no log partition: the groups and partitions of topics that they name have so many tombstones then."""
    recorded = DATA / "broker-logs" / "3.9-scala"
    audit(tmp_path / "wh", recorded / "segments", broker_logs=[str(recorded / "server.log")])
    assert sure_of(tmp_path / "wh") == {
        ("classic-group-deleted", "GROUP_DELETED", "certain"),
        ("classic-topic-deleted", "DELETED", "certain"),
    }


@pytest.mark.parametrize("line", rest_at_night(SCALA_LINES, SCALA_LINES[:1]), ids=lambda line: line[1])
def test_lines_of_a_scala_coordinator_about_something_else_make_nothing_certain(line, audit, tmp_path):
    recorded, (true, false) = DATA / "broker-logs" / "3.9-scala", line
    text = (recorded / "server.log").read_text()
    assert text.count(true) == 1
    forged = tmp_path / "forged.log"
    forged.write_text(text.replace(true, false))
    audit(tmp_path / "wh", recorded / "segments", broker_logs=[str(forged)])
    assert sure_of(tmp_path / "wh") == {
        ("classic-group-deleted", "GROUP_DELETED", "certain"),
        ("classic-topic-deleted", "DELETED", "likely"),
    }


def test_a_line_names_the_offsets_that_an_admin_deleted(audit_rows, tmp_path):
    log = [commit((0, n), 0, ("g", "t", n), 5) for n in range(3)]
    log += [commit((0, 3 + n), 60, ("g", "t", n)) for n in range(2)]
    line = "The following offsets of the group g were deleted: t-0, t-1. A total of 2 offsets were removed."
    (tmp_path / "server.log").write_text(f"[2026-11-21T00:01:00.004Z] INFO [GroupCoordinator 1]: {line} (k.C)\n")
    audit_rows(tmp_path / "wh", log, broker_logs=[str(tmp_path / "server.log")])
    assert sure_of(tmp_path / "wh") == {("g", "DELETED", "certain")}


@pytest.mark.parametrize(("number", "confidence"), [(2, "likely"), (3, "certain")])
def test_tombstones_without_a_commit_on_record_count_as_well(audit_rows, tmp_path, number, confidence):
    log = [commit((0, n), 0, ("g", "t", n), 5) for n in range(2)]
    log += [commit((0, 2 + n), 60, ("g", "t", n)) for n in range(3)]
    line = f"Generated {number} tombstone records in 0 milliseconds while deleting offsets for partitions [t-0, t-1]."
    (tmp_path / "server.log").write_text(
        f"[2026-11-21T00:01:00.000Z] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=0] {line} (o.C)\n"
    )
    audit_rows(tmp_path / "wh", log, broker_logs=[str(tmp_path / "server.log")])
    assert sure_of(tmp_path / "wh") == {("g", "DELETED", confidence)}


def test_offsets_are_due_or_expiring_before_the_broker_removes_them(audit, tmp_path):
    as_of = datetime.fromtimestamp(1795250174, UTC)
    audit(
        tmp_path / "wh",
        Sample("expiration").segments,
        expiry=ExpiryOptions(as_of=as_of, retention_ms=MINUTE, horizon_ms=5_000),
    )
    found = rows(tmp_path / "wh", "expired_offsets")
    assert {(row["group_id"], row["rule"], row["status"]) for row in found} == {
        ("shop-stale", "empty_since", "DUE"),
        ("shop-simple", "simple_group", "DUE"),
        ("shop-stale-simple", "simple_group", "DUE"),
        ("shop-stale-new", "unsubscribed_topic", "EXPIRING"),
    }
    assert {row["group_state"] for row in found} == {"Empty"}
    # The next run judges at the end of the log again.
    audit(tmp_path / "wh", Sample("expiration").segments, expiry=ExpiryOptions(retention_ms=MINUTE))
    assert {row["status"] for row in rows(tmp_path / "wh", "expired_offsets")} >= {"EXPIRED"}


def test_retention_is_not_inferred_from_deletions(audited_once):
    warehouse, summary = audited_once(Sample("group-lifecycles").segments)
    assert any("Kafka's default" in note for note in summary.run.notes)
    ended = {(row["group_id"], row["ended_by"]) for row in removed(warehouse)}
    assert ended == {("shop-doomed", "GROUP_DELETED"), ("shop-trim", "DELETED")}


def consumer_group(position, seconds, group, *topics):
    """Records of a KIP-848 group with one member that subscribes to topics; without topics, of an empty one."""
    log_partition, log_offset = position
    key = {"groupId": group, "memberId": "m"}
    member = {"subscribedTopicNames": list(topics)} if topics else None
    return [
        group_record(position, seconds, "ConsumerGroupMemberMetadata", key, member),
        group_record(
            (log_partition, log_offset + 1), seconds, "ConsumerGroupMetadata", {"groupId": group}, {"epoch": 2}
        ),
    ]


def group_tombstone(position, seconds, group):
    return group_record(position, seconds, "GroupMetadata", {"group": group}, None)


# Retention is a day, checked every ten minutes.
SITUATIONS = {
    "emptied long ago": [
        commit((0, 0), 0, ("empty", "t", 0), 5),
        emptied((0, 1), HOUR, "empty"),
        commit((0, 2), DAY + HOUR + 300, ("empty", "t", 0)),
        group_tombstone((0, 3), DAY + HOUR + 300, "empty"),
    ],
    "named its own end": [
        commit((1, 0), 0, ("explicit", "t", 0), 5, expire=2 * HOUR),
        commit((1, 1), 2 * HOUR + 10, ("explicit", "t", 0)),
        group_tombstone((1, 2), 2 * HOUR + 10, "explicit"),
    ],
    "deleted while a transaction was open": [
        commit((2, 0), 0, ("held", "t", 0), 5),
        commit((2, 1), 10, ("held", "t", 0), 6, producer=3),
        commit((2, 2), DAY + 2 * HOUR, ("held", "t", 0)),
    ],
    "deleted by an admin, young": [
        commit((3, 0), 0, ("trimmed", "t", 0), 5),
        commit((3, 1), 10, ("trimmed", "u", 0), 5),
        commit((3, 2), DAY - 5, ("trimmed", "u", 0)),
        commit((3, 3), DAY - 5, ("trimmed", "t", 0)),
    ],
    "gone with their topic": [
        commit((4, 0), 0, ("one", "gone", 0), 5),
        commit((4, 1), HOUR, ("one", "gone", 0)),
        commit((5, 0), 0, ("two", "gone", 0), 5),
        commit((5, 1), HOUR + 2, ("two", "gone", 0)),
        commit((10, 0), 0, ("three", "gone", 0), 5),
        commit((10, 1), HOUR + 4, ("three", "gone", 0)),
    ],
    "a group deleted beside them, over age": [
        commit((14, 0), -3 * DAY, ("fourth", "gone", 0), 5),
        commit((14, 1), HOUR + 6, ("fourth", "gone", 0)),
        group_tombstone((14, 2), HOUR + 6, "fourth"),
    ],
    "deleted with its group, young": [
        commit((13, 0), 0, ("doomed", "t", 0), 5),
        commit((13, 1), 10, ("doomed", "t", 0)),
        group_tombstone((13, 2), 10, "doomed"),
    ],
    "over age for long": [
        commit((6, 0), 0, ("late", "t", 0), 5),
        commit((6, 1), 3 * DAY, ("late", "t", 0)),
        group_tombstone((6, 2), 3 * DAY, "late"),
    ],
    "unsubscribed after they were over age": [
        *consumer_group((7, 0), 0, "modern", "t", "kept"),
        commit((7, 2), 1, ("modern", "t", 0), 5),
        commit((7, 3), 1, ("modern", "kept", 0), 5),
        *consumer_group((7, 4), 2 * DAY, "modern", "kept"),
        commit((7, 6), 2 * DAY + 60, ("modern", "t", 0)),
    ],
    "three groups at one check": [
        commit((8, 0), 0, ("left", "t", 0), 5),
        commit((8, 1), 0, ("right", "t", 0), 5),
        commit((8, 2), 0, ("middle", "t", 0), 5),
        commit((8, 3), DAY + 60, ("left", "t", 0)),
        commit((8, 4), DAY + 60, ("right", "t", 0)),
        commit((8, 5), DAY + 60, ("middle", "t", 0)),
    ],
    "two groups, which may have been one admin": [
        commit((11, 0), 0, ("this", "t", 0), 5),
        commit((11, 1), 0, ("that", "t", 0), 5),
        commit((11, 2), DAY + 60, ("this", "t", 0)),
        commit((11, 3), DAY + 60, ("that", "t", 0)),
    ],
    "two others, long over age": [
        commit((12, 0), 0, ("prompt", "t", 0), 5),
        *(commit((12, 1 + n), -3 * DAY, (f"old-{n}", "t", 0), 5) for n in range(2)),
        commit((12, 3), DAY + 60, ("prompt", "t", 0)),
        *(commit((12, 4 + n), DAY + 60, (f"old-{n}", "t", 0)) for n in range(2)),
    ],
    "still there": [
        commit((9, 0), DAY, ("due", "t", 0), 5),
        commit((9, 1), DAY, ("held on", "t", 0), 5),
        commit((9, 2), DAY, ("held on", "t", 0), 6, producer=4),
        *consumer_group((9, 3), DAY, "active", "t"),
        commit((9, 5), DAY, ("active", "t", 0), 5),
        commit((9, 6), 2 * DAY + 60, ("soon", "t", 0), 5),
        commit((9, 7), 3 * DAY, ("young", "t", 0), 5),
        commit((9, 8), 3 * DAY, ("explicit soon", "t", 0), 5, expire=3 * DAY + 30),
        marker((9, 9), 3 * DAY, 99, "COMMIT"),
    ],
}


@pytest.fixture(scope="module", params=rest_at_night(["at once", "in slices"], ["in slices"]))
def situations(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("situations")
    audit_rows = auditor_of_rows(folder)
    log = [row for situation in SITUATIONS.values() for row in situation]
    expiry = ExpiryOptions(retention_ms=DAY * 1000, horizon_ms=MINUTE)
    parts = (
        [log]
        if request.param == "at once"
        else [[one for one in log if (one[1]["log_offset"] < 2) == is_first] for is_first in (True, False)]
    )
    for part in parts:
        audit_rows(folder / "wh", part, expiry=expiry)
    return folder / "wh"


def test_causes_of_deletion_are_told_apart(situations):
    ended = removed(situations)
    assert {
        (row["group_id"], row["ended_by"], row["ended_confidence"], tuple(row["ended_alternatives"])) for row in ended
    } == {
        ("empty", "EXPIRED", "likely", ("GROUP_DELETED", "DELETED")),
        ("explicit", "EXPIRED", "likely", ("GROUP_DELETED", "DELETED")),
        # Before Kafka 4.0, DeleteGroups writes no tombstone of a group that only stores offsets.
        ("held", "DELETED", "likely", ("GROUP_DELETED",)),
        ("trimmed", "DELETED", "likely", ("GROUP_DELETED",)),
        ("one", "DELETED", "likely", ("GROUP_DELETED",)),
        ("two", "DELETED", "likely", ("GROUP_DELETED",)),
        ("three", "DELETED", "likely", ("GROUP_DELETED",)),
        ("fourth", "DELETED", "likely", ("EXPIRED", "GROUP_DELETED")),
        # Before Kafka 4.0, the removal of a group's last offsets also writes its tombstone.
        ("doomed", "GROUP_DELETED", "likely", ("DELETED",)),
        ("late", "TOMBSTONE", "possible", ("EXPIRED", "GROUP_DELETED", "DELETED")),
        ("modern", "EXPIRED", "likely", ("DELETED",)),
        ("left", "EXPIRED", "certain", ()),
        ("right", "EXPIRED", "certain", ()),
        ("middle", "EXPIRED", "certain", ()),
        ("this", "EXPIRED", "likely", ("GROUP_DELETED", "DELETED")),
        ("that", "EXPIRED", "likely", ("GROUP_DELETED", "DELETED")),
        ("prompt", "EXPIRED", "likely", ("GROUP_DELETED", "DELETED")),
        ("old-0", "TOMBSTONE", "possible", ("EXPIRED", "GROUP_DELETED", "DELETED")),
        ("old-1", "TOMBSTONE", "possible", ("EXPIRED", "GROUP_DELETED", "DELETED")),
    }
    assert all(row["ended_evidence"] for row in ended)


def test_what_retention_removed_and_removes_next(situations):
    found = rows(situations, "expired_offsets")
    assert {row["group_id"]: (row["status"], row["rule"]) for row in found} == {
        "empty": ("EXPIRED", "empty_since"),
        "explicit": ("EXPIRED", "explicit_expire_timestamp"),
        "modern": ("EXPIRED", "unsubscribed_topic"),
        "left": ("EXPIRED", "simple_group"),
        **dict.fromkeys(("right", "middle", "this", "that", "prompt"), ("EXPIRED", "simple_group")),
        "due": ("DUE", "simple_group"),
        "soon": ("EXPIRING", "simple_group"),
        "explicit soon": ("EXPIRING", "explicit_expire_timestamp"),
    }
    by_group = {row["group_id"]: row for row in found}
    assert by_group["empty"]["group_state"] == "Empty"
    assert (in_ms(by_group["empty"]["base_timestamp"]), in_ms(by_group["empty"]["expire_at"])) == (
        ms(HOUR),
        ms(HOUR + DAY),
    )
    assert in_ms(by_group["explicit soon"]["expire_at"]) == ms(3 * DAY + 30)
    assert by_group["empty"]["tombstone_offset"] == 2


def test_a_guessed_retention_makes_nothing_certain(audit_rows, tmp_path):
    # Several groups that lost offsets of one age tell the retention: without them it is a guess.
    alone = [situation for name, situation in SITUATIONS.items() if "groups" not in name and "others" not in name]
    audit_rows(tmp_path / "wh", [row for situation in alone for row in situation])
    ended = removed(tmp_path / "wh")
    assert "certain" not in {row["ended_confidence"] for row in ended}
    empty = next(row for row in ended if row["group_id"] == "empty")
    assert (empty["ended_by"], empty["ended_alternatives"]) == ("GROUP_DELETED", ["DELETED", "EXPIRED"])
    for row in ended:
        if row["ended_by"] != "EXPIRED" and "EXPIRED" in row["ended_alternatives"]:
            evidence = " ".join(row["ended_evidence"])
            assert "the cluster's own retention is not known" in evidence, "no fact speaks against the alternative"
            assert "was not past offsets.retention.minutes" not in evidence


@pytest.mark.parametrize("retention_ms", [None, DAY * 1000])
def test_the_deletion_of_a_topic_is_known_from_the_clusters_metadata(retention_ms, audit, tmp_path):
    sample = Sample("restarts")
    metadata = str(sample.folder / "cluster-metadata")
    audit(tmp_path / "wh", sample.segments, cluster_metadata=metadata, expiry=ExpiryOptions(retention_ms=retention_ms))
    [*ended] = removed(tmp_path / "wh")
    assert [(row["topic"], row["partition"]) for row in ended] == [("classic-topic-deleted.gone", n) for n in (0, 1)]
    for row in ended:
        is_guess = retention_ms is None
        assert (row["ended_by"], row["ended_alternatives"]) == ("DELETED", ["EXPIRED"] if is_guess else [])
        assert row["ended_confidence"] == ("likely" if is_guess else "certain")
        [deleted, *doubts] = row["ended_evidence"]
        assert deleted == "the topic was deleted 466 ms earlier (cluster metadata)"
        assert doubts == ["the cluster's own retention is not known, and may have removed it"] * is_guess
    tables = Tables(str(tmp_path / "wh"))
    [told] = removed_offsets(tables, "classic-topic-deleted")
    assert "classic-topic-deleted.gone:0,1 deleted with its topic at 2026-11-23T17:54:27.017Z" in str(told)
    [deletion] = [detail for event, _, detail, _ in offset_events(tables, "classic-topic-deleted") if "cause" in detail]
    assert deletion["is_topic_deleted"] and deletion["partitions"] == [0, 1]


@pytest.mark.parametrize(
    ("ages", "survivor", "expected"),
    [
        pytest.param([7 * DAY + 100, 7 * DAY + 500, 30, 90], 6 * DAY, 7 * DAY, id="young deletions are no evidence"),
        pytest.param([95 * 60 + 20, 95 * 60 + 100], HOUR, 90 * 60, id="ten minutes before odd ones"),
        pytest.param([7 * DAY + 100], 0, None, id="one group proves nothing"),
        pytest.param([600, 640], 3 * DAY, None, id="what survived longer contradicts"),
        pytest.param([600, 640], None, 600, id="nothing survived"),
        pytest.param([7 * DAY + n for n in range(3)], 30 * DAY, 7 * DAY, id="one that dissents from three"),
        pytest.param(
            [*(7 * DAY + n for n in range(5)), *(3650 * DAY + n for n in range(2))],
            DAY,
            7 * DAY,
            id="two that dissent from five",
        ),
        pytest.param([600, 640, 680], [DAY, DAY], None, id="two that dissent from three"),
        pytest.param([70, 300, 500, 605, 620, 640, 655], None, 60, id="on both sides of a check interval"),
    ],
)
def test_retention_is_what_ages_agree_on(ages, survivor, expected):
    end = 10 * DAY
    gone = [
        {"log_partition": 0, "group_id": f"g{i}", "valid_to": moment(end), "rule": "simple_group"}
        | {"base_timestamp": moment(end - age), "is_protected": False}
        for i, age in enumerate(ages)
    ]
    table = pa.Table.from_pylist(gone, schema=STAGED)
    kept = [] if survivor is None else survivor if isinstance(survivor, list) else [survivor]
    survivors = pa.Table.from_pylist(
        [{"group_id": f"kept {i}", "at_risk_ms": age * 1000} for i, age in enumerate(kept)], schema=SURVIVORS
    )
    found = infer_retention(table, survivors)
    assert found == (None if expected is None else expected * 1000)
