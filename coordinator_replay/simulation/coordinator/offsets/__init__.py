"""Offsets: commits, fetches, and their removal. Mirrors ``OffsetMetadataManager``."""
