"""The documentation holds together: made pages are fresh, commands in it can be typed, links lead somewhere."""

import re
import shlex
import subprocess
import sys
from html import unescape
from pathlib import Path

import click
import pytest

from coordinator_replay.cli import option_types
from coordinator_replay.cli.main import main
from coordinator_replay.query.saved import saved_queries
from coordinator_replay.tables.definition import table

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BESIDE = [page for folder in ("examples", "schemas", "scripts") for page in sorted((ROOT / folder).rglob("README.md"))]
READ = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *BESIDE, *PAGES]
"""Whatever somebody types from: the pages, and what lies beside examples, schemas and scripts."""
BLOCK = re.compile(r"^ *```(?:sh|console)?\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def test_made_pages_are_those_of_the_definitions():
    # In a process of its own: click keeps a command's first help option, and other tests have asked for other ones.
    script = ROOT / "scripts" / "docs" / "write_pages.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), f"run scripts/write-docs: {done.stderr}"


def code_blocks(page: Path, language: str) -> list[str]:
    """The blocks of a page that are code of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def typed_commands() -> list[tuple[str, list[str]]]:
    found = []
    for path in READ:
        for block in BLOCK.findall(path.read_text(encoding="utf-8")):
            for line in re.sub(r"\\\n\s*", " ", block).splitlines():
                words = shlex.split(line.removeprefix("$ "), comments=True) if "coordinator-replay" in line else []
                if words and words[0].endswith("coordinator-replay"):
                    end = next((place for place, word in enumerate(words) if word in ("|", ">")), len(words))
                    found.append((path.name, words[1:end]))
    return found


@pytest.mark.parametrize(
    ("page", "words"), typed_commands(), ids=lambda value: " ".join(value) if isinstance(value, list) else value
)
def test_commands_in_the_documents_can_be_typed(page: str, words: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COORDINATOR_REPLAY_WAREHOUSE", "warehouse")
    command = main.commands[words[0]]
    # Files and folders that are only spoken of do not exist here; everything else must be as the program wants it.
    monkeypatch.setattr(option_types, "check_folder", lambda path: None)
    for parameter in command.params:
        if isinstance(parameter.type, click.Path):
            monkeypatch.setattr(parameter.type, "exists", False)
    context = command.make_context(words[0], words[1:])
    if words[0] == "sql" and context.params["name"]:
        assert context.params["name"] in saved_queries()


def shell_blocks() -> list[tuple[str, str]]:
    return [
        (path.name, block)
        for path in READ
        for block in re.findall(r"^ *```sh\n(.*?)^ *```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    ]


@pytest.mark.parametrize(("page", "block"), shell_blocks())
def test_what_is_typed_is_taken_by_a_shell_and_its_programs_are_there(page: str, block: str):
    taken = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
    assert (taken.returncode, taken.stderr) == (0, ""), page
    for line in re.sub(r"\\\n\s*", " ", block).splitlines():
        # A comment has blanks around its sign; the name of an archive has none.
        words = shlex.split(re.sub(r"(^|\s)#\s.*", "", line))
        if words and words[0].startswith("scripts/"):
            assert (ROOT / words[0]).stat().st_mode & 0o100, words[0]
        if words and words[0] == "spark-submit" and "…" not in line:
            job = next(place for place, word in enumerate(words) if word.startswith("jobs/"))
            assert (ROOT / words[job]).exists()
            command = Path(words[job]).stem
            assert main.commands[command].make_context(command, words[job + 1 :])
        for named in re.findall(r"(?<![\w/.-])conf/[\w./-]+", line):
            assert (ROOT / named).exists(), named


def test_the_cookbook_answers_every_question():
    text = (DOCS / "cookbook.md").read_text(encoding="utf-8")
    parts = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    assert [int(part.split(".")[0]) for part in parts] == list(range(1, len(parts) + 1))
    for part in parts:
        assert "coordinator-replay " in part, part.splitlines()[0]


def test_every_question_of_the_cookbook_is_asked_of_a_recorded_dump():
    """Its answer is held against the broker's own in tests/acceptance; what-if has a page that judges it."""
    text = (DOCS / "cookbook.md").read_text(encoding="utf-8")
    acceptance = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "acceptance").glob("*.py"))
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        asked = re.findall(r"coordinator-replay (?:sql --query )?([a-z-]+)", part)
        assert (
            any(re.search(f'"(?:sql --query )?{one}"', acceptance) for one in asked if one != "what-if")
            or "what-if" in asked
        ), part[:80]


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^):]+\.(?:md|json))(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def links(page: Path) -> set[Path]:
    """Pages of the documentation that a page links to."""
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    return {found for target in targets if "://" not in target and (found := (page.parent / target).resolve()) in PAGES}


def test_every_page_is_two_clicks_from_the_start_at_most():
    once = links(DOCS / "index.md")
    reached = once.union(*map(links, once)) | {DOCS / "index.md"}
    assert {str(page.relative_to(DOCS)) for page in PAGES} - {str(page.relative_to(DOCS)) for page in reached} == set()


def test_the_site_names_every_page():
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    unnamed = {str(page.relative_to(DOCS)) for page in PAGES if page.parent == DOCS} - named
    assert unnamed == set()


@pytest.mark.long
def test_the_site_is_built_without_complaint(tmp_path: Path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cookbook" / "index.html").exists()
    columns = (tmp_path / "tables" / "member_timeline" / "index.html").read_text(encoding="utf-8")
    assert table("member_timeline").columns[-1].about in unescape(columns)
    # Its methods are inherited: without the option of docs/api.md the page would not have them.
    assert 'id="coordinator_replay.api.Warehouse.rebalances"' in (tmp_path / "api" / "index.html").read_text("utf-8")
    assert "schemas/tables" not in (tmp_path / "audit" / "index.html").read_text(encoding="utf-8").split("<article")[1]
