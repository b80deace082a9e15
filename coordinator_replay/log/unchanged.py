"""A check that a dump did not change while a run read it.

A folder in which a broker is at work changes all the time: segments grow, roll and are deleted. A run that reads such
a folder sees no single point in time, so missing records prove nothing.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from coordinator_replay.errors import InputError
from coordinator_replay.log.dump import Dump, FileStamp, find_dump
from coordinator_replay.secret_text import without_secrets

_WAY_OUT = (
    "nothing was written; copy the dump to a place where nothing changes it, and audit the copy "
    "(docs/dumps.md, Was the dump complete)"
)


@contextmanager
def unchanged(dump: Dump) -> Iterator[None]:
    """Check at the end of a ``with`` block that no file of the dump has changed since it was listed.

    If the block raises an error and the dump has changed, the error about the dump replaces the error of the block. A
    dump that was not found by ``find_dump`` is not checked.

    Raises:
        InputError: a file was deleted, added, or written to.
    """
    try:
        yield
    except Exception:
        _check(dump)
        raise
    _check(dump)


def _check(dump: Dump) -> None:
    if dump.search is None:
        return
    changes = list(_changes(dump.stamps, _stamps_now(dump)))
    if changes:
        more = f" ({len(changes) - 1:,} more changed)" if len(changes) > 1 else ""
        raise InputError(f"the dump changed while it was read: {changes[0]}{more}; {_WAY_OUT}")


def _stamps_now(dump: Dump) -> Mapping[str, FileStamp]:
    """Return the stamps of the files that the dump has now; an empty mapping if the dump no longer exists."""
    assert dump.search is not None  # noqa: S101 - the caller has looked
    try:
        return find_dump(dump.search.inputs, form=dump.search.form, include_deleted=dump.search.include_deleted).stamps
    except (InputError, OSError):
        return {}


def _changes(before: Mapping[str, FileStamp], now: Mapping[str, FileStamp]) -> Iterator[str]:
    """Yield a sentence for each file that was deleted, added or changed."""
    for uri, stamp in before.items():
        what = _change(stamp, now.get(uri))
        if what is not None:
            yield f"{without_secrets(uri)} {what}"
    yield from (f"{without_secrets(uri)} was added" for uri in now if uri not in before)


def _change(before: FileStamp, now: FileStamp | None) -> str | None:
    if now is None:
        return "was deleted or renamed"
    if now.size != before.size:
        return f"{'grew' if now.size > before.size else 'shrank'} from {before.size:,} to {now.size:,} bytes"
    return None if now == before else "was written to"
