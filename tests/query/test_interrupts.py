"""Ctrl-C ends a statement of DuckDB, and so does a limit of time."""

import os
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from coordinator_replay.errors import UsageError
from coordinator_replay.query.sql import run_sql
from coordinator_replay.query.tables import Tables

_PRESSED_AGAIN_AND_AGAIN = """
import os, signal, threading
import duckdb
from coordinator_replay.query.fetch import ended_by_ctrl_c

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


ENDLESS = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"


@pytest.mark.parametrize("statement", [ENDLESS, f"SELECT 1; {ENDLESS}", f"CREATE TABLE x AS {ENDLESS}; FROM x"])
def test_a_statement_ends_with_its_time(folder, statement: str):
    warehouse = Tables(str(folder))
    began = time.monotonic()
    with pytest.raises(UsageError, match=r"ended: it took longer than 0:00:00\.300000"):
        run_sql(warehouse, statement, allow_files=True, timeout=timedelta(milliseconds=300))
    assert time.monotonic() - began < 30
    assert run_sql(warehouse, "SELECT 1 AS a", timeout=timedelta(seconds=60)) == (["a"], [(1,)])


def test_the_command_takes_a_limit(folder):
    asked = ["sql", "--warehouse", str(folder), "--timeout"]
    result = CliRunner().invoke(main, [*asked, "300ms", ENDLESS])
    assert (result.exit_code, result.output) == (
        2,
        "Error: the statement was ended: it took longer than 0:00:00.300000\n",
    )
    assert CliRunner().invoke(main, [*asked, "1m", "SELECT 1"]).exit_code == 0
