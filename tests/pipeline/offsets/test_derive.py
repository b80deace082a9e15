"""Offsets of whole audits: random histories against a reference that takes one record after the other."""

from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_replay.pipeline.audit import ExpiryOptions
from coordinator_replay.pipeline.interval_rows import Staged
from coordinator_replay.pipeline.offsets import derive as derive_module
from coordinator_replay.pipeline.offsets.derive import Derivation, Sources, chunks
from coordinator_replay.tables.definition import table
from tests.pipeline.offsets.reference import Reference, random_steps
from tests.pipeline.staged_rows import audit_rows, commit, emptied, marker, moment, ms

__all__ = ["audit_rows"]


def written(log_partition, steps):
    for log_offset, (step, topic, producer) in enumerate(steps):
        position = (log_partition, log_offset)
        if step in ("COMMIT", "ABORT"):
            yield marker(position, log_offset, producer, step)
        else:
            committed = None if step == "tombstone" else 1000 + log_offset
            yield commit(position, log_offset, (f"g-{log_partition}", topic, 0), committed, producer)


def rows(warehouse, name):
    return DeltaTable(warehouse / name).to_pyarrow_table().to_pylist()


def in_ms(time):
    return None if time is None else round(time.timestamp() * 1000)


def history(warehouse):
    return {
        (
            *(r[name] for name in ("log_partition", "topic", "committed_offset", "from_offset", "to_offset")),
            None if r["to_offset"] is None else "COMMIT" if r["ended_by"] == "COMMIT" else "TOMBSTONE",
        )
        for r in rows(warehouse, "offset_history")
        if in_ms(r["valid_from"]) == ms(r["from_offset"])
    }


def pending(warehouse):
    return {
        (
            *(r[name] for name in ("log_partition", "topic", "producer_id", "from_offset")),
            *(r["pending_since_offset"], r["to_offset"], r["ended_by"]),
        )
        for r in rows(warehouse, "pending_offsets")
        if in_ms(r["pending_since"]) == ms(r["pending_since_offset"])
    }


@pytest.mark.long
@pytest.mark.parametrize(("seed", "partitions"), [(0, 6), *((seed, 40) for seed in range(4))])
def test_any_interleaving_in_any_slices_is_what_the_coordinator_does(
    audit_rows, tmp_path, monkeypatch, seed, partitions
):
    random = Random(seed)
    batch = [list(random_steps(random)) for _ in range(partitions)]
    log = [row for i, steps in enumerate(batch) for row in written(i, steps)]
    cuts = {i: sorted(random.randint(0, len(steps)) for _ in range(2)) for i, steps in enumerate(batch)}
    # Few commits at a time, so that a stretch goes on from the one before.
    monkeypatch.setattr(derive_module.chunks, "__defaults__", (random.choice([3, 20, 10_000]),))
    for number in range(3):
        audit_rows(
            tmp_path / "wh",
            [
                (what, row)
                for what, row in log
                if sum(row["log_offset"] >= cut for cut in cuts[row["log_partition"]]) == number
            ],
        )
    references = [Reference(i).replay(steps) for i, steps in enumerate(batch)]
    assert history(tmp_path / "wh") == {row for reference in references for row in reference.history}
    assert pending(tmp_path / "wh") == {row for reference in references for row in reference.waited}


def parquet(folder, name, **columns):
    schema = table(name).arrow_schema().remove_metadata()
    n = len(next(iter(columns.values())))
    arrays = [pa.array(columns[one.name], one.type) if one.name in columns else pa.nulls(n, one.type) for one in schema]
    path = folder / f"{name}.parquet"
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)
    return [str(path)]


def test_commits_know_who_owned_their_partition_and_the_groups_state(tmp_path):
    made = [
        ("g", 0, 1, 1),
        ("g", 0, 6, 2),
        ("g", 0, 12, 3),
        ("g", 0, 20, 4),
        ("g", 0, 26, 5),
        ("g", 1, 27, 6),
        ("simple", 0, 28, 7),
        ("g", 2, 29, 8),
    ]
    groups, partitions, offsets, committed = zip(*made, strict=True)
    commits = parquet(
        tmp_path,
        "offset_commits",
        group_id=groups,
        topic=["t"] * len(made),
        partition=partitions,
        log_partition=[0] * len(made),
        log_offset=offsets,
        log_timestamp=[moment(one) for one in offsets],
        committed_offset=committed,
        producer_id=[5 if one == 8 else -1 for one in committed],
        is_tombstone=[False] * len(made),
        missing_before=[0] * len(made),
    )
    markers = parquet(
        tmp_path,
        "control_records",
        log_partition=[0],
        log_offset=[35],
        log_timestamp=[moment(35)],
        producer_id=[5],
        control_type=["COMMIT"],
    )
    ownership = parquet(
        tmp_path,
        "partition_ownership",
        group_id=["g"] * 4,
        topic=["t"] * 4,
        partition=[0, 0, 0, 2],
        log_partition=[0] * 4,
        member_id=["m1", "m2", "m3", "m4"],
        from_offset=[5, 11, 25, 5],
        to_offset=[11, 19, None, 34],
    )
    timeline = parquet(
        tmp_path,
        "group_timeline",
        group_id=["g"] * 4,
        log_partition=[0] * 4,
        seq=[0, 1, 2, 3],
        to_state=["Stable", "Stable", "Empty", "Dead"],
        from_state=[None, "Stable", "Stable", "Empty"],
        log_offset=[5, 11, 19, 28],
    )
    sources = Sources(commits=commits, commit_rows=len(made), markers=markers, ownership=ownership, timeline=timeline)
    found = [row for batch in Derivation(sources).run() for row in batch.to_pylist() if row["kind"] != Staged.PENDING]
    assert {row["committed_offset"]: (row["owner_member_id"], row["group_state"]) for row in found} == {
        1: (None, "Empty"),
        2: ("m1", "Stable"),
        3: ("m2", "Stable"),
        4: (None, "Empty"),
        5: ("m3", "Empty"),
        6: (None, "Empty"),
        7: (None, "Empty"),
        8: ("m4", "Empty"),
    }


@settings(max_examples=25)
@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=5), most=st.integers(1, 12))
def test_stretches_hold_each_commit_once_in_log_order(tmp_path_factory, counts, most):
    folder = tmp_path_factory.mktemp("chunks")
    places = [(partition, 10 * offset) for partition, count in enumerate(counts) for offset in range(count)]
    partitions, offsets = zip(*places, strict=True)
    commits = parquet(folder, "offset_commits", log_partition=partitions, log_offset=offsets)
    every = chunks(Sources(commits=commits, commit_rows=len(places), markers=[]), most)
    rows = pq.read_table(commits[0])
    found = []
    for stretch in every:
        taken = rows if stretch is None else rows.filter(stretch.where())
        assert taken.num_rows <= max(most, 1) or stretch is None
        found += sorted(zip(*(taken.column(name).to_pylist() for name in ("log_partition", "log_offset")), strict=True))
    assert found == places


def test_thinned_history_keeps_the_last_commit_of_each_stretch_and_counts_the_others(audit_rows, tmp_path):
    seconds = [1, 2, 3, 61, 62, 130, 131, 132]
    log = [commit((0, i), at, ("g", "t", 0), 100 + i) for i, at in enumerate(seconds)]
    log += [commit((0, 8), 133, ("g", "t", 0)), commit((0, 9), 134, ("g", "t", 0), 200)]
    log += [commit((0, 10), 135, ("g", "t", 0), 201), emptied((0, 11), 136, "other")]
    audit_rows(tmp_path / "wh", log[:5], expiry=ExpiryOptions(history_every_ms=60_000))
    audit_rows(tmp_path / "wh", log[5:], expiry=ExpiryOptions(history_every_ms=60_000))
    thin = sorted(rows(tmp_path / "wh", "offset_history"), key=lambda row: row["from_offset"])
    assert [(r["from_offset"], r["to_offset"], r["committed_offset"], r["commits_merged"]) for r in thin] == [
        (0, 2, 100, 0),
        (2, 4, 102, 1),
        (4, 7, 104, 1),
        (7, 8, 107, 2),
        (9, 10, 200, 0),
        (10, None, 201, 0),
    ]
    assert [r["ended_by"] for r in thin] == ["COMMIT", "COMMIT", "COMMIT", "DELETED", "COMMIT", None]
    assert [(in_ms(r["valid_from"]), in_ms(r["valid_to"])) for r in thin][:2] == [(ms(1), ms(3)), (ms(3), ms(62))]
