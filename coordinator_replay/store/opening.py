"""Opening a table: its URI for the Delta library, and the check that this release can use it."""

# This module needs no pyarrow, so that questions start fast.

import re
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from coordinator_replay.errors import WarehouseError
from coordinator_replay.store.layout import BUCKETS_PROPERTY
from coordinator_replay.tables.migrations import SCHEMA_VERSION, check_version, version_of

_ENCODED = re.compile("%[0-9A-Fa-f]{2}")


def check_place(uri: str) -> None:
    """Check that a warehouse can be at a path or URI.

    Args:
        uri: the path or URI of the warehouse.

    Raises:
        WarehouseError: the Delta library would read another path.
    """
    path = str(Path(uri).absolute()) if "://" not in uri else uri
    if _ENCODED.search(unquote(uri) if uri.startswith("file://") else path):
        raise WarehouseError(
            f"{uri}: a path with a percent sign before two hexadecimal digits can't hold a warehouse, because the "
            f"Delta library reads these three as one character; choose another folder"
        )


def delta_uri(uri: str) -> str:
    """Return a path or URI in the form that ``deltalake`` opens.

    Special characters of a path are escaped, because ``deltalake`` reads a path like a URL.
    """
    return uri if "://" in uri else Path(uri).absolute().as_uri()


def open_table(path: str, version: int | None = None) -> DeltaTable | None:
    """Return a table at its newest version or at a given version; None if it does not exist.

    Args:
        path: the table's folder, as a path or URI.
        version: the version to open; None for the newest.

    Raises:
        WarehouseError: the folder can't be read as a Delta table, or another release has made the table.
    """
    try:
        opened = DeltaTable(delta_uri(path), version=version)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as problem:
        raise WarehouseError(f"{path} can't be read as a Delta table: {problem}") from problem
    check_layout(opened, path)
    return opened


def properties_of(opened: DeltaTable) -> dict[str, str]:
    """Return the properties of a table."""
    return {key: value for key, value in opened.metadata().configuration.items() if value is not None}


def check_layout(opened: DeltaTable, path: str) -> None:
    """Check that a table has the layout that this release reads and writes.

    Args:
        opened: the table.
        path: the table's path or URI, for the message of an error.

    Raises:
        WarehouseError: a newer release has made the table, or a release too old for this one.
    """
    properties = properties_of(opened)
    version = version_of(properties)
    check_version(version, path)
    if version < SCHEMA_VERSION or BUCKETS_PROPERTY not in properties:
        raise WarehouseError(
            f"{path} was written by an older release, whose layout this one does not know; audit the dump again into "
            f"a new warehouse"
        )
