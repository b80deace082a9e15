"""The stages that find expiring offsets, findings and metrics in the evidence about groups."""
