"""Whatever goes wrong, the program ends with a sentence and a code, and keeps the traceback where it says."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from weakref import ref

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.guard import GuardedCommand, guarded
from coordinator_replay.cli.main import main
from coordinator_replay.query.tables import Tables
from tests.nightly import rest_at_night
from tests.query.small_warehouse import write_small_warehouse
from tests.samples import Sample

PROGRAM = (sys.executable, "-P", "-m", "coordinator_replay")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_small_warehouse(tmp_path_factory.mktemp("small"))


class Panic(BaseException):
    """What libraries written in Rust raise."""


# Types and not errors: an error keeps what was in the variables where it was raised, such as connections to DuckDB.
@pytest.mark.parametrize(
    ("problem", "arguments"),
    [(KeyError, ["a\x1b[2J"]), (OverflowError, ["date value out of range"]), (Panic, ["no"]), (OSError, [5, "I/O"])],
)
def test_what_nobody_thought_of_ends_in_a_sentence(folder, tmp_path, monkeypatch, problem, arguments):
    def fail(*_, **__):
        raise problem(*arguments)

    monkeypatch.setattr(Tables, "rows", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = CliRunner().invoke(main, ["groups", "--warehouse", str(folder)])
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    (told,) = result.output.splitlines()
    assert told.startswith("Error: ")
    assert "\x1b" not in told
    if problem is not OSError:
        kept = Path(re.search(r"traceback is in (\S+):", told)[1])
        assert "Traceback" in kept.read_text()
        assert kept.stat().st_mode & 0o77 == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "question",
    [
        ["groups"],
        pytest.param(["sql", "FROM range(100000)"], marks=pytest.mark.long),
        pytest.param(["--help"], marks=pytest.mark.long),
        ["timeline", "payments", "--output", "json"],
    ],
)
def test_an_answer_that_finds_no_room_is_told(folder, question):
    env = {**os.environ, "COORDINATOR_REPLAY_WAREHOUSE": str(folder)}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, *question], stdout=full, stderr=subprocess.PIPE, text=True, env=env, timeout=120
        )
    assert done.returncode == 1
    assert done.stderr == "Error: the answer could not be written: No space left on device\n"


EVERY_ANSWER = [
    ["groups", "--deleted"],
    ["describe", "payments"],
    ["timeline", "payments", "--members"],
    ["rebalances", "--output", "csv"],
    ["why", "payments"],
    ["owner", "payments", "orders", "0"],
    ["offsets", "payments"],
    ["offsets", "payments", "--history", "orders"],
    ["expired"],
    ["findings"],
    ["sql", "--list"],
    ["sql", "--query", "rebalance-storms"],
    ["report", "payments", "--out", "page.html", "--output", "json"],
    ["trace", "payments", "--out", "trace.json", "--output", "json"],
    ["what-if", "--list-settings"],
    ["maintain"],
    ["decode", Sample("transactions").segments],
    ["audit", "--help"],
    ["--version"],
]


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("question", EVERY_ANSWER, ids=" ".join)
def test_every_answer_that_finds_no_room_is_told(folder, tmp_path, question):
    env = {**os.environ, "COORDINATOR_REPLAY_WAREHOUSE": str(folder)}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, *question], stdout=full, stderr=subprocess.PIPE, text=True, env=env, cwd=tmp_path, timeout=120
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "Error: the answer could not be written: No space left on device"
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("option", [("report", "--out"), ("trace", "--out"), ("offsets", "payments", "--reset-file")])
def test_a_file_that_finds_no_room_is_told(folder, option):
    result = CliRunner().invoke(main, [*option, "/dev/full", "--warehouse", str(folder)])
    assert result.exit_code in (1, 2)
    assert result.stderr.splitlines()[-1].startswith("Error: /dev/full can't be written: No space left on device")


@pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX")
@pytest.mark.parametrize("closed", rest_at_night([">&-", "2>&-", "<&-", ">&- 2>&- <&-"], ["2>&-", ">&- 2>&- <&-"]))
def test_standard_streams_may_be_closed(folder, tmp_path, closed):
    command = f'exec "$0" -P -m coordinator_replay decode "$1" {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, Sample("transactions").segments],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=120,
    )
    assert done.returncode == 0
    assert "Error" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_enough_is_no_error(folder):
    command = [*PROGRAM, "sql", "FROM range(200000)", "--warehouse", str(folder), "--output", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(60) == 0


@pytest.mark.skipif(os.name != "posix", reason="a pipe of POSIX")
@pytest.mark.parametrize(
    "question",
    rest_at_night([["--help"], ["groups"], ["findings", "--help"], ["sql", "--list"]], [["--help"], ["sql", "--list"]]),
)
def test_a_reader_that_left_before_the_answer_ends_it_in_the_same_way(folder, question):
    read, write = os.pipe()
    os.close(read)
    env = {**os.environ, "COORDINATOR_REPLAY_WAREHOUSE": str(folder)}
    done = subprocess.run([*PROGRAM, *question], stdout=write, stderr=subprocess.PIPE, text=True, env=env, timeout=60)
    os.close(write)
    assert done.returncode == 0
    assert "Error" not in done.stderr


def test_an_error_keeps_its_code_where_nobody_reads_it(folder):
    read, write = os.pipe()
    os.close(read)
    env = {**os.environ, "COORDINATOR_REPLAY_WAREHOUSE": str(folder)}
    asked = [*PROGRAM, "describe", "nobody"]
    done = subprocess.run(asked, stdout=write, stderr=write, env=env, timeout=60)
    os.close(write)
    assert done.returncode == 2


@pytest.mark.parametrize("path", ["", " ", "a%20b", "a\\b", "a\nb", "a[b"])
@pytest.mark.parametrize("command", [["groups"], ["audit", "dump"], ["maintain"]])
def test_a_warehouse_that_not_all_readers_find_is_refused(path, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dump").mkdir()
    result = CliRunner().invoke(main, [*command, "--warehouse", path])
    assert result.exit_code == 2
    assert "the path of" in result.output
    assert [one.name for one in tmp_path.iterdir()] == ["dump"]


@pytest.mark.parametrize(
    "name",
    rest_at_night(["a b", "a#b", "a?b", "a*b", "a[b]", "größe", "a'b", "100%", "a:b"], ["a?b", "a[b]", "größe"]),
)
def test_a_warehouse_of_any_other_name_is_found(folder, tmp_path, name):
    (tmp_path / name).symlink_to(folder)
    result = CliRunner().invoke(main, ["groups", "--warehouse", str(tmp_path / name)])
    assert result.exit_code == 0, result.output
    assert "payments" in result.output


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_in_a_long_statement_is_told(folder, tmp_path):
    statement = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
    running = subprocess.Popen(
        [*PROGRAM, "sql", statement, "--warehouse", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        # Whatever started the tests in the background may have made them deaf to it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        time.sleep(3)
        for _ in range(6):
            # What a library interrupts while it is imported is lost; a user presses it again.
            running.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                running.wait(10)
                break
        out, told = running.communicate(timeout=1)
    finally:
        running.kill()
    assert (running.returncode, out, told) == (130, "", "Error: interrupted\n")
    assert list(tmp_path.iterdir()) == []


_PRESSED_AFTER = """
import atexit, runpy, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
# Where Python ends, it has no handlers any more.
atexit.register(signal.setitimer, signal.ITIMER_PROF, 0)
signal.setitimer(signal.ITIMER_PROF, float(sys.argv.pop(1)))
runpy.run_module("coordinator_replay", run_name="__main__", alter_sys=True)
"""
"""Presses Ctrl-C after so many seconds of CPU: the same moments on every machine, however much it does beside."""


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("question", [["sql", "--query", "rebalance-storms"], ["why", "payments"], ["metrics"]])
def test_ctrl_c_at_any_moment_is_told_and_nothing_else_is(folder, tmp_path, question):
    """DuckDB's binding complains of what is still there when Python ends."""
    command = [sys.executable, "-P", "-c", _PRESSED_AFTER]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    codes = set()
    for hundredths in range(10, 100, 6):
        asked = [f"{hundredths / 100}", *question, "--warehouse", str(folder)]
        done = subprocess.run([*command, *asked], capture_output=True, text=True, env=env, timeout=120)
        codes.add(done.returncode)
        assert (done.returncode == 130) == done.stderr.endswith("Error: interrupted\n"), (hundredths, done.stderr)
        assert not re.search("nanobind|leaked|Traceback", done.stderr), (hundredths, done.stderr)
    assert codes <= {0, 130}
    assert 130 in codes
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["INTERVAL 9999999 YEAR", "[INTERVAL 9999999 YEAR]"])
def test_a_value_that_python_can_not_hold_is_told(folder, value):
    result = CliRunner().invoke(main, ["sql", f"SELECT {value} AS a", "--warehouse", str(folder)])
    assert result.exit_code == 2
    assert "too large to be shown: cast its column to VARCHAR" in result.stderr
    shown = CliRunner().invoke(main, ["sql", f"SELECT ({value})::VARCHAR AS a", "--warehouse", str(folder)])
    assert "9999999 years" in shown.stdout


TIMES = [
    "TIMESTAMPTZ '12026-11-20'",
    "TIMESTAMP 'infinity'",
    "DATE '12026-11-20'",
    "DATE '-infinity'",
    "[TIMESTAMP '12026-11-20']",
    "{'x': TIMESTAMPTZ '12026-11-20'}",
    "MAP {'k': TIMESTAMP '0044-03-15 (BC)'}",
    "TIME '24:00:00'",
    "TIMESTAMP_S '290000-01-01'",
]


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_times_that_no_calendar_has_are_shown_in_every_form(folder, form):
    result = CliRunner().invoke(
        main, ["sql", f"SELECT {', '.join(TIMES)}", "--output", form, "--wide", "--warehouse", str(folder)]
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.count("12026") >= 4


class Held:
    """What a function has in a variable, such as a connection."""


@pytest.fixture
def hears_ctrl_c():
    """Python's own handler of Ctrl-C: a shell that starts the tests in the background makes them deaf to it."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("is_command", [True, False])
@pytest.mark.parametrize("what_the_library_makes_of_it", [KeyboardInterrupt, ValueError])
def test_ctrl_c_leaves_nothing_in_the_variables_of_what_it_ended(is_command, what_the_library_makes_of_it, capsys):
    seen = []

    def run():
        held = Held()
        seen.append(ref(held))
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as problem:
            raise what_the_library_makes_of_it from problem

    with pytest.raises(SystemExit) as ended:
        GuardedCommand("x", callback=run).main(args=[]) if is_command else guarded(run)
    assert ended.value.code == 130
    assert seen[0]() is None
    assert capsys.readouterr().err == "Error: interrupted\n"


class Finalized:
    """What presses Ctrl-C when it goes, where Python discards every exception."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def drop_object():
    held = Finalized()
    del held


def drop_callback():
    held = Held()
    _reference = ref(held, lambda _: signal.raise_signal(signal.SIGINT))
    del held


def sort_interrupted():
    """Sort by a key that drops such an object: Python code that a library written in C calls."""
    sorted([1], key=lambda number: drop_object() or number)


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("is_waiting", [True, False])
@pytest.mark.parametrize("drop", [drop_object, drop_callback, sort_interrupted])
def test_ctrl_c_that_hits_a_finalizer_is_not_lost(drop, is_waiting, capsys):
    before = sys.unraisablehook

    def run():
        drop()
        until = time.monotonic() + 30
        while time.monotonic() < until:
            time.sleep(30) if is_waiting else None
        raise AssertionError("Ctrl-C was lost")

    with pytest.raises(SystemExit) as ended:
        guarded(run)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Error: interrupted\n"
    assert sys.unraisablehook is before


def test_another_exception_in_a_finalizer_is_told_as_python_tells_it(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    class Failing:
        def __del__(self):
            raise ValueError("no")

    def run():
        held = Failing()
        del held

    guarded(run)
    assert [discarded.exc_type for discarded in told] == [ValueError]
