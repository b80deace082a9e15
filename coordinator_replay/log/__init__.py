"""Conversion of log segments to Arrow columns: ``read_segment`` reads a file, ``LOG_RECORD`` has the columns."""
