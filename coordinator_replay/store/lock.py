"""A lock that lets only one run at a time change a warehouse, or export into a dump (``one_at_a_time``).

On a file system of this machine, the operating system keeps the lock (``flock``, through ``filelock``), and frees the
lock when the process dies. In an object store, a ``Lease`` takes its place: an object that names the process and the
time until which the lease is valid. A run renews its lease until the run ends.

Without a lock, the tables would not be damaged: Delta refuses the second of two conflicting commits.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pyarrow import fs

from coordinator_replay.errors import LockedError, WarehouseError
from coordinator_replay.filesystem import FAILURES, make_folder, open_filesystem

LOCK_FILE = ".lock"
"""The locked file on a file system of this machine; it stays when the lock is released."""

HOLDER_FILE = ".lock-holder.json"
"""The file that tells other runs who holds the lock. The lock itself does not say it."""

LEASE_FILE = "_lease.json"
"""The lease, for stores without locks."""

LEASE_LASTS = timedelta(minutes=2)
"""Time for which the lease of a dead run keeps others waiting."""

_POLL_SECONDS = 0.5
_HOLDER_FILE_SECONDS = 1.0
_ALL_WRITTEN_SECONDS = 1.0
"""If several runs see no lease at the same time, each of them has written its own lease after this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Identity of the process that works on a warehouse.

    Attributes:
        command: name of the command that the process runs.
        process: its process id.
        host: name of its machine.
        since: the time at which the process asked for the lock, as text in UTC.
        token: random text, which no other process has.
    """

    command: str
    process: int
    host: str
    since: str
    token: str

    @staticmethod
    def this(command: str) -> "Holder":
        """Return this process as a holder."""
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return Holder(
            command=command, process=os.getpid(), host=socket.gethostname(), since=now, token=uuid.uuid4().hex
        )

    @staticmethod
    def read(written: Mapping[str, Any]) -> "Holder":
        """Return the process that a lock file or a lease names.

        Args:
            written: the content of the file or lease. Missing fields become empty texts.
        """
        return Holder(**{field.name: written.get(field.name, "") for field in fields(Holder)})

    def __str__(self) -> str:
        return f"{self.command} (process {self.process} on {self.host}, since {self.since})"


class FileGuard:
    """A lock that the operating system keeps.

    Args:
        folder: the warehouse.
        this: the process that asks.
    """

    def __init__(self, folder: str, this: Holder) -> None:
        self.this = this
        self._holder_file = Path(folder) / HOLDER_FILE
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(Path(folder) / LOCK_FILE)

    def try_to_take(self) -> bool:
        """Take the lock if nobody has it. Return whether this process has it now."""
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        self._holder_file.write_text(json.dumps(asdict(self.this)), encoding="utf-8")
        return True

    def holder(self) -> Holder | None:
        """Return the holder of the lock; None if the holder has not written its name within a second.

        A process writes its name just after it takes the lock.
        """
        until = time.monotonic() + _HOLDER_FILE_SECONDS
        while True:
            with suppress(OSError, ValueError):
                return Holder.read(json.loads(self._holder_file.read_text(encoding="utf-8")))
            if time.monotonic() >= until:
                return None
            time.sleep(_HOLDER_FILE_SECONDS / 50)

    def give_back(self) -> None:
        """Unlock."""
        self._holder_file.unlink(missing_ok=True)
        self._lock.release()


class Lease:
    """A lock file in an object store. It names the process that works on a warehouse, and when the lock expires.

    Not every object store can refuse to overwrite an object. So a run writes the lease, waits, and reads the lease
    again. If the lease names another run then, the run ends. A run that stalls for longer than its lease is valid loses
    the lease. The clocks of the machines must not differ by more than this time.

    Args:
        uri: the warehouse.
        this: the process that asks.
        lasts: how long the lease is valid without renewal.
    """

    def __init__(self, uri: str, this: Holder, lasts: timedelta = LEASE_LASTS) -> None:
        self.this = this
        self.lasts = lasts.total_seconds()
        self.is_lost = False
        self._filesystem, self._path = open_filesystem(f"{uri.rstrip('/')}/{LEASE_FILE}")
        self._ended = threading.Event()
        self._renewing = threading.Thread(target=self._renew, daemon=True)

    def try_to_take(self) -> bool:
        """Take the lease if nobody has it, and keep renewing it. Return whether this process has the lease now."""
        if self.holder() is not None:
            return False
        self._write()
        self._ended.wait(min(_ALL_WRITTEN_SECONDS, self.lasts / 3))
        if not self._is_ours():
            return False
        self._renewing.start()
        return True

    def holder(self) -> Holder | None:
        """Return the holder of the lease; None if the warehouse has no lease or the lease has run out."""
        lease = self._read()
        return Holder.read(lease) if lease is not None and float(lease.get("until", 0)) > time.time() else None

    def give_back(self) -> None:
        """Delete the lease and stop renewing it. A lease that another run has taken over stays."""
        self._ended.set()
        if self._renewing.is_alive():
            self._renewing.join()
        if self._is_ours():
            self._filesystem.delete_file(self._path)

    def _read(self) -> dict[str, Any] | None:
        """Return the content of the lock file; None if there is no lock file.

        If another process is still writing the lock file, return only the time until which the lock is valid.
        """
        if self._filesystem.get_file_info(self._path).type == fs.FileType.NotFound:
            return None
        try:
            with self._filesystem.open_input_stream(self._path) as stream:
                return dict(json.loads(stream.read()))
        except FileNotFoundError:
            return None
        except ValueError:
            return {"until": time.time() + self.lasts}

    def _write(self) -> None:
        if "/" in self._path:
            make_folder(self._filesystem, self._path.rpartition("/")[0])
        with self._filesystem.open_output_stream(self._path) as stream:
            stream.write(json.dumps({**asdict(self.this), "until": time.time() + self.lasts}).encode())

    def _is_ours(self) -> bool:
        lease = self._read()
        return lease is not None and lease.get("token") == self.this.token

    def _renew(self) -> None:
        while not self._ended.wait(self.lasts / 3):
            # The store may be reachable again before the lease runs out.
            with suppress(*FAILURES):
                if not self._is_ours():
                    self.is_lost = True
                    return
                self._write()


Guard = FileGuard | Lease
"""A guard that keeps other runs out."""


def guard_of(uri: str, this: Holder) -> Guard:
    """Return the lock that keeps other runs out of a warehouse: a lock of the operating system, or a lease.

    Raises:
        WarehouseError: the warehouse's folder can't be written.
    """
    filesystem, folder = open_filesystem(uri)
    try:
        return FileGuard(folder, this) if isinstance(filesystem, fs.LocalFileSystem) else Lease(uri, this)
    except FAILURES as problem:
        raise WarehouseError(f"{uri}: can't be used as a warehouse: {problem}") from problem


@contextmanager
def one_at_a_time(
    uri: str,
    command: str,
    *,
    wait: timedelta = timedelta(),
    say: Callable[[str], None] = lambda _text: None,
    guard: Guard | None = None,
) -> Iterator[None]:
    """Keep other runs out of a warehouse while the block runs.

    Args:
        uri: the warehouse.
        command: name of the command, shown to other runs that have to wait.
        wait: how long to wait for a run that is at work.
        say: called with a sentence that names the run that this run waits for.
        guard: the lock to use; None to choose the kind of lock by the store of the warehouse.

    Raises:
        LockedError: another run still works on the warehouse after ``wait``, or took it over because this run seemed
            dead.
        WarehouseError: the warehouse's folder can't be written or locked.
    """
    guard = guard or guard_of(uri, Holder.this(command))
    try:
        _take(uri, guard, wait, say)
    except (*FAILURES, NotImplementedError) as problem:
        raise WarehouseError(f"{uri}: can't be locked: {problem}") from problem
    try:
        yield
    finally:
        guard.give_back()
    if isinstance(guard, Lease) and guard.is_lost:
        raise LockedError(
            f"{uri}: this run was stalled for so long that another run took over the warehouse; run it again to "
            f"be sure that nothing is missing"
        )


def _take(uri: str, guard: Guard, wait: timedelta, say: Callable[[str], None]) -> None:
    until = time.monotonic() + wait.total_seconds()
    is_announced = False
    while not guard.try_to_take():
        holder = guard.holder()
        who = str(holder or "another run")
        if time.monotonic() >= until:
            waited = f" still, after {wait}" if wait else ""
            raise LockedError(
                f"{uri} is in use by {who}{waited}: try again later, or wait for it, for example with --wait 30m",
                holder.command if holder else "",
            )
        if not is_announced:
            say(f"waiting for {who} to end")
            is_announced = True
        time.sleep(min(_POLL_SECONDS, max(0.0, until - time.monotonic())))
