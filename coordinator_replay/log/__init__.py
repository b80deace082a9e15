"""Bytes of log segments → Arrow columns: ``read_segment`` is the door, ``LOG_RECORD`` the shape of what comes out."""
