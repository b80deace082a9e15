"""Writes docs/reasons-table.md and docs/reasons-judged.md, and prints the second. ``-v`` also prints each rebalance.

``--lives N`` judges N rebalances of random lives, and ``--removed N`` judges N removed offsets of random lives. Both
print tables and each row that misses a goal, and write no page.
"""

from argparse import ArgumentParser, Namespace
from itertools import count
from pathlib import Path

from scripts.reasons.judge import DOCUMENT, REPOSITORY, document, judge_all
from scripts.reasons.removed import judge_many as judge_many_removed
from scripts.reasons.removed import judge_page, missed, removed_page, removed_table
from scripts.reasons.rows import TABLE_DOCUMENT, draw
from scripts.reasons.simulated_page import judge_many, pages, report
from scripts.world.mixes import LONG_RUN, MIXES, Mix


def main() -> None:
    """Judge the samples in the given folder (by default, those of the tests), or random lives."""
    arguments = _arguments()
    if arguments.lives:
        for name in arguments.mix or MIXES:
            _judge_lives(MIXES[name], arguments)
        return
    if arguments.removed:
        for name in arguments.mix or MIXES:
            _judge_removed(MIXES[name], arguments)
        return
    verdicts, with_log = judge_all(arguments.samples), judge_all(arguments.samples, with_log=True)
    if arguments.verbose:
        for one in (*verdicts, *with_log):
            row, truth = one.row or {}, one.truth
            word = "right" if one.is_exact else "shared" if one.is_marked else "WRONG" if row and truth else "alone"
            print(word, one.sample, *(truth[:3] if truth else (row["group_id"], row["epoch"], None)), end=" | ")
            print(row.get("cause"), row.get("confidence"), row.get("alternatives"), truth.text[:120] if truth else "")
    text = f"{document(verdicts, with_log, pages())}\n{_removed()}"
    DOCUMENT.write_text(text, encoding="utf-8")
    TABLE_DOCUMENT.write_text(draw(), encoding="utf-8")
    print(text)


def _arguments() -> Namespace:
    parser = ArgumentParser(prog="judge-reasons", description="Judges causes of rebalances; writes their pages.")
    parser.add_argument("samples", nargs="?", type=Path, default=REPOSITORY / "tests" / "data", help="recorded samples")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each rebalance of the samples")
    parser.add_argument("--lives", type=int, metavar="N", help="judge N rebalances of each mix; write no page")
    parser.add_argument("--removed", type=int, metavar="N", help="judge N removed offsets of each mix; write no page")
    parser.add_argument(
        "--retention-unknown", action="store_true", help="with --removed: audit without offsets.retention.minutes"
    )
    parser.add_argument("--mix", action="append", choices=MIXES, help="judge lives of this mix only")
    parser.add_argument("--seed", type=int, default=LONG_RUN.start, help="seed of the first life")
    parser.add_argument("--to", type=Path, metavar="FILE", help="write the tables so far to this file, again and again")
    return parser.parse_args()


def _judge_lives(mix: Mix, arguments: Namespace) -> None:
    """Judge lives of a mix, and print the tables and each row that misses a goal."""
    for tally in judge_many(count(arguments.seed), mix, arguments.lives):
        text = "\n".join(report(mix.name, tally))
        if arguments.to is not None:
            arguments.to.write_text(text, encoding="utf-8")
    print(text)


def _judge_removed(mix: Mix, arguments: Namespace) -> None:
    """Judge removed offsets of a mix, and print the table and each offset that misses a goal."""
    from tests.pipeline.in_process import audit_here

    known = not arguments.retention_unknown
    for judged in judge_many_removed(
        count(arguments.seed), mix, audit_here, arguments.removed, is_retention_known=known
    ):
        text = "\n".join([*removed_table(mix.name, judged), "", *missed(judged)])
        if arguments.to is not None:
            arguments.to.write_text(text, encoding="utf-8")
    print(text)


def _removed() -> str:
    """Return the part of the page about removed offsets."""
    from tests.pipeline.in_process import audit_here

    return removed_page(judge_page(audit_here))


if __name__ == "__main__":
    main()
