"""Judges of whole logs: each sample is audited, and asked each question, once for all modules."""

from collections.abc import Callable
from functools import cache

import pytest

from tests.completeness.judge import Judge
from tests.completeness.whole_logs import whole_of
from tests.pipeline.in_process import audit_here

JudgeOf = Callable[[str], Judge]


@pytest.fixture(scope="session")
def judge_of(tmp_path_factory: pytest.TempPathFactory) -> JudgeOf:
    """Takes the name of a sample, and returns the judge of its whole log."""
    return cache(lambda name: Judge(*whole_of(name, audit_here, tmp_path_factory.mktemp(name))))
