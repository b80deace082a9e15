"""Judges predictions of ``what-if`` by recorded samples."""
