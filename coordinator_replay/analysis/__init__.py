"""Folds over a group's events: events go in, and rows of the tables come out.

Every fold takes the events of one operation at a time and keeps plain state. A run stores this state, and the next run
continues from it. Times are epoch milliseconds here; the writers of tables turn them into timestamps.
"""
