"""What would have been: the recorded life of a group, lived again under other settings.

The life (``script``) is taken from the group's records: who came and went, when, and when topics changed. Simulated
consumers (``clients``) live it against our own coordinator (``simulate``); the records that it writes are folded into
the same tables as the recorded ones (``measure``). ``fidelity`` compares the life under its own settings with the
record first. ``answer`` puts all of it together.

Pure Python: no I/O, no clock, no randomness. The same records and settings give the same answer.
"""
