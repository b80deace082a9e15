"""A dump is audited once for all tests that ask about it, and they notice when one of them writes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline import audited_once as module
from tests.pipeline.audited_once import AuditedOnce
from tests.pipeline.in_process import audit_here, contents
from tests.samples import Sample

SEGMENTS = Sample("old-format-none").segments


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The audits that were made."""
    found: list[tuple[Any, ...]] = []

    def counted(warehouse: Path, *dumps: str, **options: Any) -> Any:
        found.append((*dumps, options))
        return audit_here(warehouse, *dumps, **options)

    monkeypatch.setattr(module, "audit_here", counted)
    return found


def test_workers_that_ask_at_once_get_one_audit_and_others_another(made: list[tuple[Any, ...]], tmp_path: Path):
    workers = [AuditedOnce(tmp_path / "once") for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        first, *others = pool.map(lambda worker: worker(SEGMENTS), workers)
    assert [other.warehouse for other in others] == [first.warehouse] * 2
    assert [other.summary.run for other in others] == [first.summary.run] * 2
    assert len(made) == 1
    named = workers[0](SEGMENTS, cluster="other")
    assert named.warehouse != first.warehouse
    assert made[1:] == [(SEGMENTS, {"cluster": "other"})]


def test_the_tables_are_those_of_an_audit_of_ones_own(tmp_path: Path):
    audited = AuditedOnce(tmp_path / "once")(SEGMENTS)
    audit_here(tmp_path / "own", SEGMENTS)
    assert contents(audited.copy(tmp_path / "copy")) == contents(audited.warehouse) == contents(tmp_path / "own")


def test_who_writes_to_what_others_share_is_noticed(tmp_path: Path):
    once = AuditedOnce(tmp_path / "once")
    (once(SEGMENTS).warehouse / "mine").touch()
    with pytest.raises(AssertionError, match="a test wrote to the warehouse that others share"):
        once(SEGMENTS)


def test_a_write_that_nobody_asks_after_is_noticed_at_the_end(tmp_path: Path):
    with AuditedOnce(tmp_path / "once") as once:
        wanted, written = once(SEGMENTS), once(SEGMENTS, cluster="other")
    with AuditedOnce(tmp_path / "once") as again:
        assert again(SEGMENTS).warehouse == wanted.warehouse
    (written.warehouse / "mine").touch()
    # Each worker looks at the warehouses of all.
    with pytest.raises(AssertionError, match=r"others share: .*'cluster', 'other'"), AuditedOnce(tmp_path / "once"):
        pass


def test_an_audit_that_was_interrupted_is_made_again(made: list[tuple[Any, ...]], tmp_path: Path):
    once = AuditedOnce(tmp_path / "once")
    audited = once(SEGMENTS)
    audited.warehouse.parent.with_suffix(".summary").unlink()
    assert once(SEGMENTS).warehouse == audited.warehouse
    assert len(made) == 2
