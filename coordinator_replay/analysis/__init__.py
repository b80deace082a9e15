"""Events of a group in, answers out: pure folds that yield rows in the columns of the table contract.

Every fold takes the events of one operation at a time and keeps plain state. The state can be stored and restored, so
that tomorrow's run continues where today's run stopped. Times are epoch milliseconds here; the writers of tables turn
them into timestamps.
"""
