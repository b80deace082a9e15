"""The folders that ``export`` writes into a dump, by their names.

``export-20261123T22-000041`` has the records of the export's batch 41, which began in the hour from 22:00 UTC on.
``export-20261123T22-000041-000100`` has the batches 41 to 100 in fewer files, and replaces their folders. Spark puts a
file ``_SUCCESS`` into a folder when it is complete. A folder without this file is being written, or its export was
killed and will be repeated.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

DONE = "_SUCCESS"
"""The file that marks a folder as complete."""

_NAME = re.compile(r"^export-(\d{8}T\d{2})-(\d{6,})(?:-(\d{6,}))?$")


@dataclass(frozen=True, slots=True, order=True)
class ExportFolder:
    """The parts of a folder's name.

    Attributes:
        first: number of the folder's first batch.
        last: number of the folder's last batch; equal to ``first`` if the folder has one batch.
        hour: the hour in which the folder's batches began, as ``20261123T22``, UTC.
    """

    first: int
    last: int
    hour: str

    @staticmethod
    def parse(name: str) -> "ExportFolder | None":
        """Parse a folder's name; return None for a folder that is no export."""
        match = _NAME.match(name)
        if match is None:
            return None
        hour, first, last = match.groups()
        return ExportFolder(int(first), int(last or first), hour)

    @property
    def name(self) -> str:
        """Return the folder's name."""
        last = f"-{self.last:06d}" if self.last > self.first else ""
        return f"export-{self.hour}-{self.first:06d}{last}"

    def covers(self, other: "ExportFolder") -> bool:
        """Return whether this folder has all batches of another folder and more."""
        return self != other and self.first <= other.first and other.last <= self.last


def superseded(complete: Iterable[ExportFolder]) -> set[ExportFolder]:
    """Return the folders whose batches are all in another folder.

    Args:
        complete: the complete folders of a dump.
    """
    folders = sorted(complete, key=lambda folder: (folder.first, -folder.last))
    covered: set[ExportFolder] = set()
    widest: ExportFolder | None = None
    for folder in folders:
        if widest is not None and widest.covers(folder):
            covered.add(folder)
        else:
            widest = folder
    return covered
