"""The names of the tables, for code that must be fast: no definition is parsed, and nothing large is imported."""

from functools import cache

from coordinator_replay.schemas_folder import schema_files


@cache
def table_names() -> tuple[str, ...]:
    """Return the names of all defined tables, sorted."""
    return tuple(file.name.removesuffix(".json") for file in schema_files("tables", ".json"))
