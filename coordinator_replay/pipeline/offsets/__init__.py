"""Committed offsets: their history, pending commits, causes of removed offsets, and expiry."""
