"""What the recorded brokers logged as reasons, against what the audit makes of their logs."""
