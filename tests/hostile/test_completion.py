"""TAB in real shells: a name of a group becomes one word of the line, and nothing of it is run or expanded."""

import os
import pty
import select
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from coordinator_replay.cli.shells import bash_quoted
from tests.query.small_warehouse import event, write_rows, write_small_warehouse

NAMES = [
    "a0-$(touch MARK)",
    "a1-`touch MARK`",
    "a2-;touch MARK;",
    "a3 with blanks 'and' \"quotes\"",
    "a4-*",
    "a5-{x,y}[a-z]?~&|<>#!\\",
    "a6-,a,b",
    "a7-größe-名前",
    "a8:colon=equals@at",
]
UNSEEN = ["u0-\ntouch MARK", "u1-\x1b[2J", "u2-\x07", "u3-\u202egnp", "", "u4-\ttab"]

SHELLS = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        'eval "$(_COORDINATOR_REPLAY_COMPLETE=bash_source coordinator-replay)"',
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        'autoload -U compinit; compinit -u -D; eval "$(_COORDINATOR_REPLAY_COMPLETE=zsh_source coordinator-replay)"',
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        "env _COORDINATOR_REPLAY_COMPLETE=fish_source coordinator-replay | source",
    ),
}

PROGRAM = """#!/bin/sh
if [ -n "$_COORDINATOR_REPLAY_COMPLETE" ]; then {python} -P -m coordinator_replay "$@"; touch "{folder}/asked"; exit; fi
for one in "$@"; do printf '%s\\0' "$one"; done > "{folder}/given.new"
mv "{folder}/given.new" "{folder}/given"
"""


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, name: str, folder: Path) -> None:
        command, setup = SHELLS[name]
        self.folder = folder
        env = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TERM": "dumb",
            "LC_ALL": "C.UTF-8",
            "PS1": "> ",
            "COORDINATOR_REPLAY_WAREHOUSE": str(folder / "warehouse"),
        }
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder / "here")
            os.execvpe(command[0], command, env)
        self.wait(1)
        self.type(f"{setup}; touch {folder / 'ready'}\r")
        self.until(lambda: (folder / "ready").exists())

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def wait(self, quiet: float) -> str:
        """What it prints, until it has printed nothing for some time."""
        printed = b""
        while select.select([self.terminal], [], [], quiet)[0]:
            try:
                printed += os.read(self.terminal, 65536)
            except OSError:
                break
        return printed.decode(errors="replace")

    def until(self, is_so) -> None:
        late = time.monotonic() + 60
        while not is_so():
            assert time.monotonic() < late, self.wait(0.1)
            self.wait(0.1)

    def completed(self, start: str) -> list[str]:
        """The arguments that the program gets for a line after TAB and ENTER."""
        given, asked = self.folder / "given", self.folder / "asked"
        self.type(f"coordinator-replay describe {start}")
        self.wait(0.3)
        for file in (given, asked):
            file.unlink(missing_ok=True)
        self.type("\t")
        # The shell has the candidates when the program has ended, and then changes the line.
        self.until(asked.exists)
        self.wait(1.0)
        self.type("\r")
        self.until(given.exists)
        return given.read_text().split("\0")[:-1]

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("shells")
    write_small_warehouse(made / "warehouse")
    rows = [event(name, 0, "02:01", "GROUP_CREATED", ">Empty", epoch=1, member_count=0) for name in [*NAMES, *UNSEEN]]
    write_rows(made / "warehouse", "group_timeline", rows)
    (made / "here").mkdir()
    for name in ("a4-file", "a4-other", "a5"):
        (made / "here" / name).touch()
    (made / "bin").mkdir()
    program = made / "bin" / "coordinator-replay"
    program.write_text(PROGRAM.format(python=sys.executable, folder=made))
    program.chmod(0o755)
    return made


@pytest.mark.parametrize(
    ("name", "groups", "unseen"),
    [
        pytest.param("bash", NAMES[:4], 1, id="bash"),
        *(pytest.param(shell, NAMES, 4, id=f"all in {shell}", marks=pytest.mark.long) for shell in SHELLS),
    ],
)
def test_a_completed_name_is_one_argument_and_runs_nothing(name, groups, unseen, folder):
    if shutil.which(SHELLS[name][0][0]) is None:
        pytest.skip(f"no {name} here")
    (folder / "ready").unlink(missing_ok=True)
    shell = Shell(name, folder)
    try:
        for group in groups:
            assert shell.completed(group[:2]) == ["describe", group]
        for number in range(unseen):
            # Left out: what was typed stays as it is.
            assert shell.completed(f"u{number}") == ["describe", f"u{number}"]
        if name == "bash":
            # Bash reads no backslash behind this quote, so what would need one is not offered there.
            assert shell.completed("'a0'") == ["describe", "a0"]
    finally:
        shell.close()
    assert not list(folder.rglob("MARK"))


def test_quoted_names_keep_what_they_have_in_common():
    assert bash_quoted("pay-$(a)").startswith("pay-")
    assert bash_quoted("größe") == "größe"
