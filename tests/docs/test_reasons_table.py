"""The decision table in the documents is that of the rules."""

from scripts.reasons.rows import TABLE_DOCUMENT, draw


def test_the_table_of_rules_is_drawn_from_them():
    assert TABLE_DOCUMENT.read_text(encoding="utf-8") == draw(), "run scripts/judge-reasons"
