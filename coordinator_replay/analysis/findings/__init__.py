"""Findings: what an operator should look at.

``schemas/findings/rules.json`` is the one table of all rules: severity, names of thresholds, and the words that the
documentation is made of. ``thresholds.py`` has the thresholds themselves. A rule is a function that yields
observations. An observation is a time range in which the rule's condition held. If the condition still holds at the
group's last record, the observation is *open*.

Rules over the steps of a group (``progress``, ``shape``, ``subscribed``) run with the replay. Their observations are
stored as evidence. Rules over offsets and over the log (``commit_rules``, ``ended_rules``, ``log_rules``) run over
evidence. An open observation must have lasted for long enough at the end of the log. So every run evaluates the
evidence of all groups again.
"""
