"""The version of this release."""

__version__ = "0.11.0"
