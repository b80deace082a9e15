"""The sample ``compacted``, a log that a real cleaner worked on, held against what its broker answered at the time."""

from pathlib import Path

import pytest

from coordinator_replay import Warehouse
from tests.acceptance.recorded import answered, at
from tests.completeness.asking import Reply, Told, ask_groups, ask_offsets
from tests.completeness.held import open_held
from tests.completeness.proof import read_proofs
from tests.completeness.verdicts import Tally, Verdict
from tests.pipeline.audited_once import AuditedOnce
from tests.samples import Sample


@pytest.fixture(scope="module")
def with_metadata(audited_once: AuditedOnce) -> Path:
    """The warehouse of the sample and of its cluster's metadata."""
    sample = Sample("compacted")
    return audited_once(sample.segments, cluster_metadata=str(sample.folder / "cluster-metadata")).warehouse


@pytest.fixture(scope="module")
def alone(audited_once: AuditedOnce) -> Warehouse:
    """The warehouse of the sample's segments alone."""
    return Warehouse(str(audited_once(Sample("compacted").segments).warehouse))


@pytest.fixture(params=[3, pytest.param(1, marks=pytest.mark.long)], ids=["a third", "all"])
def tally(request: pytest.FixtureRequest, with_metadata: Path) -> Tally:
    """The verdicts on every answer at every checkpoint at which nothing was under way, or at every third."""
    sample, found = Sample("compacted"), Tally()
    warehouse, proofs = open_held(with_metadata), read_proofs(sample.segments)
    proof_of = {group: proof for proof in proofs.values() for group in proof.keys}
    for time, groups in list(answered("compacted"))[:: -request.param]:
        time_ms = round(at(time).timestamp() * 1000)
        told = ask_groups(warehouse, time_ms)
        broker = {
            (group_id,): Told({"group_type": group["type"].lower(), "state": group["state"]})
            for group_id, group in groups.items()
        }
        narrow(told, ("group_type", "state"))

        def must_group(key, time_ms=time_ms, told=told):
            proof = proof_of.get(key[0])
            return key in told.rows and proof is not None and proof.is_group_exact(key[0], time_ms)

        found.judge("groups", time, Reply(broker), told, must_group)
        for group_id, group in groups.items():
            offsets = ask_offsets(warehouse, group_id, time_ms)
            narrow(offsets, ("committed_offset", "metadata"))
            stored = {
                place(name): Told({"committed_offset": one["offset"], "metadata": one["metadata"]})
                for name, one in (group.get("offsets") or {}).items()
            }

            def must_offset(key, time_ms=time_ms, group_id=group_id):
                proof = proof_of.get(group_id)
                return proof is not None and proof.is_key_exact(group_id, proof.offset_key(group_id, *key), time_ms)

            found.judge("offsets", f"{group_id} at {time}", Reply(stored), offsets, must_offset)
    return found


def narrow(reply: Reply, names: tuple[str, ...]) -> None:
    """Keep of the rows what the broker answered, too."""
    reply.rows = {key: Told({name: one.values[name] for name in names}, one.is_open) for key, one in reply.rows.items()}


def place(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def test_what_if_has_rebalances_as_the_table_of_what_the_log_proves(with_metadata: Path):
    warehouse = Warehouse(str(with_metadata))
    answer = warehouse.what_if("mall-migrate", {"session.timeout.ms": 20000})
    recorded = next(iter(answer))
    unowned = "SELECT max(unowned_ms_max), sum(unowned_ms_total) FROM rebalances WHERE group_id = $group"
    stored = warehouse.sql(unowned, group="mall-migrate")
    assert next(iter(stored)) == (recorded.unowned_ms_max, recorded.unowned_ms_total) == (329, 987)
    assert "the true numbers of the recorded group may be higher" in " ".join(answer.notes)
    open_one = next(iter(warehouse.what_if("mall-newstatic", {"session.timeout.ms": 20000})))
    assert (open_one.rebalances, open_one.unowned_ms_max, open_one.unowned_ms_total) == (1, None, None)
    assert next(iter(warehouse.sql(unowned, group="mall-newstatic"))) == (None, None)


def test_no_answer_is_other_than_the_brokers_and_none_is_open_without_need(tally: Tally):
    print(tally.shares())
    assert not tally.of(Verdict.WRONG), "\n".join(map(str, tally.faults))
    assert not tally.of(Verdict.NEEDLESS), "\n".join(map(str, tally.faults))
    assert tally.counts["groups", Verdict.RIGHT] and tally.counts["offsets", Verdict.RIGHT]


def test_members_before_a_rebalance_are_null_where_the_group_before_it_is_not_on_record(alone: Warehouse):
    members = {(one.group_id, one.epoch): one.members_before for one in alone.rebalances()}
    assert [members["mall-billing", epoch] for epoch in (5, 6, 7)] == [None, 1, 0]
    assert [members["mall-new", epoch] for epoch in (8, 9, 10)] == [None, 1, 0]
    assert members["mall-newstatic", 6] is None
    assert members["mall-eos", 1] == 0, "nobody is in a group before generation 1"


def test_how_long_a_rebalance_took_is_null_where_its_end_may_not_be_on_record(alone: Warehouse):
    rows = {(one.group_id, one.epoch): one for one in alone.rebalances()}
    cut, known = rows["mall-migrate", 7], rows["mall-new", 10]
    assert (cut.duration_ms, cut.duration_ms_min, cut.duration_ms_max) == (None, None, None)
    # Who came back in it is not proven, when it was over is.
    assert (known.is_exact, known.duration_ms) == (False, 0)


def test_the_page_of_a_group_begins_with_what_the_command_says_of_its_past(alone: Warehouse):
    page = alone.report("mall-doomed")
    assert "its past before" in str(page.basis)
    assert str(page.basis).removeprefix("cluster") in page.html
