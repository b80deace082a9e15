"""The simulated group coordinator, and what-if: a recorded group run again under other settings.

``door`` is the entrance: ``simulate`` runs a script of requests, and ``what_if`` runs a recorded group. Audits and
other questions import nothing else of this package. The parts are in layers, which import contracts enforce:

* ``coordinator``: Kafka's group coordinator, plain Python;
* ``what_if``: simulated consumers, runs and their comparison with the record, plain Python;
* ``recorded_groups``: reads a group from the tables, and runs ``what_if`` on it;
* ``page`` draws the lives, ``simulated_log`` writes a log, ``commands`` has the commands of the command line.
"""
