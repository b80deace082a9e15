"""What a bucket's evidence comes to: what expires, findings, and the metrics of the coordinator."""
