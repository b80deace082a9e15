"""Pages to look at and traces to walk through, made from answers of ``query``."""
