"""The last stage of a bucket: it makes expiring offsets, findings and metrics from the evidence about groups."""
