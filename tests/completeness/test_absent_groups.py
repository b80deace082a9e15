"""Groups that have offsets alone and are deleted: their tombstones prove that they are gone until their next record.

An aborted commit is the exception. While it waits its group is there, and the cleaner leaves no trace of it.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tests.cleaner.recorded_log import RecordedPartition
from tests.cleaner.rounds import Round
from tests.completeness.asking import ask_diff, ask_groups
from tests.completeness.held import open_held
from tests.completeness.judge import Judge
from tests.completeness.proof import cut_moments, read_proofs
from tests.completeness.random_lives import Step, write_life
from tests.completeness.test_compacted_copy import shown
from tests.completeness.verdicts import Tally
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit_here

BANK, GONE = ("orders", 0), ("payments", 0)
OTHER: Step = ("store", "mirror", ("clicks", 0))
LAST: Step = ("store", "mirror", ("clicks", 1))
LONG = pytest.mark.long

STORED_AND_DELETED: list[Step] = [("store", "bank", BANK), ("delete", "bank")]
ABORTED: list[Step] = [*STORED_AND_DELETED, ("wait", "bank", 7, [GONE]), OTHER, ("end", 7, False)]


def _clean(one: RecordedPartition) -> None:
    """A round that keeps all tombstones."""
    one.clean(Round(now_ms=one.log.now_ms))


class Copy:
    """A life of a few steps, and a copy of it.

    Args:
        folder: where to.
        steps: of the life.
        cleaned: how many batches there are when the cleaner comes.
        is_rolled: whether the cleaner comes then, and a segment ends at the end; if not, the cleaner comes at the end.
        before: how many batches an earlier dump has, which is audited first; none if 0.
    """

    def __init__(
        self, folder: Path, steps: Sequence[Step], cleaned: int, *, is_rolled: bool = True, before: int = 0
    ) -> None:
        life = write_life(folder / "life", "range", 0, steps)
        assert life is not None
        [one] = life.partitions.values()
        topics = str(folder / "life" / "topics.csv")
        if before:
            one.write(before, Random(0), roll=0)
            audit_here(folder / "copy", life.dump(folder / "before"), topics=topics)
        one.write(cleaned, Random(0), roll=0)
        one.log.roll()
        if is_rolled:
            _clean(one)
        one.write(len(one.batches), Random(0), roll=0)
        if is_rolled:
            one.log.roll()
        else:
            _clean(one)
        dump = life.dump(folder / "dump")
        for into, source in (("whole", folder / "life" / "segments"), ("copy", dump)):
            audit_here(folder / into, source, topics=topics)
        self.whole, self.copy = open_held(folder / "whole"), open_held(folder / "copy")
        self.judge = Judge(self.whole, folder / "life" / "segments")
        [(self.partition, self.proof)] = read_proofs(dump).items()
        self.moments = cut_moments(self.judge.proofs[self.partition])

    def at(self, offset: int) -> int:
        """The time of an offset of the whole log."""
        return self.judge.proofs[self.partition].present[offset]

    def states(self, group: str, offset: int) -> tuple[str | None, str | None]:
        """The state of a group at the time of an offset: in the whole log, and in the copy."""
        rows = [ask_groups(one, self.at(offset)).rows.get((group,)) for one in (self.whole, self.copy)]
        first, last = (None if row is None else row.values["state"] for row in rows)
        return first, last

    def check(self) -> None:
        """Hold all that is said of groups at all moments, and between any two, against the whole log."""
        tally = Tally()
        self.judge.judge_moments(self.copy, self.partition, self.proof, [*self.moments, None], tally, "")
        for start in self.moments:
            for end in self.moments:
                if start < end:
                    replies = [ask_diff(one, start, end) for one in (self.whole, self.copy)]
                    replies[0].rows = {key: one for key, one in replies[0].rows.items() if key in replies[1].rows}
                    tally.judge("diff", f"from {start} to {end}", *replies, must=lambda _: None)
        assert not tally.faults, shown(tally)


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        pytest.param([*STORED_AND_DELETED, OTHER, ("store", "bank", BANK), LAST], None, id="stored", marks=LONG),
        pytest.param(
            [*STORED_AND_DELETED[:1], ("remove", "bank", BANK), OTHER, OTHER, ("store", "bank", BANK), LAST],
            None,
            id="offset removed",
            marks=LONG,
        ),
        pytest.param([*STORED_AND_DELETED, OTHER, ("wait", "bank", 7, [BANK]), LAST], None, id="pending"),
        pytest.param(
            [*STORED_AND_DELETED, OTHER, ("wait", "bank", 7, [BANK]), LAST, ("end", 7, True)],
            None,
            id="committed",
            marks=LONG,
        ),
        # The transaction may have begun where offsets are missing.
        pytest.param(
            [*STORED_AND_DELETED, OTHER, ("wait", "bank", 7, [BANK]), LAST, ("end", 7, False)],
            "Unknown",
            id="aborted",
        ),
    ],
)
def test_a_group_is_absent_between_its_tombstones_and_the_next_record_of_its_keys(steps, state, tmp_path):
    copy = Copy(tmp_path, steps, 2)
    # Nothing is missing from here on, but the cleaner may have worked on the next record of the key.
    assert (copy.proof.behind_missing, copy.proof.newest_base) == (1, copy.proof.end)
    assert copy.states("bank", 3) == (None, state)
    copy.check()


@pytest.mark.parametrize("place", rest_at_night([GONE, BANK], [GONE]))
def test_a_group_may_have_had_a_commit_alone_that_was_aborted_later(place, tmp_path):
    steps = [*STORED_AND_DELETED, ("wait", "bank", 7, [place]), *ABORTED[3:], ("store", "bank", BANK), LAST]
    copy = Copy(tmp_path, steps, 5)
    assert copy.proof.missing == [0, 3]
    assert copy.states("bank", 4) == ("Empty", "Unknown")
    assert copy.states("bank", 5) == (None, None)
    copy.check()


def test_an_offset_whose_tombstone_alone_is_left_may_have_been_in_force_before_it(tmp_path):
    stored: list[Step] = [("store", "bank", BANK), ("store", "bank", GONE), ("remove", "bank", GONE), OTHER]
    copy = Copy(tmp_path, [*stored, ("remove", "bank", BANK), LAST, ("store", "bank", GONE), LAST], 6)
    assert copy.states("bank", 3) == ("Empty", "Unknown")
    copy.check()


def test_a_tombstone_before_a_hole_proves_nothing_behind_it_if_the_newer_dump_lacks_it(tmp_path):
    in_hole: Step = ("store", "bank", BANK)
    copy = Copy(tmp_path, [*STORED_AND_DELETED, in_hole, OTHER, LAST, ("store", "bank", BANK), LAST], 6, before=2)
    assert copy.proof.missing == [0, 1, 3]
    assert list(copy.copy.sql("SELECT len(complete_ranges) FROM log_partitions")) == [(2,)]
    assert copy.states("bank", 5) == ("Empty", "Unknown")


def test_an_answer_about_a_complete_time_says_that_an_aborted_commit_may_be_missing(tmp_path):
    copy = Copy(tmp_path, [*ABORTED, LAST], 3, is_rolled=False)
    assert (copy.proof.missing, copy.proof.complete_from) == ([0, 3], 4)
    assert copy.states("bank", 4) == ("Empty", None)
    assert ask_groups(copy.copy, copy.at(4)).is_open
    assert not ask_groups(copy.copy, copy.at(5)).is_open
    copy.check()


def test_members_are_known_to_be_gone_where_the_tombstone_of_a_classic_group_is_left(tmp_path):
    left: list[Step] = [("join", 1), ("leave", 100), ("delete", "g")]
    copy = Copy(
        tmp_path, [*left, ("store", "g", ("clicks", 0)), OTHER, ("remove", "g", ("clicks", 0)), ("join", 1000)], 2
    )
    assert copy.proof.missing == [0]
    assert copy.states("g", 3) == ("Empty", "Empty")
    copy.check()
