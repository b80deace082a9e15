"""Exports, which write the topic of a running cluster into a dump.

``topic`` exports once, ``follow`` continuously. ``audit_follow`` audits what a continuous export has written.
"""
