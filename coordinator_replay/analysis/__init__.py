"""Events of a group in, answers out: pure folds that yield rows in the columns of the table contract.

Every fold takes the events of one operation at a time, keeps what it needs to go on as plain state, and gives that
state away and takes it back, so that a run of tomorrow goes on where the run of today stopped. Times are epoch
milliseconds here; what writes the tables turns them into timestamps.
"""
