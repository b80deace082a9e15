"""Bytes of log segments to Arrow columns: ``read_segment`` is the entrance, ``LOG_RECORD`` is the shape of its rows."""
