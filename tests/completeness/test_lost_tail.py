"""Records that an election lost, after the cleaner removed what the new leader wrote in their place."""

import struct
from datetime import UTC, datetime
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coordinator_replay import Warehouse
from tests.log.writer import LogEntry, write_batch
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit_here
from tests.samples import DATA

REPORTS = DATA / "reports"
START_MS = 1_700_000_000_000


AUDITS: list[tuple[list[list[str]], dict[str, bool]]] = [
    ([["lost-tail-plain/night-1"], ["lost-tail-plain/night-2"]], {}),
    ([["lost-tail-plain/night-1"], ["lost-tail-plain/night-2"]], {"full": True}),
    ([["lost-tail-plain/night-1", "lost-tail-plain/night-2"]], {}),
    ([["lost-tail-plain/night-2"], ["lost-tail-plain/night-1"]], {}),
    ([["lost-tail-checkpoint/night-1"], ["lost-tail-checkpoint/night-2"]], {}),
    ([["lost-tail-checkpoint/night-1", "lost-tail-checkpoint/night-2"]], {}),
    ([[f"lost-tail-continues/night-{number}"] for number in (1, 2, 3)], {}),
]


@pytest.mark.parametrize(
    ("steps", "options"),
    rest_at_night(AUDITS, [AUDITS[0], AUDITS[5]], several=True),
    ids=["nights", "full", "together", "backwards", "checkpoint", "checkpoint together", "three nights"],
)
def test_offsets_before_a_lost_tail_hold(steps, options, tmp_path):
    notes = []
    for step in steps:
        notes += audit_here(tmp_path / "w", *(REPORTS / dump for dump in step), **options).run.notes
    answer = Warehouse(str(tmp_path / "w")).offsets("g")
    assert [(row.partition, row.committed_offset, row.is_exact) for row in answer] == [
        (partition, 50 + partition, True) for partition in range(5)
    ]
    [note] = [note for note in notes if "election" in note]
    assert "from offset 55 on" in note
    assert "leader epoch 6" in note


def test_what_a_night_does_not_cover_is_open(tmp_path):
    for number in (1, 3):
        audit_here(tmp_path / "w", REPORTS / f"lost-tail-continues/night-{number}")
    assert {row.is_exact for row in Warehouse(str(tmp_path / "w")).offsets("g")} == {False}


def text(value):
    return len(value).to_bytes(2, "big") + value.encode()


def commit(group, offset, committed, partition=0):
    """A commit at an offset of the log, or with None its tombstone."""
    at = START_MS + 1000 * offset
    key = b"\0\1" + text(group) + text("t") + partition.to_bytes(4, "big")
    value = None if committed is None else struct.pack(">hqiHq", 3, committed, -1, 0, at)
    return LogEntry(key=key, value=value, timestamp_ms=at, offset=offset)


def generation(group, offset, number):
    """The record of an empty classic group."""
    at = START_MS + 1000 * offset
    value = b"\0\3" + text("consumer") + number.to_bytes(4, "big") + b"\xff\xff" * 2 + struct.pack(">qi", at, 0)
    return LogEntry(key=b"\0\2" + text(group), value=value, timestamp_ms=at, offset=offset)


def marker(offset, kind=1):
    entry = LogEntry(key=struct.pack(">hh", 0, kind), value=bytes(6), timestamp_ms=START_MS + 1000 * offset)
    return ("marker", offset, entry)


def pending(entry):
    return ("pending", entry.offset, entry)


def batch(epoch, entry):
    kind, offset, record = entry if isinstance(entry, tuple) else ("record", entry.offset, entry)
    producer = {} if kind == "record" else {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    return write_batch(
        [record], base_offset=offset, leader_epoch=epoch, is_control=kind == "marker", **producer
    )  # fmt: skip


def write_copy(folder, partition, segments, checkpoint=None):
    """A copy of a log partition: for the base offset of each segment, its records with their leader epochs."""
    place = folder / f"__consumer_offsets-{partition}"
    place.mkdir(parents=True)
    for base, records in segments.items():
        (place / f"{base:020d}.log").write_bytes(b"".join(batch(epoch, entry) for epoch, entry in records))
    if checkpoint is not None:
        lines = "".join(f"{epoch} {start}\n" for epoch, start in checkpoint)
        (place / "leader-epoch-checkpoint").write_text(f"0\n{len(checkpoint)}\n{lines}")


def filled(group, first, last, epoch=5):
    """Commits of partitions that matter to no test, so that no offset is missing."""
    return [(epoch, commit(group, offset, offset, 100 + offset)) for offset in range(first, last)]


def newer(group, epoch=6):
    """The newest segment of a later night."""
    return [(epoch, commit(group, offset, offset, 9)) for offset in range(30, 40)]


def cases():
    """Two nights of a log partition for each case: base offsets of segments with their records."""

    def nights(group, lost, kept, behind=None, also=()):
        old = [*filled(group, 0, 10), *kept, *filled(group, 11, 15), *lost]
        newest = newer(group) if behind is None else behind
        return {0: old}, {0: [*filled(group, 0, 10), *kept, *filled(group, 11, 15), *also], 30: newest}

    def held(group):
        return [(5, commit(group, 10, 10))]

    def last(group, offset):
        return [(5, commit(group, offset, 1000))]

    yield "plain", nights("plain", last("plain", 15), held("plain"))
    yield "group", nights("group", [(5, generation("group", 15, 2))], [(5, generation("group", 10, 1))])
    yield "tombstone", nights("tombstone", [(5, commit("tombstone", 15, None))], held("tombstone"))
    new_key = [(5, commit("newkey", 15, 1000)), (5, commit("newkey", 16, 1, 1))]
    yield "newkey", nights("newkey", new_key, held("newkey"))
    committed = [(5, pending(commit("committed", 15, 1000))), (5, marker(16)), (5, commit("committed", 17, 17, 117))]
    yield "committed", nights("committed", committed, held("committed"))
    undecided = [(5, pending(commit("undecided", 15, 1000)))]
    yield "undecided", nights("undecided", undecided, held("undecided"))
    yield "open", nights("open", last("open", 15), held("open"), behind=[])
    torn = [*last("torn", 15), (5, commit("torn", 16, 16, 1)), (5, commit("torn", 17, 17, 117))]
    yield "torn", nights("torn", torn, held("torn"), also=torn[1:2])
    same_epoch = [(5, commit("epoch", 20, 20, 1))]
    yield "epoch", nights("epoch", last("epoch", 15), held("epoch"), also=same_epoch)
    cleaned = {0: [*filled("cleaned", 0, 10), *held("cleaned"), *filled("cleaned", 11, 15), *last("cleaned", 15)]}
    yield "cleaned", (cleaned, {0: [*filled("cleaned", 0, 10), *last("cleaned", 15)], 30: newer("cleaned")})
    begun = [*filled("stale", 0, 10, 4), (4, commit("stale", 10, 10)), *filled("stale", 11, 15, 4)]
    stale = {0: [*begun, *filled("stale", 15, 50), (5, commit("stale", 50, 1000))]}
    yield "stale", (stale, {0: begun, 60: [(4, commit("stale", offset, 7, 9)) for offset in range(60, 70)]})


NAMES = [name for name, _ in cases()]


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """All cases in two nights, each in a log partition of its own."""
    folder = tmp_path_factory.mktemp("nights")
    for partition, (_, both) in enumerate(cases()):
        for number, segments in enumerate(both, 1):
            write_copy(folder / f"night-{number}", partition, segments)
    summaries = [audit_here(folder / "w", folder / f"night-{number}") for number in (1, 2)]

    @cache
    def warehouse_of(form: str) -> Warehouse:
        if form == "together":
            audit_here(folder / form, folder / "night-1", folder / "night-2")
        return Warehouse(str(folder / ("w" if form == "apart" else form)))

    return warehouse_of, summaries[1].run


each_form = pytest.mark.parametrize("form", rest_at_night(["apart", "together"], ["apart"]))


def value_of(warehouse: Warehouse, group: str, partition: int = 0):
    found = [row for row in warehouse.offsets(group) if row.partition == partition]
    return [(row.committed_offset, row.is_exact) for row in found]


@each_form
@pytest.mark.parametrize("name", ["plain", "tombstone", "newkey", "committed", "undecided"])
def test_the_older_commit_holds_whatever_was_lost_behind_it(name, form, nights):
    assert value_of(nights[0](form), name) == [(10, True)]


@each_form
def test_the_older_record_of_a_group_holds(form, nights):
    [group] = [row for row in nights[0](form).groups() if row.group_id == "group"]
    assert (group.epoch, group.state, group.is_exact) == (1, "Empty", True)


@each_form
def test_a_key_that_the_newer_copy_has_nothing_of_is_lost_with_the_tail(form, nights):
    assert value_of(nights[0](form), "newkey", 1) == []


@each_form
@pytest.mark.parametrize("name", ["open", "torn", "epoch"])
def test_a_copy_of_several_moments_or_of_unknown_epoch_proves_nothing(name, form, nights):
    assert {is_exact for _, is_exact in value_of(nights[0](form), name)} == {False}


@each_form
def test_what_a_cleaned_copy_still_has_is_not_lost(form, nights):
    assert value_of(nights[0](form), "cleaned") == [(1000, True)]


@each_form
def test_a_copy_of_a_lower_leader_epoch_is_the_stale_one(form, nights):
    assert value_of(nights[0](form), "stale") == [(1000, True)]
    assert value_of(nights[0](form), "stale", 9) == []


def test_only_what_was_lost_is_said_to_be_so(nights):
    _, run = nights
    truncated = {NAMES[int(note.split()[2])] for note in run.notes if "was truncated" in note}
    assert truncated == {"plain", "group", "tombstone", "newkey", "committed"}
    opened = [int(note.split("log partition ")[1].split()[0]) for note in run.notes if "lacks is open" in note]
    assert [NAMES[partition] for partition in opened] == ["open", "torn", "epoch"]
    assert [note for note in run.notes if "are left out: an election" in note] != []


def test_an_export_lacks_what_was_compacted_and_nothing_is_said_to_be_lost(tmp_path):
    [(_, (first, _))] = [case for case in cases() if case[0] == "plain"]
    write_copy(tmp_path / "night-1", 0, first)
    kept = [commit("plain", 10, 10), *(entry for _, entry in newer("plain"))]
    rows = [
        {
            "key": entry.key, "value": entry.value, "topic": "__consumer_offsets", "partition": 0,
            "offset": entry.offset, "timestamp": datetime.fromtimestamp(entry.timestamp_ms / 1000, UTC),
            "timestampType": 0,
        }
        for entry in kept
    ]  # fmt: skip
    (tmp_path / "export").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "export" / "rows.parquet")
    audit_here(tmp_path / "w", tmp_path / "night-1")
    notes = audit_here(tmp_path / "w", tmp_path / "export").run.notes
    assert not any("election" in note or "is open" in note for note in notes)
