"""The sessions in the documents are what the program says: typed again on the bundled demo, they come out the same."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.spark
def test_sessions_in_the_documents_are_what_the_program_says(tmp_path: Path):
    spec = importlib.util.spec_from_file_location("record_session", ROOT / "scripts" / "docs" / "record_session.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    warehouse = tmp_path / "demo-warehouse"
    demo = [sys.executable, "-m", "coordinator_replay", "demo", "--warehouse", str(warehouse)]
    done = subprocess.run(demo, check=True, capture_output=True, text=True)
    check_summary((ROOT / "docs" / "demo.md").read_text(encoding="utf-8"), done.stdout)
    for document in module.DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        assert "$ coordinator-replay" in text
        assert module.recorded(text, warehouse, tmp_path) == text, "run scripts/record-session"


def check_summary(document: str, printed: str) -> None:
    """The end of an audit stands in the document line by line, in order, but for what an ellipsis stands for."""
    (shown,) = re.findall(r"^```\n(Read .*?)^```", document, re.MULTILINE | re.DOTALL)
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        assert line.strip() == "…" or line in lines, f"docs/demo.md: {line}"
