"""Committed offsets: how they are committed, fetched and removed. Mirrors ``OffsetMetadataManager``."""
