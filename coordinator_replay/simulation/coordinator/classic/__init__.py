"""Classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, with rebalances that go on in memory."""
