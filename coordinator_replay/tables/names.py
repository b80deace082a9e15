"""The names of the tables alone, for those who must answer fast: no definition is parsed, nothing heavy imported."""

from functools import cache

from coordinator_replay.schemas_folder import schemas_folder


@cache
def table_names() -> tuple[str, ...]:
    """Names of all tables of the contract, sorted."""
    return tuple(sorted(path.stem for path in (schemas_folder() / "tables").glob("*.json")))
