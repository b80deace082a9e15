"""The page that holds predictions against a real broker is what the script makes today."""

from pathlib import Path

from scripts.whatif.judge import page

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date() -> None:
    written = (REPOSITORY / "docs" / "what-if-judged.md").read_text(encoding="utf-8")
    assert written == page(REPOSITORY), "run scripts/judge-what-if"
