"""The documents say what the program is."""

import importlib.util
import re
from pathlib import Path

import click
import pytest
from PIL import Image

from coordinator_replay.cli.main import main
from coordinator_replay.cli.options import read_config
from coordinator_replay.tables.definition import tables

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
INTERNAL = {"log_copies", "group_state", "group_evidence", "removed_offsets", "commit_totals"}
"""Tables that are not part of the contract."""


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_findings_is_that_of_the_rules_and_the_list():
    module = script("write_findings")
    assert module.DOCUMENT.read_text(encoding="utf-8") == module.write(), "run scripts/document-findings"


def test_state_diagrams_are_those_of_the_table_of_transitions(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts" / "docs")
    module = script("draw_states")
    assert module.DOCUMENT.read_text(encoding="utf-8") == module.draw(), "run scripts/draw-states"


@pytest.mark.parametrize("name", sorted(set(tables()) - INTERNAL))
def test_every_table_that_is_filled_stands_among_what_an_audit_writes(name):
    assert f"`{name}`" in (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_has_help_and_stands_among_what_they_answer(name):
    assert main.commands[name].help
    assert f"`{name}`" in (ROOT / "docs" / "which-command.md").read_text(encoding="utf-8")


def test_the_readme_fits_on_two_screens():
    shown = [line for line in README.splitlines() if line.strip()]
    assert len(shown) <= 60
    assert len(re.findall(r"^## ", README, re.MULTILINE)) <= 3


def test_the_readme_shows_one_reason_and_one_picture():
    assert re.findall(r"^\$ coordinator-replay (\w+)", README, re.MULTILINE) == ["why"]
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    with Image.open(ROOT / picture) as opened:
        assert opened.width >= 1000
    assert (ROOT / picture).stat().st_size < 300_000


def test_files_that_the_readme_links_to_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


def test_no_document_names_this_machine():
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "schemas").rglob("*.md")]:
        text = path.read_text(encoding="utf-8")
        assert "/work/" not in text
        assert "/root/" not in text


@pytest.mark.parametrize("command", ["audit", "export", "maintain"])
def test_the_sample_configuration_explains_every_option(command):
    top, *sections = re.split(r"^\[([a-z]+)\]$", (ROOT / "conf" / "audit.toml").read_text("utf-8"), flags=re.MULTILINE)
    own = dict(zip(sections[::2], sections[1::2], strict=True))[command]
    named = {text: set(re.findall(r"^(?:# )?([a-z-]+) = ", text, re.MULTILINE)) for text in (top, own)}
    options = {
        option.opts[0].removeprefix("--") for option in main.commands[command].params if option.opts[0][:2] == "--"
    }
    assert named[own] == options - named[top] - {"config", "help", "verbose", "json"}


@pytest.mark.parametrize("command", ["audit", "export", "maintain"])
def test_the_sample_configuration_is_accepted(command):
    with click.Context(main, info_name="coordinator-replay") as parent:
        context = click.Context(main.commands[command], info_name=command, parent=parent)
        assert read_config(ROOT / "conf" / "audit.toml", context)["output"] == "table"
