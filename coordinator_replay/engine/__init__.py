"""Records of one group in, events out: the state machines of the group coordinator, and nothing else.

Two rules hold in this room. Every change of a group's state happens here. And nothing here knows where records come
from or who asks: no files, no clock, no randomness, no logging, only the standard library.
"""
