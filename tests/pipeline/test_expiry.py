"""What retention took: the broker's own expirations, and situations that no sample holds."""

from datetime import UTC, datetime

import pytest

from coordinator_replay.analysis.expiration import DEFAULT_RETENTION_MS
from coordinator_replay.pipeline.expiry import expired_offsets
from coordinator_replay.pipeline.offsets import offset_history
from coordinator_replay.pipeline.retention import infer_retention, survivors
from coordinator_replay.pipeline.tombstones import causes_type, removed_offsets, tombstone_causes
from coordinator_replay.tables.definition import table
from tests.pipeline.offset_rows import (
    as_records,
    commit,
    derive,
    dicts,
    emptied,
    expiry_rules,
    group_record,
    in_ms,
    kept,
    marker,
    moment,
    ms,
    of_sample,
    sample_records,
)

pytestmark = pytest.mark.spark

MINUTE = 60_000
CHECKED_EVERY = 4_000
HOUR = 3600
DAY = 24 * HOUR


def test_where_nothing_was_removed_its_causes_have_the_same_columns(samples):
    causes = tombstone_causes(samples[1], retention_ms=DEFAULT_RETENTION_MS)
    assert causes.dtypes == [(field.name, field.dataType.simpleString()) for field in causes_type()]


@pytest.fixture(scope="module")
def samples(spark, tmp_path_factory):
    """Staged rows of all samples, and the offsets that tombstones removed."""
    records = sample_records(spark)
    staged = kept(spark, derive(records, rules=expiry_rules(records)), tmp_path_factory.mktemp("expiry") / "staged")
    return staged, removed_offsets(staged)


def end_of(records):
    return records.agg({"log_timestamp": "max"}).first()[0]


def test_every_expiration_of_the_broker_is_explained_and_nothing_else(samples):
    removed = of_sample(samples[1], "expiration")
    causes = dicts(in_ms(tombstone_causes(removed, retention_ms=MINUTE, check_interval_ms=CHECKED_EVERY)))
    rules = {(row["group_id"], row["topic"]): row["rule"] for row in causes if row["ended_by"] == "EXPIRED"}
    assert rules == {
        ("shop-stale", "shop.stale"): "empty_since",
        ("shop-stale-new", "shop.stale"): "unsubscribed_topic",
        ("shop-stale-simple", "shop.stale"): "simple_group",
        ("shop-simple", "shop.simple"): "simple_group",
        ("shop-stale-live", "shop.stale"): "unsubscribed_topic",
    }
    others = {
        row["group_id"]: (row["ended_by"], row["ended_confidence"]) for row in causes if row["ended_by"] != "EXPIRED"
    }
    assert others == {"shop-doomed": ("GROUP_DELETED", "certain")}
    assert len(causes) == 17


def test_predicted_moments_lie_within_one_check_of_the_tombstones(samples):
    removed = of_sample(samples[1], "expiration")
    causes = dicts(in_ms(tombstone_causes(removed, retention_ms=MINUTE, check_interval_ms=CHECKED_EVERY)))
    late = [row["tombstone_at"] - row["expire_at"] for row in causes if row["ended_by"] == "EXPIRED"]
    assert len(late) == 14
    assert all(0 <= lateness <= CHECKED_EVERY for lateness in late)


def test_nothing_is_called_expired_where_nothing_expired(samples):
    causes = dicts(tombstone_causes(samples[1], retention_ms=DEFAULT_RETENTION_MS))
    told = {(row["log_partition"] // 100, row["group_id"], row["ended_by"]) for row in causes}
    assert {
        (0, "shop-doomed", "GROUP_DELETED"),
        (0, "shop-trim", "DELETED"),
        (2, "bakery-removed", "DELETED"),
    } <= told
    assert not [row for row in told if row[2] == "EXPIRED"]


def test_retention_is_inferred_from_what_expired(spark, samples):
    staged, removed = (of_sample(table, "expiration") for table in samples)
    end = end_of(of_sample(sample_records(spark), "expiration"))
    found = infer_retention(removed, survivors(staged, end)).first()
    assert (found["retention_ms"], found["groups"]) == (MINUTE, 5)


def test_retention_is_not_inferred_from_deletions(spark, samples):
    staged, removed = (of_sample(table, "group-lifecycles") for table in samples)
    end = end_of(of_sample(sample_records(spark), "group-lifecycles"))
    assert infer_retention(removed, survivors(staged, end)).first()["retention_ms"] is None


def test_offsets_are_due_or_expiring_before_the_broker_takes_them(spark, samples):
    records = of_sample(sample_records(spark), "expiration")
    causes = tombstone_causes(of_sample(samples[1], "expiration"), retention_ms=MINUTE, check_interval_ms=CHECKED_EVERY)
    as_of = datetime.fromtimestamp(1795250174, UTC)
    expired = expired_offsets(
        derive(records, until=as_of, rules=expiry_rules(records)),
        causes,
        as_of=as_of,
        retention_ms=MINUTE,
        horizon_ms=5_000,
        cluster="c",
    )
    declared = [(column.name, column.type.replace(" ", "")) for column in table("expired_offsets").columns]
    assert [(field.name, field.dataType.simpleString()) for field in expired.schema] == declared
    rows = dicts(expired)
    assert {(row["group_id"], row["rule"], row["status"]) for row in rows} == {
        ("shop-stale", "empty_since", "DUE"),
        ("shop-simple", "simple_group", "DUE"),
        ("shop-stale-simple", "simple_group", "DUE"),
        ("shop-stale-new", "unsubscribed_topic", "EXPIRING"),
    }
    assert {row["group_state"] for row in rows} == {"Empty"}


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
    "two groups at one check": [
        commit((8, 0), 0, ("left", "t", 0), 5),
        commit((8, 1), 0, ("right", "t", 0), 5),
        commit((8, 2), DAY + 60, ("left", "t", 0)),
        commit((8, 3), DAY + 60, ("right", "t", 0)),
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


@pytest.fixture(scope="module")
def situations(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("situations")
    rows = [row for situation in SITUATIONS.values() for row in situation]
    records = kept(spark, as_records(spark, rows), folder / "records")
    staged = kept(spark, derive(records, rules=expiry_rules(records)), folder / "staged")
    removed = removed_offsets(staged)
    causes = kept(spark, tombstone_causes(removed, retention_ms=DAY * 1000), folder / "causes")
    return records, staged, removed, causes


def test_causes_of_deletion_are_told_apart(situations):
    causes = dicts(situations[3])
    told = {
        (row["group_id"], row["ended_by"], row["ended_confidence"], tuple(row["ended_alternatives"])) for row in causes
    }
    assert told == {
        ("empty", "EXPIRED", "likely", ("GROUP_DELETED",)),
        ("explicit", "EXPIRED", "likely", ("GROUP_DELETED",)),
        ("held", "DELETED", "certain", ()),
        ("trimmed", "DELETED", "certain", ()),
        ("one", "DELETED", "likely", ()),
        ("two", "DELETED", "likely", ()),
        ("late", "TOMBSTONE", "possible", ("EXPIRED", "GROUP_DELETED")),
        ("modern", "EXPIRED", "likely", ("DELETED",)),
        ("left", "EXPIRED", "certain", ()),
        ("right", "EXPIRED", "certain", ()),
    }
    assert all(row["ended_evidence"] for row in causes)


def test_a_guessed_retention_makes_nothing_certain(situations):
    causes = dicts(tombstone_causes(situations[2], retention_ms=7 * DAY * 1000, retention_is_known=False))
    assert "certain" not in {row["ended_confidence"] for row in causes}
    empty = next(row for row in causes if row["group_id"] == "empty")
    assert (empty["ended_by"], empty["ended_alternatives"]) == ("GROUP_DELETED", ["EXPIRED"])


def test_history_tells_how_each_offset_ended(situations):
    _, staged, _, causes = situations
    rows = dicts(offset_history(staged, "c", causes))
    ended = {(row["group_id"], row["topic"]): row["ended_by"] for row in rows}
    assert ended[("empty", "t")] == "EXPIRED"
    assert ended[("trimmed", "u")] == "DELETED"
    assert ended[("late", "t")] == "TOMBSTONE"
    assert ended[("young", "t")] is None
    assert all((row["ended_confidence"] is None) == (row["ended_by"] is None) for row in rows)


def test_expired_offsets_at_a_moment(spark, situations, tmp_path):
    records = situations[0]
    owners = spark.createDataFrame(
        [
            ("c", "empty", "t", 0, "m1", moment(0), moment(100)),
            ("c", "empty", "t", 0, "m2", moment(100), moment(HOUR)),
            ("c", "empty", "t", 0, "m3", moment(2 * DAY), None),
            ("c", "due", "t", 0, "m4", moment(0), moment(50)),
        ],
        "cluster string, group_id string, topic string, partition int, member_id string, owned_from timestamp, "
        "owned_to timestamp",
    )
    states = spark.createDataFrame(
        [
            ("c", "empty", 0, None, "Stable", 0, moment(0)),
            ("c", "empty", 1, "Stable", "Empty", 1, moment(HOUR)),
            ("c", "empty", 2, "Empty", "Dead", 3, moment(DAY + HOUR + 300)),
        ],
        "cluster string, group_id string, seq bigint, from_state string, to_state string, log_offset bigint, "
        "log_timestamp timestamp",
    )
    staged = kept(
        spark,
        derive(records, rules=expiry_rules(records), ownership=owners, timeline=states),
        tmp_path / "staged",
    )
    causes = tombstone_causes(removed_offsets(staged), retention_ms=DAY * 1000)
    rows = dicts(
        in_ms(
            expired_offsets(
                staged,
                causes,
                as_of=moment(3 * DAY),
                retention_ms=DAY * 1000,
                horizon_ms=MINUTE,
                cluster="c",
            )
        )
    )
    told = {row["group_id"]: (row["status"], row["rule"]) for row in rows}
    assert told == {
        "empty": ("EXPIRED", "empty_since"),
        "explicit": ("EXPIRED", "explicit_expire_timestamp"),
        "modern": ("EXPIRED", "unsubscribed_topic"),
        "left": ("EXPIRED", "simple_group"),
        "right": ("EXPIRED", "simple_group"),
        "due": ("DUE", "simple_group"),
        "soon": ("EXPIRING", "simple_group"),
        "explicit soon": ("EXPIRING", "explicit_expire_timestamp"),
    }
    by_group = {row["group_id"]: row for row in rows}
    assert by_group["empty"]["last_consumed_by"] == "m2"
    assert by_group["due"]["last_consumed_by"] == "m4"
    assert by_group["empty"]["group_state"] == "Empty"
    assert (by_group["empty"]["base_timestamp"], by_group["empty"]["expire_at"]) == (ms(HOUR), ms(HOUR + DAY))
    assert by_group["explicit soon"]["expire_at"] == ms(3 * DAY + 30)
    assert by_group["empty"]["tombstone_offset"] == 2


@pytest.mark.parametrize(
    ("ages", "survivor", "expected"),
    [
        pytest.param([7 * DAY + 100, 7 * DAY + 500, 30, 90], 6 * DAY, 7 * DAY, id="young deletions are no evidence"),
        pytest.param([95 * 60 + 20, 95 * 60 + 100], HOUR, 90 * 60, id="ten minutes before odd ones"),
        pytest.param([7 * DAY + 100], 0, None, id="one group proves nothing"),
        pytest.param([600, 640], 3 * DAY, None, id="what survived longer contradicts"),
    ],
)
def test_retention_is_what_ages_agree_on(spark, situations, ages, survivor, expected):
    end = 10 * DAY
    removed = spark.createDataFrame(
        [
            {"log_partition": 0, "group_id": f"g{i}", "tombstone_at": moment(end), "rule": "simple_group"}
            | {"base_timestamp": moment(end - age), "is_protected": False}
            for i, age in enumerate(ages)
        ],
        situations[2].schema,
    )
    records = as_records(spark, [commit((1, 0), end - survivor, ("alive", "t", 0), 1)])
    found = infer_retention(removed, survivors(derive(records), moment(end))).first()["retention_ms"]
    assert found == (None if expected is None else expected * 1000)
