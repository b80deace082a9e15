"""HTML pages, pictures, traces and metrics of groups, made from answers of ``query``."""
