"""Pages that only the site has: a page for each table, made from the table's definition.

The module is a hook of mkdocs. In the repository, links lead to the definitions themselves, which have the same texts.
"""

import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from coordinator_replay.tables.definition import Table, tables

_DEFINITION = re.compile(r"\]\((?:\.\./)+schemas/tables/(\w+)\.json\)")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _table_page(table: Table) -> str:
    head = [f"# {table.name}", "", table.about, "", f"Key: {', '.join(f'`{name}`' for name in table.keys)}."]
    if table.clustering:
        head.append(f"Files are clustered by: {', '.join(f'`{name}`' for name in table.clustering)}.")
    head += ["", "| column | type | meaning |", "|---|---|---|"]
    rows = [
        f"| `{column.name}` | {_cell(column.type)}{' NOT NULL' if column.is_required else ''} | {_cell(column.about)} |"
        for column in table.columns
    ]
    return "\n".join([*head, *rows, ""])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each table."""
    for name, table in tables().items():
        files.append(File.generated(config, f"tables/{name}.md", content=_table_page(table)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to definitions lead to the pages of the tables."""
    folder = "" if page.file.src_uri.startswith("tables/") else "tables/"
    return _DEFINITION.sub(rf"]({folder}\1.md)", markdown)
