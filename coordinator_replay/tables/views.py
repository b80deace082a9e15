"""Views over the tables: the files of ``schemas/tables/views``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable
from types import MappingProxyType

from coordinator_replay.schemas_folder import schema_files

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view over the tables.

    Attributes:
        about: purpose of the view.
        sql: the SELECT statement, in SQL that both Spark and DuckDB read.
    """

    name: str
    about: str
    sql: str


def _read_view(path: Traversable) -> View:
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = (line.removeprefix("--").strip() for line in lines if line.startswith("--"))
    statement = "\n".join(line for line in lines if not line.startswith("--")).strip()
    return View(name=path.name.removesuffix(".sql"), about=" ".join(comment), sql=statement)


def words_of(statement: str) -> set[str]:
    """Return the words of a statement in lower case, including names of tables and views."""
    return {word.lower() for word in _WORD.findall(statement)}


def views_in(statement: str) -> list[View]:
    """Return the views that a statement needs, directly or through other views.

    Each view comes after the views that it uses.
    """
    words = words_of(statement)
    named = [view for name, view in views().items() if name in words]
    return list(dict.fromkeys(used for view in named for used in (*views_in(view.sql), view)))


@cache
def views() -> Mapping[str, View]:
    """Return all views over the tables by name."""
    read = map(_read_view, schema_files("tables/views", ".sql"))
    return MappingProxyType({view.name: view for view in read})
