"""Writes the pages that are made from the program's own definitions: tables, saved queries, commands, simulation."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import simulation_page

from coordinator_replay.cli.main import main
from coordinator_replay.query.saved import SavedQuery, saved_queries
from coordinator_replay.tables.definition import tables
from coordinator_replay.tables.views import views

DOCS = Path(__file__).resolve().parents[2] / "docs"

_MADE = "Made by `scripts/write-docs` from {source}; a test checks that both agree.\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _tables_index() -> str:
    lines = [
        "# The tables",
        "",
        "A warehouse is a folder of Delta tables. Each link leads to the definition of a table, which explains its",
        "columns. `DESCRIBE TABLE` explains them, too: in Spark, or in a terminal with `coordinator-replay sql`.",
        "",
    ]
    lines += [_MADE.format(source="`schemas/tables`"), "| table | rows |", "|---|---|"]
    lines += [
        f"| [{name}](../../schemas/tables/{name}.json) | {_cell(table.about)} |" for name, table in tables().items()
    ]
    lines += [
        "",
        "- An interval begins at `valid_from` and ends just before `valid_to`. If it has not ended at the end of the",
        "  log, `valid_to` is null.",
        "- Times are UTC. Durations are in milliseconds.",
        "- `is_exact = false` means that records are missing, so the log does not prove the row.",
        "",
        "## Views",
        "",
    ]
    lines += [f"- `{name}`: {view.about}" for name, view in views().items()]
    return "\n".join([*lines, ""])


def _parameters(query: SavedQuery) -> list[str]:
    lines = [
        f"- `{parameter.name}` ({parameter.type}{f', default {parameter.default}' if parameter.default else ''}): "
        f"{parameter.about}"
        for parameter in query.parameters
    ]
    return ["Parameters:", "", *lines, ""] if lines else []


def _note(query: SavedQuery) -> list[str]:
    return [query.note, ""] if query.note else []


def _next(query: SavedQuery) -> list[str]:
    return [f"Next: {query.then}", ""] if query.then else []


def _queries_page() -> str:
    lines = [
        "# Saved queries",
        "",
        "A saved query is an SQL statement with a name. `coordinator-replay sql --query NAME --param NAME=VALUE` runs",
        "it, and `sql --list` lists all saved queries. Each of them is a file in `conf/queries` that you can copy and",
        "change. The first lines of the file describe the query and its parameters. `$cluster` in the statement",
        "stands for the cluster that `--cluster` names. Write times as in all commands.",
        "",
    ]
    lines += [_MADE.format(source="`conf/queries`")]
    for name, query in saved_queries().items():
        lines += [f"## {name}", "", query.about, "", *_note(query), *_parameters(query), *_next(query)]
        lines += ['??? note "The statement"', ""]
        lines += [*(f"    {line}".rstrip() for line in ("```sql", *query.sql.splitlines(), "```")), ""]
    return "\n".join(lines)


def _help(command: click.Command) -> str:
    program = main.make_context("coordinator-replay", [], resilient_parsing=True)
    context = click.Context(command, program, command.name, max_content_width=100, terminal_width=100)
    return command.get_help(context)


def _commands_page() -> str:
    lines = ["# The commands", "", "`coordinator-replay COMMAND --help` prints the same texts.", ""]
    lines += [_MADE.format(source="the program's own help")]
    for name in sorted(main.commands):
        lines += [
            f"## {name}",
            "",
            "```text",
            *(line.rstrip() for line in _help(main.commands[name]).splitlines()),
            "```",
            "",
        ]
    return "\n".join(lines)


def pages() -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of every generated page."""
    yield DOCS / "tables" / "index.md", _tables_index()
    yield DOCS / "queries.md", _queries_page()
    yield DOCS / "commands.md", _commands_page()
    yield DOCS / "simulate.md", simulation_page.write()


def stale_pages() -> list[Path]:
    """Return the pages that are missing or out of date."""
    made = dict(pages())
    return sorted(page for page, text in made.items() if not page.exists() or page.read_text(encoding="utf-8") != text)


if __name__ == "__main__":
    stale = stale_pages()
    for page in stale:
        sys.stdout.write(f"{page.relative_to(DOCS)}\n")
    if "--check" in sys.argv:
        sys.exit(bool(stale))
    made_now = dict(pages())
    for page in stale:
        page.write_text(made_now[page], encoding="utf-8")
