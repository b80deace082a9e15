"""Questions that are ready to ask: the files of ``conf/queries``, each a line of explanation and a SELECT."""

import itertools
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from coordinator_replay.errors import DefinitionError, UsageError
from coordinator_replay.query.warehouse import nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyQuery:
    """A question by name.

    Attributes:
        about: what it answers, in a sentence.
        sql: a SELECT in DuckDB's SQL; ``$cluster`` in it is the cluster asked about.
    """

    name: str
    about: str
    sql: str


def queries_folder() -> Path:
    """Where the files lie: inside the installed package, or beside it in a checkout.

    Raises:
        DefinitionError: neither place has them; the installation is broken.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "queries", package.parent / "conf" / "queries"):
        if folder.is_dir():
            return folder
    raise DefinitionError("the ready queries under conf/queries are missing: install the package again")


def _read(path: Path) -> ReadyQuery:
    lines = path.read_text(encoding="utf-8").splitlines()
    about = [line.removeprefix("--").strip() for line in itertools.takewhile(lambda line: line.startswith("--"), lines)]
    sql = "\n".join(lines[len(about) :]).strip()
    if not about or not sql.startswith(("SELECT", "WITH")):
        raise DefinitionError(f"{path.name}: a ready query is a comment that says what it answers, and a SELECT")
    return ReadyQuery(name=path.stem, about=" ".join(about), sql=sql)


@cache
def ready_queries() -> dict[str, ReadyQuery]:
    """All ready queries by name.

    Raises:
        DefinitionError: a file breaks the form.
    """
    return {path.stem: _read(path) for path in sorted(queries_folder().glob("*.sql"))}


def ready_query(name: str) -> ReadyQuery:
    """The ready query of that name.

    Raises:
        UsageError: there is none.
    """
    known = ready_queries()
    if name not in known:
        near = nearest(name, list(known))
        hint = f"did you mean {near[0]}?" if near else "coordinator-replay sql --list shows them"
        raise UsageError(f"no ready query is called {name!r}: {hint}")
    return known[name]
