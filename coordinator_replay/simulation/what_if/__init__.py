"""What-if: the simulation of a recorded group under other settings.

The modules, in the order of their work:

* ``record`` turns the group's records into operations, and measures the recorded settings;
* ``recorded_clients`` and ``script`` find the times at which clients came and went;
* ``run`` lets simulated ``clients`` come and go at these times, and send requests to the simulated coordinator;
* ``outcome`` and ``measures`` turn the coordinator's records into rows of an audit's tables, and the rows into costs;
* ``compare`` measures how well a simulation with the recorded settings reproduces the record;
* ``ranges`` simulates variants, with other values of everything that the record leaves open;
* ``answer`` makes the answer from all of these.

Plain Python: no I/O, no clock. Random numbers have fixed seeds, so the same records and settings give the same answer.
"""
