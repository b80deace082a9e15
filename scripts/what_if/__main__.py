"""Writes ``docs/what-if-judged.md``; ``--check`` only tells whether it is up to date."""

import sys
from pathlib import Path

from scripts.what_if.judge import page

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "what-if-judged.md"


def main() -> int:
    """Write the page, or compare it."""
    text = page(REPOSITORY)
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
