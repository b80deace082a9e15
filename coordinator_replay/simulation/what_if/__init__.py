"""What-if: a recorded group run again under other settings.

``record`` has the group's records as operations; ``recorded_clients`` and ``script`` have who came and went when.
Simulated ``clients`` act that out against the simulated coordinator (``run``). The records that it writes become the
same rows as the recorded ones (``outcome``, ``measures``). ``compare`` says how well a run under the recorded settings
reproduces the record, and ``ranges`` tries what the record leaves open. ``answer`` puts all of it together.

Plain Python: no I/O, no clock, no randomness. The same records and settings give the same answer.
"""
