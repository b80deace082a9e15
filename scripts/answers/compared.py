"""Where the answers of two trees differ, but for what was renamed on purpose."""

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
"""Words of answers, messages and columns: as they were, and as they are."""

RENAMED_COLUMNS = {
    "commit_totals": {"told": "sums"},
    "expired_offsets": {"last_consumed_by": "last_owner_member_id"},
    "group_evidence": {"told": "detail"},
    "offset_history": {"last_consumed_by": "last_owner_member_id"},
    "partition_ownership": {"release_event": "released_by"},
    "rebalances": {"partitions_moved": "partitions_reassigned"},
    "removed_offsets": {"last_consumed_by": "last_owner_member_id"},
}
"""Columns of stored tables: as they were called, and as they are."""


def differences(before: Path, after: Path) -> list[str]:
    """The files of two trees that differ, or that only one of them has."""
    names = sorted({path.relative_to(root) for root in (before, after) for path in root.rglob("*") if path.is_file()})
    return [str(name) for name in names if not _is_equal(before / name, after / name)]


def _is_equal(before: Path, after: Path) -> bool:
    if not (before.exists() and after.exists()):
        return False
    was, now = before.read_text(), after.read_text()
    if columns := RENAMED_COLUMNS.get(before.stem.removeprefix("table ")):
        rows = ({columns.get(name, name): one for name, one in json.loads(line).items()} for line in was.splitlines())
        was = "\n".join(sorted(json.dumps(row, sort_keys=True) for row in rows))
        # Rows were sorted before what differs from day to day was taken out of them.
        now = "\n".join(sorted(now.splitlines()))
    return was == now or _unfolded(was) == _unfolded(now)


def _unfolded(text: str) -> str:
    """A text in today's words; one with renamed words without its line breaks, since it is folded elsewhere."""
    words = " ".join(text.split()).replace("&#39;", "'")
    renamed = words
    for old, new in RENAMED_WORDS.items():
        renamed = renamed.replace(old, new)
    return text if renamed == words and not any(new in words for new in RENAMED_WORDS.values()) else renamed
