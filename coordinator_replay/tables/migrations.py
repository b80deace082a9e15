"""The version of the table definitions that a table follows.

Each table has this version among its properties. A release refuses a table with another version. A new column that may
be null needs no new version: an audit adds the column when it opens the table. A larger change raises
``SCHEMA_VERSION``, for example if a column gets another type.
"""

from collections.abc import Mapping

from coordinator_replay.errors import WarehouseError

SCHEMA_VERSION_PROPERTY = "coordinatorReplay.schemaVersion"
"""Table property that holds the version of the table definitions that the table follows."""

KEPT_SINCE_PROPERTY = "coordinatorReplay.keptSince"
"""Table property: the time before which rows were purged; absent if no rows were purged."""

SCHEMA_VERSION = 2
"""The version that this release writes."""


def version_of(properties: Mapping[str, str]) -> int:
    """Return the version of the table definitions in a table's properties; 0 if the properties have no version.

    Raises:
        WarehouseError: the property holds no number.
    """
    written = properties.get(SCHEMA_VERSION_PROPERTY, "0")
    if not (written.isascii() and written.isdigit()):
        raise WarehouseError(f"the table property {SCHEMA_VERSION_PROPERTY} is {written!r}, which is no version")
    return int(written)


def check_version(version: int, place: str) -> None:
    """Make sure that this release knows the version of a table.

    Args:
        version: the version, as ``version_of`` returns it.
        place: path or URI of the table.

    Raises:
        WarehouseError: a newer release has written the table.
    """
    if version > SCHEMA_VERSION:
        raise WarehouseError(
            f"{place} was written by a newer release: it follows version {version} of the tables, and this release "
            f"knows version {SCHEMA_VERSION} and older; use the newer release"
        )
