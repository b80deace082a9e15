"""Nights without upkeep: a run says that it is due, once its own files are too many, and no longer after it."""

from coordinator_replay.store import compaction
from coordinator_replay.store.maintain import Upkeep, run_maintain
from tests.pipeline.staged_rows import audit_rows, commit

__all__ = ["audit_rows"]


def test_nights_note_that_upkeep_is_due_until_it_is_done(tmp_path, audit_rows, monkeypatch):
    monkeypatch.setattr(compaction, "MOST_SMALL_FILES", 2)
    warehouse = tmp_path / "warehouse"

    def night(number: int, **options) -> list[str]:
        rows = [commit((0, number), 60 * number, ("orders", "t", 0), number)]
        notes = audit_rows(warehouse, rows, **options).run.notes
        return [note for note in notes if note.startswith("upkeep is due")]

    assert [night(0), night(1)] == [[], []]
    assert night(2) == ["upkeep is due: bucket 0 of offset_commits has 3 small files, which maintain merges"]
    assert night(3, follow="a follower does what maintain does") == []
    run_maintain(Upkeep(warehouse=str(warehouse)))
    assert night(4) == []
