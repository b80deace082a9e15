"""Answers from the tables, without a JVM: Delta's log is read by deltalake, the files by DuckDB."""
