"""What a warehouse remembers of the contract it was written by.

A column that is new in the contract is added to a table on its next write and needs nothing here. A change that is
more than that (a renamed or retyped column) raises the version, so that a release never writes by one contract into
a table made by another.
"""

SCHEMA_VERSION_PROPERTY = "coordinatorReplay.schemaVersion"
"""Table property that holds the version of the contract that the table follows."""

SCHEMA_VERSION = 1
"""The version that this release writes."""
