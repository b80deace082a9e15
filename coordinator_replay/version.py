"""Which release this is."""

__version__ = "0.3.0"
