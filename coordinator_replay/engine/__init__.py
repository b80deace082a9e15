"""State machines of the group coordinator: records of one group go in, events come out.

Two rules hold in this package. No code outside the package changes the state of a group. The package uses only the
standard library: no files, no clock, no randomness, no logging.
"""
