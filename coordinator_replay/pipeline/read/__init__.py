"""Reading a dump: what is new in it, decoding, and counts of what was read."""
