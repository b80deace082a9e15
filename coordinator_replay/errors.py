"""All errors that a user can see. Their base class is ``CoordinatorReplayError``, and the text of each is one sentence.

Data that can't be read raises no error: it becomes a row of ``quarantine`` with an ``error_class``. An error is raised
only if the user can act on it: a wrong call, an input that is not a dump, a broken warehouse.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from coordinator_replay.secret_text import without_secrets

COLOURS = re.compile("\x1b\\[[0-9;]*m")
"""Sequences that colour text on a terminal."""


class CoordinatorReplayError(Exception):
    """Root of all errors that this package raises on purpose.

    The text of an error is one sentence for the user.

    Secret keys in URIs are removed, because errors end up in logs, tickets and tables. Colours in texts of libraries
    are removed too.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(_plain(argument) if isinstance(argument, str) else argument for argument in arguments))


def _plain(text: str) -> str:
    return without_secrets(COLOURS.sub("", text))


class UsageError(CoordinatorReplayError):
    """A mistake in the call itself, such as an option, a name, or a time that can't be read."""


class InputError(CoordinatorReplayError):
    """An input is missing, unreadable, or not a dump of ``__consumer_offsets``."""


class DefinitionError(CoordinatorReplayError):
    """A file under ``schemas/`` breaks the grammar of ``schemas/README.md``, or the installation lacks such files."""


class PrerequisiteError(CoordinatorReplayError):
    """The machine lacks something, such as Java, the Delta jars, or a folder that can be written."""


class WarehouseError(CoordinatorReplayError):
    """The warehouse or one of its tables is missing, can't be read, or is of another version."""


class StoreError(CoordinatorReplayError):
    """An object store refuses access."""


class LockedError(CoordinatorReplayError):
    """Another run is at work on the warehouse, or on the dump to which an export adds records.

    Attributes:
        command: name of the other run's command; empty if the name is not known.
    """

    def __init__(self, text: str, command: str = "") -> None:
        super().__init__(text)
        self.command = command


class SnapshotError(CoordinatorReplayError):
    """The stored snapshot of a group has a version that this release can't read, or is damaged."""


@contextmanager
def writing(place: object) -> Iterator[None]:
    """Turn an OSError of the ``with`` block, which writes a file or a folder, into a UsageError.

    Args:
        place: the file or folder, for the message.

    Raises:
        UsageError: the file or folder can't be written.
    """
    try:
        yield
    except OSError as problem:
        raise UsageError(f"{place} can't be written: {problem.strerror}") from problem
