"""Compares the answers of this tree with the answers of an earlier commit. Exits with 1 if they differ."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.answers.compared import differences
from scripts.answers.environments import python_of

REPOSITORY = Path(__file__).parents[2]
DATA = REPOSITORY / "tests" / "data"


def main() -> int:
    """Write the answers of both trees and print where they differ."""
    parser = argparse.ArgumentParser(prog="scripts/compare-answers", description=__doc__)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("samples", nargs="*", help="folders of tests/data, or dumps; all samples if none")
    parser.add_argument("--nights", type=int, default=1, help="audit each dump in so many parts")
    parser.add_argument("--work", type=Path, help="keeps the answers; those of the commit are made once")
    asked = parser.parse_intermixed_args()
    dumps = [find(one) for one in asked.samples] or sorted({one.parent for one in DATA.rglob("segments")})
    with tempfile.TemporaryDirectory() as temporary:
        work = (asked.work or Path(temporary)).resolve()
        tree = checked_out(asked.commit, work)
        python = python_of(tree)
        is_equal = True
        for dump in dumps:
            name = f"{dump.name}-{asked.nights}"
            before, after = work / "before" / tree.name / name, work / "after" / name
            if not (before / "done").exists():
                write(python, tree, dump, work, before, asked.nights)
            write(Path(sys.executable), REPOSITORY, dump, work, after, asked.nights)
            found = differences(before, after)
            is_equal = is_equal and not found
            print(f"{name}: {'; '.join(found) if found else 'equal'}", flush=True)
    return 0 if is_equal else 1


def find(name: str) -> Path:
    """Return the folder of a sample, given its name, or of a dump, given its path."""
    return DATA / name if (DATA / name).is_dir() else Path(name).resolve()


def checked_out(commit: str, work: Path) -> Path:
    """Unpack the tree of a commit, without a repository, and return its folder."""
    revision = subprocess.run(
        ["git", "rev-parse", "--verify", f"{commit}^{{commit}}"],
        cwd=REPOSITORY, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    tree = work / "trees" / revision
    if not tree.exists():
        tree.mkdir(parents=True)
        packed = subprocess.run(["git", "archive", revision], cwd=REPOSITORY, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(tree)], input=packed, check=True)
    return tree


def write(python: Path, tree: Path, dump: Path, work: Path, out: Path, nights: int) -> None:
    """Write the answers of a tree with the Python of its environment.

    Each tree needs a process of its own, because two trees have modules of the same names.
    """
    program = Path(__file__).with_name("written.py")
    # The length of a path decides where a line breaks, so both trees write to the same folder.
    place = work / "written"
    arguments = [str(dump), str(place), str(nights)]
    # With this seed, sets have the same order in both processes.
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    subprocess.run([str(python), str(program), *arguments], cwd=tree, env=env, check=True)
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    place.rename(out)


if __name__ == "__main__":
    sys.exit(main())
