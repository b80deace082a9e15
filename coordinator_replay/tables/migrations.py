"""What a warehouse remembers of the contract it was written by, and how an older one is brought up to this release.

A table carries the version of the contract that it follows. A column that is new in the contract needs nothing here:
it is added whenever a table is opened to be written. A change that is more than that (a column whose values move to
another, a column of another type) raises ``SCHEMA_VERSION`` and stands in ``MIGRATIONS``. So no release writes by one
contract into a table made by another, and none touches a table that a newer release has made.

Version 0 is a table without the property: its columns are those of version 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coordinator_replay.errors import WarehouseError

SCHEMA_VERSION_PROPERTY = "coordinatorReplay.schemaVersion"
"""Table property that holds the version of the contract that the table follows."""

KEPT_SINCE_PROPERTY = "coordinatorReplay.keptSince"
"""Table property that holds the moment before which rows were given up; absent where all are kept."""

SCHEMA_VERSION = 1
"""The version that this release writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """How a table of one version becomes one of the next.

    One that was killed half-way is applied again, so it must come to the same when it is applied twice.

    Attributes:
        table: the table it changes.
        to_version: the version that the table follows afterwards; it was one less before.
        about: what changes, and why.
        statements: SQL that is run in this order; ``{table}`` stands for the table. Columns that are new in the
            contract are there already.
        values: for columns that change their type, the new value as an expression over the old row. The table is
            rewritten in one commit.
    """

    table: str
    to_version: int
    about: str
    statements: Sequence[str] = ()
    values: Mapping[str, str] = field(default_factory=dict)


MIGRATIONS: tuple[Migration, ...] = ()
"""Every migration there is; nothing has needed one since version 1."""


def version_of(properties: Mapping[str, str]) -> int:
    """The version of the contract that a table follows, by its properties.

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
        version: from ``version_of``.
        place: where the table lies.

    Raises:
        WarehouseError: a newer release has made it.
    """
    if version > SCHEMA_VERSION:
        raise WarehouseError(
            f"{place} was written by a newer release: it follows version {version} of the tables, and this release "
            f"knows version {SCHEMA_VERSION} and older; use the newer release"
        )


def steps(table: str, version: int, migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """What a table of some version still needs, in order.

    Args:
        table: its name.
        version: the version that it follows.
        migrations: those to choose from; ``MIGRATIONS`` if None.
    """
    chosen = [one for one in (MIGRATIONS if migrations is None else migrations) if one.table == table]
    return sorted((one for one in chosen if one.to_version > version), key=lambda one: one.to_version)
