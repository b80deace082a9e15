"""Ctrl-C ends a statement of DuckDB."""

import os
import subprocess
import sys

import pytest

_PRESSED_AGAIN_AND_AGAIN = """
import os, signal, threading
import duckdb
from coordinator_replay.query.interrupts import ended_by_ctrl_c

signal.signal(signal.SIGINT, signal.default_int_handler)
# Two threads: while the first is told, the other is in the middle of a join that ends tomorrow.
connection = duckdb.connect(config={"threads": 2})
for _ in range(5):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with ended_by_ctrl_c(connection):
            connection.sql("SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b").fetchall()
    except KeyboardInterrupt:
        print("interrupted")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    print(connection.sql("SELECT 1").fetchall())
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_a_join_whose_threads_are_busy():
    done = subprocess.run([sys.executable, "-c", _PRESSED_AGAIN_AND_AGAIN], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("interrupted\n[(1,)]\n" * 5, "")
