"""The plan of a run: each bucket with what becomes of it and why, and nothing written by a look at it."""

from pathlib import Path

import pytest

from coordinator_replay.analysis import group_life
from coordinator_replay.engine import replay as engine
from coordinator_replay.pipeline import options
from coordinator_replay.pipeline.audit import Options, plan_audit
from coordinator_replay.pipeline.audit import audit as run_stages
from coordinator_replay.pipeline.bucket_share import Action
from coordinator_replay.pipeline.groups import group_step, replay
from tests.pipeline.in_process import InProcess, audit, cut
from tests.samples import Sample

__all__ = ["audit"]


def planned(warehouse, *dumps, **asked):
    """What would become of the buckets that have news, and why."""
    chosen = Options(inputs=[str(dump) for dump in dumps], warehouse=str(warehouse), **asked)
    plan = plan_audit(InProcess(), chosen).plan
    return [(share.action, tuple(share.reasons)) for share in plan.shares if share.staged or share.is_rebuild]


def listed(folder):
    return sorted((path, path.stat().st_mtime_ns) for path in Path(folder).rglob("*"))


@pytest.fixture
def nights(tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    cut(Sample("transactions").segments, folders)
    return folders


def test_a_first_audit_rebuilds_every_bucket_and_its_plan_leaves_no_warehouse(nights, tmp_path):
    assert set(planned(tmp_path / "w", nights[0])) == {(Action.REBUILD, ("no table has rows of it yet",))}
    assert not (tmp_path / "w").exists()


def test_the_plan_of_a_night_says_why_each_bucket_continues_or_is_rebuilt(nights, audit, tmp_path):
    one, two = nights
    audit(tmp_path / "w", one)
    before = listed(tmp_path / "w")
    continued = {(Action.CONTINUE, ("new records follow those that the tables have",))}
    assert set(planned(tmp_path / "w", two)) == continued
    assert set(planned(tmp_path / "w", two, full=True)) == {(Action.REBUILD, ("--full",))}
    assert listed(tmp_path / "w") == before


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("FINDINGS_VERSION", "findings were made by the rules of another release"),
        ("OFFSETS_VERSION", "offsets were derived by another release"),
    ],
)
def test_what_rules_of_another_release_made_is_made_again_without_new_records(
    version, why, nights, audit, tmp_path, monkeypatch
):
    audit(tmp_path / "w", *nights)
    assert planned(tmp_path / "w", *nights) == []
    monkeypatch.setattr(options, version, 99)
    assert set(planned(tmp_path / "w", *nights)) == {(Action.REBUILD, (why,))}


@pytest.mark.parametrize("risen", [engine, group_life], ids=["engine", "group_life"])
def test_groups_are_replayed_anew_where_either_form_of_their_snapshots_is_another(
    risen, nights, audit, tmp_path, monkeypatch
):
    assert group_life.SNAPSHOT_VERSION == 1000 * group_life.VERSION + engine.VERSION
    one, two = nights
    audit(tmp_path / "w", one)
    monkeypatch.setattr(risen, "VERSION", risen.VERSION + 1)
    for module in (replay, group_step):
        monkeypatch.setattr(module, "SNAPSHOT_VERSION", 1000 * group_life.VERSION + engine.VERSION)
    found = planned(tmp_path / "w", two)
    assert any("snapshots of its groups are of another release" in reasons for _, reasons in found), found
    assert audit(tmp_path / "w", two).run.groups_failed == 0


def test_records_between_those_of_the_tables_have_their_bucket_rebuilt(nights, audit, tmp_path):
    one, two = nights
    audit(tmp_path / "w", two)
    found = planned(tmp_path / "w", one)
    assert {action for action, _ in found} == {Action.REBUILD}
    assert all("is new, and the tables end at log offset" in reasons[0] for _, reasons in found)


def stages_in(warehouse, *dumps, **asked):
    """The stages behind the plan that a run would do, and why each other one is skipped."""
    chosen = Options(inputs=[str(dump) for dump in dumps], warehouse=str(warehouse), **asked)
    planned = plan_audit(InProcess(), chosen).stages
    return [one.name for one in planned if one.is_done], {one.name: one.why for one in planned if not one.is_done}


ACROSS = ["explaining tombstones", "evaluating findings", "writing metrics"]


def test_a_plan_lists_the_stages_that_the_run_performs(nights, audit, tmp_path):
    one, _ = nights
    done, skipped = stages_in(tmp_path / "w", one)
    performed = []
    chosen = Options(inputs=[str(one)], warehouse=str(tmp_path / "w"))
    run_stages(InProcess(), chosen, performed.append)
    assert performed[-len(done) :] == done
    assert [name for name in done if name in ACROSS] == ACROSS
    assert skipped == {
        "reading logs of brokers": "no --broker-log is given",
        "joining rebalances with logs of brokers": "no log of a broker was ever read",
        "counting what earlier runs found": "this run evaluates the findings itself",
    }


def test_a_plan_without_news_derives_nothing_and_says_so(nights, audit, tmp_path):
    one, _ = nights
    audit(tmp_path / "w", one)
    done, skipped = stages_in(tmp_path / "w", one)
    assert "counting what earlier runs found" in done
    assert {skipped[name] for name in ACROSS} == {"no new records"}


def test_a_plan_of_records_only_says_so(nights, tmp_path):
    _, skipped = stages_in(tmp_path / "w", nights[0], records_only=True)
    assert {skipped[name] for name in ACROSS} == {"--records-only"}
