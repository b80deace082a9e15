"""State machines of the group coordinator: records of one group go in, events come out.

Two rules hold in this room. Every change of a group's state happens here. The code uses only the standard library: no
files, no clock, no randomness, no logging.
"""
