"""What an operator should look at before anybody asks.

``rules.py`` is the one table of all rules: name, severity, and the words that the documentation is made of. A rule over
the life of one group is a function here, fed by the fold; a rule over committed offsets is a function of columns in
``pipeline/findings.py``. Both kinds give observations: something was so, from then to then, or still is. Whether it was
so for long enough is only known at the end of the log, so the run decides that, for groups too that it did not replay.
"""
