"""Accepts the tree as it is: writes the fingerprints of all files that versions cover."""

import json
from pathlib import Path

from scripts.versions.fingerprints import ACCEPTED, as_accepted, changes

REPOSITORY = Path(__file__).resolve().parents[2]


def main() -> None:
    """Print the changes that are accepted, and write the file."""
    file = REPOSITORY / ACCEPTED
    if file.exists():
        for change in changes(REPOSITORY):
            print(f"accepted: {change.clause}")
    file.write_text(json.dumps(as_accepted(REPOSITORY), indent=1) + "\n", encoding="utf-8")


main()
