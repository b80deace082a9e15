"""Continuous audits: the records that ``export --follow`` writes into a dump are in the tables soon afterwards.

Each round audits the folders that have become complete since the round before. From time to time the tables are
maintained, because each audit adds files to them.

The ledger has the batches that were audited. So a restarted follower audits only the batches that are not in the
ledger.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from coordinator_replay.errors import LockedError
from coordinator_replay.export.folders import ExportedDump
from coordinator_replay.log.exports import ExportFolder, superseded
from coordinator_replay.pipeline.ledger import Run


def audited_batches(runs: Iterable[Run], stream: str | None) -> set[int]:
    """Return the numbers of the batches that followers have audited.

    Args:
        runs: rows of the ledger.
        stream: Spark's id of the stream that numbers the batches. None before the first batch; the result is then
            empty.
    """
    of_stream = (run.inputs for run in runs if stream is not None and run.settings.get("follow") == stream)
    names = (uri.rpartition("/")[2] for inputs in of_stream for uri in inputs)
    folders = filter(None, map(ExportFolder.parse, names))
    return {batch for folder in folders for batch in range(folder.first, folder.last + 1)}


@dataclass(slots=True, kw_only=True)
class AuditFollower:
    """A follower that audits new folders, with a record of its progress.

    Attributes:
        dump: the dump into which ``export --follow`` writes.
        audit: function that audits folders, given by their URIs.
        maintain: function that maintains the tables.
        log: function that gets a line if an audit, or the maintenance of the tables, is postponed.
        maintain_every: seconds between two rounds of maintenance.
        audited: numbers of the batches that were audited.
        maintain_at: time of the next maintenance, on a clock that only goes forward.
    """

    dump: ExportedDump
    audit: Callable[[Sequence[str]], None]
    maintain: Callable[[], None]
    log: Callable[[str], None]
    maintain_every: float
    audited: set[int] = field(default_factory=set)
    maintain_at: float = field(default_factory=time.monotonic)

    def run(self, stopped: threading.Event, every: float) -> None:
        """Audit new folders again and again, until ``stopped`` is set.

        Args:
            stopped: the event that ends the follower; an audit that has begun is finished first.
            every: seconds between two looks at the dump.
        """
        while not stopped.is_set():
            try:
                self.step()
            except LockedError as busy:
                self.log(f"{busy}; trying again")
            stopped.wait(every)

    def step(self) -> None:
        """Audit new folders. Then maintain the tables (``maintain``) if this is due.

        While there are new folders, postpone the maintenance, but for no longer than ``maintain_every`` seconds. Never
        maintain the tables before the first audit.
        """
        if new := self.new_folders():
            self.audit([self.dump.uri_of(folder) for folder in new])
            for folder in new:
                self.audited.update(range(folder.first, folder.last + 1))
        late = time.monotonic() - self.maintain_at
        if self.audited and late >= (self.maintain_every if new else 0):
            self.maintain()
            self.maintain_at = time.monotonic() + self.maintain_every

    def new_folders(self) -> list[ExportFolder]:
        """Return complete folders with batches that were not audited yet, in order.

        A folder is left out if its batches were merged into another folder.
        """
        complete = {folder for folder, done in self.dump.folders().items() if done}
        return sorted(
            folder
            for folder in complete - superseded(complete)
            if not self.audited.issuperset(range(folder.first, folder.last + 1))
        )
