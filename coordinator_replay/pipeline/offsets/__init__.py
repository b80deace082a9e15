"""Committed offsets: their history, pending commits, and why offsets were removed."""
