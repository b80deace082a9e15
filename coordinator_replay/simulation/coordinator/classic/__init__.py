"""Classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, with rebalances in memory."""
