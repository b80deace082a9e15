"""What ``SHOW TABLES`` and ``DESCRIBE`` answer: the names, types and comments of the table contract.

The embedded engine only knows the tables that a statement names, and none of their comments; the definitions know all.
"""

import re
from typing import Any

from coordinator_replay.errors import UsageError
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.tables.names import table_names
from coordinator_replay.tables.views import views

_SHOW_TABLES = re.compile(r"\s*SHOW\s+(?:ALL\s+)?(?:TABLES|VIEWS)\s*;?\s*", re.IGNORECASE)
_DESCRIBE = re.compile(
    r"\s*(?:(?:DESCRIBE|DESC)(?:\s+TABLE)?|SHOW\s+COLUMNS\s+(?:FROM|IN))\s+\"?([A-Za-z_]\w*)\"?\s*;?\s*", re.IGNORECASE
)

Answer = tuple[list[str], list[tuple[Any, ...]]]


def unknown_table(name: str) -> UsageError:
    """What to say of a table that the contract does not have."""
    names = [*table_names(), *views()]
    hint = did_you_mean(name, names, f"there are {', '.join(names)}")
    return UsageError(f"no table is called {name}: {hint}")


def _tables() -> Answer:
    # Definitions ask for pyarrow, which most statements do without.
    from coordinator_replay.tables.definition import tables

    rows = [(table.name, "table", table.about) for table in tables().values()]
    rows += [(view.name, "view", view.about) for view in views().values()]
    return ["name", "kind", "comment"], sorted(rows)


def _columns(name: str) -> Answer:
    from coordinator_replay.tables.definition import table

    columns = table(name).columns
    return (
        ["column", "type", "required", "comment"],
        [(column.name, column.type, column.is_required, column.about) for column in columns],
    )


def catalog_answer(statement: str) -> Answer | None:
    """The answer to a statement about the tables themselves, None for every other statement.

    Raises:
        UsageError: a table to be described does not exist.
    """
    if _SHOW_TABLES.fullmatch(statement):
        return _tables()
    described = _DESCRIBE.fullmatch(statement)
    if described is None:
        return None
    name = described[1].lower()
    if name in views():
        # A view has no columns of its own: the engine knows those of its SELECT.
        return None
    if name not in table_names():
        raise unknown_table(described[1])
    return _columns(name)
