"""Reading a dump: finding its new parts, decoding them, and counting records."""
