"""One rule for every horizon: ``expired --within`` says what an audit that looks so far ahead writes."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from coordinator_replay.pipeline.audit import ExpiryOptions
from coordinator_replay.query.expired import ExpiredOffset, expired_offsets
from coordinator_replay.query.tables import Tables
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit, audit_here
from tests.samples import Sample

__all__ = ["audit"]

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def looking_ahead(tmp_path_factory) -> Callable[[str, timedelta], Path]:
    """Warehouses of samples, by how far the audit looked ahead; each is made once."""
    made: dict[tuple[str, timedelta], Path] = {}

    def warehouse(sample: str, horizon: timedelta) -> Path:
        if (sample, horizon) not in made:
            folder = made[sample, horizon] = tmp_path_factory.mktemp("ahead") / "warehouse"
            expiry = ExpiryOptions(horizon_ms=round(horizon.total_seconds() * 1000))
            audit_here(folder, Sample(sample).segments, expiry=expiry)
        return made[sample, horizon]

    return warehouse


@pytest.mark.parametrize("sample", rest_at_night(["group-lifecycles", "kafka-3.9", "transactions"], ["transactions"]))
@pytest.mark.parametrize(
    "horizon", rest_at_night([timedelta(0), 6 * DAY, 7 * DAY, 400 * DAY], [timedelta(0), 400 * DAY]), ids=str
)
def test_a_question_with_a_horizon_is_answered_as_an_audit_with_it(looking_ahead, sample, horizon):
    def still_there(folder, **asked):
        found = expired_offsets(Tables(str(folder)), statuses=("DUE", "EXPIRING"), **asked)
        return sorted(found, key=lambda one: (one.group_id, one.topic, one.partition))

    ahead, short = looking_ahead(sample, horizon), looking_ahead(sample, timedelta(0))
    wanted: list[ExpiredOffset] = still_there(ahead)
    assert still_there(short, within=horizon) == wanted
    assert still_there(ahead, within=horizon) == wanted
    assert bool(wanted) == (horizon > 6 * DAY)


def test_what_expires_next_is_what_the_broker_removed_next(audit, audited_once, tmp_path):
    """The dump ends shortly before the broker's cleanup; what it removed later is what was said to expire."""
    folder, whole = tmp_path / "cut", audited_once(Sample("expiration").segments).warehouse
    removed = {
        (one.group_id, one.topic, one.partition, one.committed_offset): one.expire_at
        for one in expired_offsets(Tables(str(whole)), statuses=("EXPIRED",))
    }
    assert len(removed) == 14
    first = min(removed.values())
    audit(
        folder, Sample("expiration").segments, expiry=ExpiryOptions(as_of=first, retention_ms=60_000, horizon_ms=60_000)
    )
    told = {
        (one.group_id, one.topic, one.partition, one.committed_offset): one.expire_at
        for one in expired_offsets(Tables(str(folder)), statuses=("DUE", "EXPIRING"))
    }
    # A later commit of a live group, or a rule that changed, moves some; none that is told later went at another time.
    assert {key: told[key] for key in told.keys() & removed.keys()} == {
        key: removed[key] for key in told.keys() & removed.keys()
    }
    assert told.keys() & removed.keys()
