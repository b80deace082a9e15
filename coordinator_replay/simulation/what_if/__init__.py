"""What-if: a recorded group run again under other settings.

``record`` has the group's records as operations. ``recorded_clients`` and ``script`` have the times at which clients
came and went. Simulated ``clients`` come and go at these times against the simulated coordinator (``run``). The
coordinator's records become rows of the same tables as the recorded ones (``outcome``, ``measures``). ``compare``
measures how well a run under the recorded settings reproduces the record. ``ranges`` tries other values of everything
that the record leaves open.
``answer`` makes the answer from all of these.

Plain Python: no I/O, no clock, no randomness. The same records and settings give the same answer.
"""
