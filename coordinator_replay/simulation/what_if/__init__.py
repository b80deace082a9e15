"""What-if: the simulation of a recorded group under other settings.

The modules, in the order of their work:

* ``record`` turns the group's records into operations, and infers the settings that the group had;
* ``recorded_clients`` and ``script`` find the times at which clients came and went;
* ``run`` lets simulated ``clients`` come and go at these times, and send requests to the simulated coordinator;
* ``outcome`` and ``measures`` turn the coordinator's records into rows of an audit's tables, and the rows into costs;
* ``compare`` measures how well a simulation with these settings reproduces the recorded life;
* ``ranges`` simulates variants: each has other values for the details that the log does not show;
* ``answer`` makes the answer from all of these.

The code is plain Python without I/O and without a clock. Random numbers have fixed seeds, so the same records and
settings give the same answer.
"""
