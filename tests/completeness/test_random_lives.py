"""Random lives with transactions, one to three dumps of each while the cleaner works, against the whole log."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator_replay.times import milliseconds
from tests.completeness.asking import ask_lanes, lanes_of
from tests.completeness.held import open_held
from tests.completeness.judge import Judge
from tests.completeness.random_lives import NIGHTS, STEPS, Step, dumps_of, write_life
from tests.completeness.test_compacted_copy import shown
from tests.completeness.test_several_dumps import together
from tests.completeness.verdicts import Tally, Verdict
from tests.pipeline.in_process import audit_here
from tests.simulation.coordinator.watched_life import KINDS

_SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def judge_life(folder: Path, kind: str, steps: list[Step], nights: list[float], seed: int, count: int) -> Tally:
    """Hold every answer of some dumps of a life against those of its whole log."""
    life, tally = write_life(folder / "life", kind, seed, steps), Tally()
    if life is None:
        return tally
    topics = str(folder / "life" / "topics.csv")
    audit_here(folder / "whole", folder / "life" / "segments", topics=topics)
    judge = Judge(open_held(folder / "whole"), folder / "life" / "segments")
    dumps = dumps_of(folder, life, nights, seed)
    for dump in dumps:
        audit_here(folder / "copy", dump, topics=topics)
    return judge.judge(open_held(folder / "copy"), together(judge.proofs, dumps), tally, Random(seed), count=count)


def check_life(kind: str, steps: list[Step], nights: list[float], seed: int, count: int) -> None:
    with TemporaryDirectory() as folder:
        tally = judge_life(Path(folder), kind, steps, nights, seed, count)
    assert not tally.of(Verdict.WRONG), shown(tally)
    assert not tally.of(Verdict.NEEDLESS), shown(tally)


OVERTAKEN: list[Step] = [
    ("store", "bank", ("orders", 0)), ("wait", "mirror", 7, [("payments", 1)]), ("end", 8, False), ("join", 1000),
    ("wait", "mirror", 8, [("payments", 1)]), ("join", 1000), ("time", 11_000),
    ("wait", "mirror", 8, [("payments", 1), ("clicks", 0)]), ("commit",), ("wait", "bank", 7, [("payments", 1)]),
    ("time", 61_000), ("end", 8, True), ("remove", "g", ("orders", 1)), ("delete", "bank"),
    ("store", "bank", ("payments", 0)), ("leave", 1000), ("time", 90_000), ("store", "mirror", ("payments", 1)),
    ("wait", "g", 7, [("orders", 0), ("clicks", 0)]), ("delete", "mirror"), ("store", "bank", ("orders", 1)),
    ("end", 8, False), ("crash", 1000), ("end", 7, True), ("time", 1000),
]  # fmt: skip
"""Commits that a later one of their transaction overtakes, and groups that are deleted while a commit waits."""


AFTER_HOLE: list[Step] = [
    ("end", 8, True), ("store", "mirror", ("orders", 0)), ("end", 7, False), ("delete", "mirror"), ("end", 7, True),
    ("end", 8, True), ("store", "g", ("clicks", 0)), ("wait", "mirror", 8, [("payments", 1), ("orders", 1)]),
    ("join", 1000), ("end", 8, True), ("delete", "mirror"), ("wait", "mirror", 8, [("payments", 1)]), ("end", 8, True),
    ("store", "mirror", ("orders", 1)), ("join", 1),
]  # fmt: skip
"""A group that has offsets alone, and was deleted before records are missing; its commits behind them were cleaned."""


def test_the_page_shows_a_group_of_offsets_after_a_hole_as_groups_does(tmp_path):
    seed = 14200
    life = write_life(tmp_path / "life", "modern", seed, AFTER_HOLE)
    assert life is not None
    for dump in dumps_of(tmp_path, life, [0.4045420340021575, 1.0], seed):
        audit_here(tmp_path / "copy", dump, topics=str(tmp_path / "life" / "topics.csv"))
    copy = open_held(tmp_path / "copy")
    lanes = lanes_of(copy)
    edges = {milliseconds(at) for band in lanes["mirror"][0] for at in (band.since, band.until) if at is not None}
    for time_ms in sorted(edge + step for edge in edges for step in (0, 1)):
        listed, drawn = ask_lanes(copy, lanes, time_ms)
        assert listed.rows.keys() <= drawn.rows.keys()
    states = [(band.state, band.since, band.until) for band in lanes["mirror"][0]]
    assert [state for state, *_ in states][-2:] == ["Unknown", "Dead"]
    assert states[-2][1] < states[-2][2] == states[-1][1]


# By day test_several_dumps.py holds dumps of a life with transactions against its whole log.
@pytest.mark.long
def test_dumps_of_a_fixed_life_answer_as_its_whole_log_or_say_that_it_is_open():
    check_life("range", OVERTAKEN, [0.6, 1.0], seed=1, count=1)


@pytest.mark.long
@settings(max_examples=150, **_SETTINGS)
@given(kind=st.sampled_from(KINDS), steps=STEPS, nights=NIGHTS, seed=st.integers(0, 2**16))
def test_dumps_of_many_random_lives_answer_as_their_whole_logs_or_say_that_they_are_open(kind, steps, nights, seed):
    check_life(kind, steps, nights, seed, count=3)
