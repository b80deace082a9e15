"""The version of this release."""

__version__ = "0.13.0"
