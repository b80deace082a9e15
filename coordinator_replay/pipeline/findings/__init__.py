"""Results of a bucket's evidence: expiring offsets, findings, and the metrics of the coordinator."""
