"""Records of one group in, events out: the state machines of the group coordinator, and nothing else.

Two rules hold in this room. Whatever changes the state of a group happens here, and nothing here knows where records
come from or who asks: no files, no clock, no randomness, no logging, the standard library only.
"""
