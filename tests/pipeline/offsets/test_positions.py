"""Offsets that can't be compared: negative ones, which mean none, and those of a topic that was created again."""

from datetime import UTC, datetime
from itertools import product

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from coordinator_replay.api.warehouse import Warehouse
from coordinator_replay.cli.offsets import offsets as offsets_command
from coordinator_replay.pipeline.audit import ExpiryOptions
from coordinator_replay.pipeline.topic_lives import TopicLife, TopicLives
from coordinator_replay.query.offsets import with_lag, write_reset_file
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.lives import life_of
from coordinator_replay.report.offset_marks import offset_columns
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit, audit_here, contents, cut
from tests.pipeline.staged_rows import audit_rows, commit, marker
from tests.samples import DATA

__all__ = ["audit", "audit_rows"]

OLD, NEW = "AAAAAAAAAAAAAAAAAAAAZA", "AAAAAAAAAAAAAAAAAAAAZQ"
CREATED_AGAIN = datetime(2026, 10, 3, 5, 44, 21, tzinfo=UTC)


def segments(name):
    return str(DATA / "reports" / name / "segments")


def history(warehouse):
    rows = DeltaTable(warehouse / "offset_history").to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["from_offset"])


def saved(warehouse, query):
    return list(Warehouse(str(warehouse)).sql(query=query))


def rules(warehouse):
    return {finding.rule for finding in Warehouse(warehouse).findings()}


@pytest.fixture(scope="module")
def negative(tmp_path_factory):
    return audited(tmp_path_factory, "negative-offsets")


@pytest.fixture(scope="module")
def recreated(tmp_path_factory):
    return audited(tmp_path_factory, "recreated-topic")


def audited(tmp_path_factory, name):
    warehouse = tmp_path_factory.mktemp(name) / "wh"
    audit_here(warehouse, segments(name))
    return warehouse


def test_a_negative_offset_is_no_position(negative, tmp_path):
    rows = [row for row in history(negative) if row["to_offset"] is None]
    assert [(row["committed_offset"], row["previous_offset"], row["replaced_offset"]) for row in rows] == [
        (-1, None, 119),
        (-1001, None, 219),
        (242, 241, 241),
    ]
    answer = Warehouse(negative).offsets("minus-one")
    assert answer.notes[0].startswith("The committed offset of orders:0,1 is negative. A consumer treats it as none")
    ends = dict.fromkeys(product(["orders"], range(3)), 500)
    assert [one.lag for one in with_lag(answer, ends)] == [None, None, 258]
    result = write_reset_file(answer, tmp_path / "reset.csv")
    assert (result.written, str(result)) == (1, "orders:0,1 (a negative offset, which a consumer treats as none)")
    assert (tmp_path / "reset.csv").read_text() == "orders,2,242\n"
    write_reset_file(answer, tmp_path / "reset.csv", include_unproven=True)
    assert (tmp_path / "reset.csv").read_text() == "orders,2,242\n"


def test_a_negative_offset_is_a_finding_and_no_rewind(negative):
    warehouse = Warehouse(negative)
    assert "offset_rewind" not in rules(negative)
    [found] = [one for one in warehouse.findings() if one.rule == "position_lost"]
    assert found.ended_at is None
    assert "to -1001 on 2026-10-02T11:13:20.000Z, where 219 had been committed" in found.message
    events = [event.event for event in warehouse.timeline("minus-one") if event.event.startswith("OFFSETS")]
    assert events == ["OFFSETS_FIRST_COMMIT", "OFFSETS_POSITION_LOST"]
    assert not saved(negative, "rewinds")
    changes = {(one.change, one.name) for one in warehouse.diff("-30h") if one.what == "offset"}
    assert changes == {("removed", "orders-0"), ("removed", "orders-1"), ("advanced", "orders-2")}


def test_a_page_draws_no_line_to_a_negative_offset(negative):
    drawn = offset_columns(life_of(Tables(str(negative)), "minus-one"))
    lines = drawn["offset-lines"]
    assert min(one for offsets in lines["offset"]["values"] for one in offsets if one is not None) == 100
    assert [offsets[-1] for offsets in lines["offset"]["values"]] == [None, None, 242]
    assert set(drawn["offset-ends"]["what"]["texts"]) == {"position lost"}


def test_a_negative_offset_expires_as_any_other(audit_rows, tmp_path):
    log = [
        commit((1, 0), 0, ("g", "t", 0), -1),
        commit((1, 1), 1, ("g", "t", 1), 7),
        marker((1, 2), 86_400, 9, "COMMIT"),
    ]
    audit_rows(tmp_path / "wh", log, expiry=ExpiryOptions(retention_ms=3_600_000))
    due = {(one.partition, one.committed_offset, one.status) for one in Warehouse(tmp_path / "wh").expired()}
    assert due == {(0, -1, "DUE"), (1, 7, "DUE")}


# What is committed one after the other, with which of these a commit goes back and which lose the position.
BROTHERS = [
    ([5, -1, 3], [], [1]),
    ([-1, 3, 2], [2], [0]),
    ([5, -1001, -1, 9, 8], [4], [1, 2]),
    ([7, 0, 3], [1], []),
    ([-(2**63), 2**63 - 1, 0], [2], [0]),
]


@pytest.mark.parametrize("nights", rest_at_night([1, 2], [2]))
@pytest.mark.parametrize(("offsets", "back", "lost"), rest_at_night(BROTHERS, [BROTHERS[2], BROTHERS[4]], several=True))
def test_only_offsets_are_compared(offsets, back, lost, nights, audit_rows, tmp_path):
    log = [commit((1, n), n, ("g", "t", 0), offset) for n, offset in enumerate(offsets)]
    for first in range(0, len(log), -(-len(log) // nights)):
        audit_rows(tmp_path / "wh", log[first : first + -(-len(log) // nights)])
    rows = history(tmp_path / "wh")
    previous = [row["previous_offset"] for row in rows]
    went_back = [n for n, before in enumerate(previous) if before is not None and before > offsets[n]]
    assert went_back == back
    assert [row["replaced_offset"] for row in rows] == [None, *offsets[:-1]]
    found = Warehouse(tmp_path / "wh").findings()
    assert sum(one.occurrences for one in found if one.rule == "offset_rewind") == len(back)
    assert sum(one.occurrences for one in found if one.rule == "position_lost") == len(lost)
    lasting = [one for one in found if one.rule == "position_lost" and one.ended_at is None]
    assert bool(lasting) == (offsets[-1] < 0)


def test_offsets_of_two_topics_are_not_compared(recreated, tmp_path):
    rows = {row["from_offset"]: row for row in history(recreated)}
    # 1009 carries no topic id: it may be a late commit of a consumer of the topic that was deleted.
    assert [(rows[at]["committed_offset"], rows[at]["topic_id"]) for at in (15, 18, 19, 20)] == [
        (1007, OLD),
        (1009, None),
        (5, NEW),
        (3, NEW),
    ]
    assert [(rows[at]["previous_offset"], rows[at]["replaced_offset"]) for at in (18, 19, 20, 21)] == [
        (None, None),
        (None, 1009),
        (None, 507),
        (5, 5),
    ]
    assert rules(recreated) == {"silent_group"}
    assert {(row[1], row[7]) for row in saved(recreated, "rewinds")} == {
        ("orders", "rewound, or the topic was created again in between"),
        ("bills", "no rewind: the topic has another id, so it was created again"),
    }
    warehouse = Warehouse(recreated)
    events = [
        (one.event, one.log_timestamp) for one in warehouse.timeline("recreated") if one.event.startswith("OFFSETS_OF")
    ]
    assert events == [("OFFSETS_OF_OTHER_TOPIC", CREATED_AGAIN)] * 2
    changes = warehouse.diff("2026-10-03T05:40:00Z", "2026-10-03T06:00:00Z")
    assert {(one.what, one.change, one.number) for one in changes} == {("offset", "changed", None)}
    deltas = [one.delta for one in warehouse.offset_history("recreated", "orders", 0)]
    assert not any(delta is not None and delta < 0 for delta in deltas)


def test_an_offset_of_a_topic_that_was_created_again_is_not_put_back(recreated, tmp_path):
    path = tmp_path / "reset.csv"
    arguments = ["recreated", "--at", "2026-10-03T05:40:00Z", "--reset-file", str(path), "--warehouse", str(recreated)]
    refused = CliRunner().invoke(offsets_command, arguments)
    assert refused.exit_code == 2
    assert "bills:0; orders:0 (of a topic that was deleted or created again since)" in refused.output
    taken = CliRunner().invoke(offsets_command, [*arguments, "--include-unproven"])
    assert "SAME-TOPIC" in taken.output
    assert path.read_text() == "bills,0,507\norders,0,1009\n"
    now = [*arguments[:1], *arguments[3:]]
    assert CliRunner().invoke(offsets_command, now).exit_code == 0
    assert path.read_text() == "bills,0,99\norders,0,99\n"


def test_a_page_begins_a_new_line_with_another_topic(recreated):
    lines = offset_columns(life_of(Tables(str(recreated)), "recreated"))["offset-lines"]["offset"]["values"]
    assert [offsets.count(None) for offsets in lines] == [1, 2]


@pytest.mark.long
@pytest.mark.parametrize("name", ["negative-offsets", "recreated-topic"])
@pytest.mark.parametrize("at", [19, 20, 62])
def test_nights_are_as_one_run(name, at, audit, tmp_path):
    parts = [tmp_path / "first", tmp_path / "second"]
    cut(segments(name), parts, lambda batches: [0, min(at, batches - 1)])
    for part in parts:
        audit(tmp_path / "nights", str(part))
    audit(tmp_path / "once", segments(name))
    assert contents(tmp_path / "nights") == contents(tmp_path / "once")


def test_no_stall_lasts_across_the_change_of_a_topic(audit_rows, tmp_path):
    def with_id(row, topic_id):
        row[1]["topic_id"] = topic_id
        return row

    busy = [commit((1, n), 60 * n, ("g", "busy", 0), n) for n in range(120)]
    before = [with_id(commit((1, 200 + n), 7200 + n, ("g", "t", 0), 100 + n), OLD) for n in range(5)]
    after = [with_id(commit((1, 300 + n), 20_000 + n, ("g", "t", 0), n), NEW) for n in range(5)]
    audit_rows(tmp_path / "wh", [*busy, *before, *after])
    assert not {"commit_stall", "offset_rewind"} & rules(tmp_path / "wh")


LIVES = [TopicLife("t", "first", 0, 10), TopicLife("t", "second", 20, None), TopicLife("u", "other", 5, 6)]


def test_the_clusters_metadata_has_ids_that_commits_lack():
    rows = [("t", None, 5), ("t", None, 15), ("t", None, 20), ("t", "own", 25), ("u", None, 5), ("v", None, 5)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    commits = pa.RecordBatch.from_arrays(
        [
            pa.array(columns[0]),
            pa.array(columns[1], pa.string()),
            pa.array([at * 1000 for at in columns[2]], pa.timestamp("us", "UTC")),
        ],
        ["topic", "topic_id", "commit_timestamp"],
    )
    found = TopicLives(LIVES).with_ids(commits).column("topic_id").to_pylist()
    assert found == ["first", None, "second", "own", "other", None]
