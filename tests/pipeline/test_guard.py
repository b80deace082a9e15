"""A step that fails for one group ends no run: the group is named, and tried again by the next run."""

import json

import orjson
import pytest

from coordinator_replay.analysis.findings.context import GroupContext
from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.errors import CoordinatorReplayError
from coordinator_replay.pipeline.groups import replay
from coordinator_replay.pipeline.guard import GroupGuard
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit, contents
from tests.samples import Sample

__all__ = ["audit"]

SAMPLE = Sample("group-lifecycles")
GROUP = "shop-static"


def failing(method, group_of, at=0):
    """A method that fails for GROUP, from its call of that number on."""
    calls = [0]

    def instead(self, *arguments):
        if group_of(self) == GROUP:
            calls[0] += 1
            if calls[0] > at:
                raise OverflowError("too large")
        return method(self, *arguments)

    return instead


STEPS = {
    "evaluating findings": (GroupContext, "add_status", lambda context: context.group_id, 0),
    "replaying its records": (GroupReplay, "feed", lambda life: life.replay.group_id, 3),
}


def of_others(tables):
    return {
        name: [row for row in rows if json.loads(row).get("group_id") != GROUP]
        for name, rows in tables.items()
        if name != "group_metrics"
    }


@pytest.fixture(scope="module")
def expected(audited_once):
    """The tables of a run in which no group fails."""
    return contents(audited_once(SAMPLE.segments).warehouse)


@pytest.mark.parametrize("step", rest_at_night(STEPS, ["replaying its records"]))
def test_a_group_that_fails_is_named_and_tried_again(step, expected, audit, tmp_path, monkeypatch):
    cls, name, group_of, at = STEPS[step]
    assert any(json.loads(row)["group_id"] == GROUP for row in expected["group_timeline"])
    with monkeypatch.context() as patch:
        patch.setattr(cls, name, failing(getattr(cls, name), group_of, at))
        done = audit(tmp_path / "warehouse", SAMPLE.segments)
    assert done.run.groups_failed == 1
    assert f"group {GROUP} could not be evaluated, see its finding group_not_evaluated" in done.run.notes
    found = contents(tmp_path / "warehouse")
    assert of_others(found) == of_others(expected)
    rows = (json.loads(row) for row in found["findings"])
    [finding] = [row for row in rows if row["rule"] == "group_not_evaluated"]
    assert (finding["group_id"], finding["severity"]) == (GROUP, "warning")
    assert json.loads(finding["detail"])["step"] == step
    assert "OverflowError: too large" in finding["message"]

    again = audit(tmp_path / "warehouse", SAMPLE.segments)
    assert again.run.groups_failed == 0
    assert contents(tmp_path / "warehouse") == expected


def test_a_broken_decoder_is_not_hidden(audit, tmp_path, monkeypatch):
    def broken(text):
        raise orjson.JSONDecodeError("broken", "", 0)

    monkeypatch.setattr(replay.orjson, "loads", broken)
    with pytest.raises(orjson.JSONDecodeError):
        audit(tmp_path / "warehouse", SAMPLE.segments)


@pytest.mark.parametrize("problem", [CoordinatorReplayError("on purpose"), OSError("disk"), MemoryError()], ids=repr)
def test_what_is_not_the_groups_fault_is_raised(problem):
    with pytest.raises(type(problem)), GroupGuard("a step"):
        raise problem


def test_the_first_failure_is_kept():
    guard = GroupGuard("a step")
    for text in ("first", "second"):
        with guard:
            raise ValueError(text)
    assert guard.failure is not None
    assert guard.failure.error == "ValueError: first"


def test_no_group_has_the_finding_without_a_failure(expected):
    assert not any("group_not_evaluated" in row for row in expected["findings"])
