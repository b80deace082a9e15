"""Writes ``docs/what-if-judged.md`` and ``docs/judged/what-if-lives.md``. With ``--check``, it only compares them."""

import sys
from pathlib import Path

from scripts.what_if.judge import judgement

REPOSITORY = Path(__file__).resolve().parents[2]
SUMMARY = REPOSITORY / "docs" / "what-if-judged.md"
PREDICTIONS = REPOSITORY / "docs" / "judged" / "what-if-lives.md"


def main() -> int:
    """Write both pages, or compare them. Return 1 if a compared page differs."""
    made = judgement(REPOSITORY)
    pages = {SUMMARY: made.summary, PREDICTIONS: made.predictions}
    if "--check" in sys.argv[1:]:
        return int(any(page.read_text(encoding="utf-8") != text for page, text in pages.items()))
    for page, text in pages.items():
        page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
