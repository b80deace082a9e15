"""One run at a time on a warehouse, whichever way the other one ends."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest

from coordinator_replay.errors import LockedError
from coordinator_replay.store.lock import HOLDER_FILE, LEASE_FILE, FileGuard, Holder, Lease, guard_of, one_at_a_time
from tests.nightly import rest_at_night

LASTS = timedelta(seconds=1.5)
HOLD = """
import sys, time
from datetime import timedelta
from coordinator_replay.store.lock import FileGuard, Holder, Lease, one_at_a_time
kind, folder, seconds = sys.argv[1:]
mine = Holder.this("audit")
guard = FileGuard(folder, mine) if kind == "file" else Lease(folder, mine, timedelta(seconds=1.5))
with one_at_a_time(folder, "audit", guard=guard):
    print("held", flush=True)
    time.sleep(float(seconds))
"""


@contextmanager
def holding(kind, folder, seconds):
    """A process that has the warehouse, for so long."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, kind, folder, str(seconds)], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"held\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def guard(kind, folder, command="maintain"):
    mine = Holder.this(command)
    return FileGuard(folder, mine) if kind == "file" else Lease(folder, mine, LASTS)


@pytest.fixture(params=["file", "lease", "s3"])
def place(request, tmp_path):
    """What keeps others out, and the warehouse."""
    if request.param == "s3":
        return "lease", f"{request.getfixturevalue('s3')}/warehouse"
    return request.param, str(tmp_path)


def test_the_second_run_ends_at_once_and_says_who_is_at_work(place):
    kind, folder = place
    with holding(kind, folder, 60) as other:
        began = time.monotonic()
        with (
            pytest.raises(LockedError, match=rf"in use by audit \(process {other.pid} on .*--wait"),
            one_at_a_time(folder, "maintain", guard=guard(kind, folder)),
        ):
            pytest.fail("it was let in")
        assert time.monotonic() - began < 5


def test_the_holder_is_named_even_if_its_file_is_written_late(tmp_path):
    folder = str(tmp_path)
    first, second = guard("file", folder, "audit"), guard("file", folder)
    assert first.try_to_take()
    written = (tmp_path / HOLDER_FILE).read_text(encoding="utf-8")
    (tmp_path / HOLDER_FILE).unlink()
    later = threading.Timer(0.2, (tmp_path / HOLDER_FILE).write_text, [written])
    later.start()
    try:
        assert second.holder() == first.this
    finally:
        later.join()
        first.give_back()
    # Nobody at all says so: whoever asks does not wait for long.
    assert second.holder() is None


@pytest.mark.parametrize("place", rest_at_night(["file", "lease", "s3"], ["lease"]), indirect=True)
def test_the_second_run_waits_for_the_first(place):
    kind, folder = place
    waits = []
    # Longer than a lease lasts: it must have been renewed.
    with (
        holding(kind, folder, 3) as other,
        one_at_a_time(folder, "maintain", wait=timedelta(minutes=1), say=waits.append, guard=guard(kind, folder)),
    ):
        assert other.wait(timeout=5) == 0
    assert len(waits) == 1
    assert str(other.pid) in waits[0]


def test_a_killed_run_blocks_nobody(place):
    kind, folder = place
    with holding(kind, folder, 60) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        patience = timedelta() if kind == "file" else LASTS * 3
        with one_at_a_time(folder, "maintain", wait=patience, guard=guard(kind, folder)):
            pass


def test_a_run_that_fails_lets_the_next_one_in(place):
    kind, folder = place
    with pytest.raises(ZeroDivisionError), one_at_a_time(folder, "audit", guard=guard(kind, folder)):
        raise ZeroDivisionError
    with one_at_a_time(folder, "audit", guard=guard(kind, folder)):
        pass


def test_a_run_whose_lease_was_taken_over_fails_and_leaves_it_alone(tmp_path):
    lease = guard("lease", str(tmp_path))
    with (
        pytest.raises(LockedError, match="took over the warehouse"),
        one_at_a_time(str(tmp_path), "audit", guard=lease),
    ):
        other = guard("lease", str(tmp_path), "another")
        other._write()
        lease._renewing.join(timeout=10)
    assert guard("lease", str(tmp_path)).holder().command == "another"


def test_of_two_that_write_a_lease_at_once_the_later_one_has_it(tmp_path):
    first, second = guard("lease", str(tmp_path)), guard("lease", str(tmp_path))
    first._write()
    second._write()
    assert not first._is_ours()
    assert second._is_ours()


def test_a_lease_that_is_half_written_is_somebodys(tmp_path):
    (tmp_path / LEASE_FILE).write_text('{"command": "au')
    assert not guard("lease", str(tmp_path)).try_to_take()


def test_the_place_of_the_warehouse_decides_what_keeps_others_out(tmp_path):
    mine = Holder.this("audit")
    assert isinstance(guard_of(str(tmp_path), mine), FileGuard)
    assert isinstance(guard_of(f"file://{tmp_path}", mine), FileGuard)
    # A file system of Arrow's that is in memory only.
    assert isinstance(guard_of("mock:///warehouse", mine), Lease)
