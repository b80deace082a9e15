"""The simulated group coordinator, and what-if: a recorded group run again under other settings.

``door`` is the way in: ``simulate`` runs a script of requests, ``what_if`` a recorded group. No audit and no other
question imports what lies behind it. The parts lie in several layers, and contracts hold each of them there:

* ``coordinator``: Kafka's group coordinator, plain Python;
* ``what_if``: simulated consumers, runs and their comparison with the record, plain Python;
* ``recorded_groups``: what the tables have of a group, and ``what_if`` of it;
* ``page`` draws the lives, ``simulated_log`` writes a log, ``commands`` has the commands of the command line.
"""
