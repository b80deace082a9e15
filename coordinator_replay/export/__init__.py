"""Exports: the topic of a running cluster as a dump, once or going on, and audits that follow one."""
