"""Exports: the topic of a running cluster as a dump, once or continuously, and audits that follow an export."""
