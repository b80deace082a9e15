"""Differences between the answers of two trees, apart from words and columns that were renamed on purpose."""

import json
from pathlib import Path

RENAMED_WORDS = {
    "or killed the log can't tell": "or killed the log doesn't show",
    "he log can't tell which": "he log doesn't show which",
    "he log can't tell": "he log doesn't show which",
    "last_consumed_by": "last_owner_member_id",
    "partitions_moved": "partitions_reassigned",
    "release_event": "released_by",
}
"""Words of answers, messages and columns: the old word, and the new one."""

RENAMED_COLUMNS = {
    "commit_totals": {"told": "sums"},
    "expired_offsets": {"last_consumed_by": "last_owner_member_id"},
    "group_evidence": {"told": "detail"},
    "offset_history": {"last_consumed_by": "last_owner_member_id"},
    "partition_ownership": {"release_event": "released_by"},
    "rebalances": {"partitions_moved": "partitions_reassigned"},
    "removed_offsets": {"last_consumed_by": "last_owner_member_id"},
}
"""Columns of stored tables: the old name, and the new one."""


def differences(before: Path, after: Path) -> list[str]:
    """Return the files that differ between two trees, or that only one of the trees has."""
    names = sorted({path.relative_to(root) for root in (before, after) for path in root.rglob("*") if path.is_file()})
    return [str(name) for name in names if not _is_equal(before / name, after / name)]


def _is_equal(before: Path, after: Path) -> bool:
    if not (before.exists() and after.exists()):
        return False
    was, now = before.read_text(), after.read_text()
    if columns := RENAMED_COLUMNS.get(before.stem.removeprefix("table ")):
        rows = ({columns.get(name, name): one for name, one in json.loads(line).items()} for line in was.splitlines())
        was = "\n".join(sorted(json.dumps(row, sort_keys=True) for row in rows))
        # The files are sorted by texts from which values of the day were not removed yet, so sort again.
        now = "\n".join(sorted(now.splitlines()))
    return was == now or _unfolded(was) == _unfolded(now)


def _unfolded(text: str) -> str:
    """Return a text with old words replaced by new ones.

    If the text has renamed words, remove its line breaks, because they depend on the length of words.
    """
    words = " ".join(text.split()).replace("&#39;", "'")
    renamed = words
    for old, new in RENAMED_WORDS.items():
        renamed = renamed.replace(old, new)
    return text if renamed == words and not any(new in words for new in RENAMED_WORDS.values()) else renamed
