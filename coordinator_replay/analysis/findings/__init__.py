"""Findings: what an operator should look at.

``rules.py`` is the one table of all rules: name, severity, thresholds, and the words that the documentation is made of.
A rule is a function that yields observations: a condition held from one time to another, or still holds at the group's
last record. Rules over the steps of a group (``progress``, ``shape``, ``subscribed``) run with the replay, and their
observations are kept as evidence. Rules over offsets and over the log (``commit_rules``, ``log_rules``) run over
evidence. Whether an open observation has lasted long enough depends on the end of the log, so every run decides it
again for all groups.
"""
