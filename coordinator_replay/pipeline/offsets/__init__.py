"""Committed offsets: their history, what waits for a marker, why offsets were removed, and what expires."""
