"""Expressions in RE2's syntax: compiled, or refused with RE2's words and nothing on standard error."""

import pytest

from coordinator_replay.re2_patterns import compile_pattern


def test_an_expression_matches_whole_names():
    assert compile_pattern("pay.*").fullmatch("payments")
    assert compile_pattern("pay").fullmatch("payments") is None


def test_a_bad_expression_is_refused_in_words_and_writes_nothing(capfd):
    with pytest.raises(ValueError, match=r"^missing \]: \["):
        compile_pattern("[")
    assert capfd.readouterr().err == ""
