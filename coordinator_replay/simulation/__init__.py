"""The simulated group coordinator, and what-if: the simulation of a recorded group under other settings.

Code outside this package imports only ``door``. Its two main functions are ``simulate``, which answers the requests of
a script file, and ``what_if``, which simulates a recorded group. The parts are in layers, which import contracts
enforce:

* ``coordinator``: Kafka's group coordinator in plain Python;
* ``what_if``: simulated consumers, and the comparison of a simulation with the recorded life, in plain Python;
* ``recorded_groups``: reads a group from the tables, and passes it to ``what_if``;
* ``page`` makes a page of the results, ``simulated_log`` writes a log, ``commands`` has the command line's commands.
"""
