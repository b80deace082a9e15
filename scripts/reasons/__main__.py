"""Writes docs/reasons-table.md, and docs/reasons-judged.md, which it prints; with ``-v`` each rebalance too.

``--lives N`` writes nothing: it judges N rebalances of each mix of random lives, and prints the tables.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.reasons.judge import DOCUMENT, REPOSITORY, document, judge_all
from scripts.reasons.removed import judge_page, removed_page
from scripts.reasons.rows import TABLE_DOCUMENT, draw
from scripts.reasons.simulated import judge_all as judge_lives
from scripts.reasons.simulated import pages, table
from scripts.world.mixes import HELD_OUT, MIXES


def main() -> None:
    """Judge the samples that go with the tests, or those in the folder given."""
    if "--lives" in sys.argv:
        count = int(sys.argv[sys.argv.index("--lives") + 1])
        for mix in MIXES.values():
            print("\n".join(table(mix.name, judge_lives(HELD_OUT, mix, count))))
        return
    arguments = [argument for argument in sys.argv[1:] if argument != "-v"]
    samples = Path(arguments[0]) if arguments else REPOSITORY / "tests" / "data"
    verdicts, with_log = judge_all(samples), judge_all(samples, with_log=True)
    if "-v" in sys.argv:
        for one in (*verdicts, *with_log):
            row, truth = one.row or {}, one.truth
            word = "right" if one.is_exact else "shared" if one.is_marked else "WRONG" if row and truth else "alone"
            print(word, one.sample, *(truth[:3] if truth else (row["group_id"], row["epoch"], None)), end=" | ")
            print(row.get("cause"), row.get("confidence"), row.get("alternatives"), truth.text[:120] if truth else "")
    text = f"{document(verdicts, with_log, pages())}\n{_removed()}"
    DOCUMENT.write_text(text, encoding="utf-8")
    TABLE_DOCUMENT.write_text(draw(), encoding="utf-8")
    print(text)


def _removed() -> str:
    """Return the part of the page about removed offsets."""
    from tests.pipeline.in_process import audit_here

    with TemporaryDirectory() as folder:
        return removed_page(judge_page(Path(folder), audit_here))


if __name__ == "__main__":
    main()
