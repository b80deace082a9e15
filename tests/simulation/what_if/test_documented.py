"""The example of the page *What if* is what the command prints of the recording."""

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from coordinator_replay.cli.main import main
from tests.simulation.what_if.variants import write_variants

PAGE = Path(__file__).parents[3] / "docs" / "what-if.md"


def test_the_example_is_what_the_command_prints(tmp_path: Path) -> None:
    block = re.search(r"^```text\n\$ coordinator-replay (.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert block is not None
    command, printed = re.split(r"(?<!\\)\n", block[1], maxsplit=1)
    arguments = [*shlex.split(command.replace("\\\n", " ")), "--warehouse", str(write_variants(tmp_path))]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    # Standard output and notes, as a terminal shows them.
    shown = [line for line in result.output.splitlines() if not line.startswith("cluster ")]
    assert shown == printed.splitlines()
