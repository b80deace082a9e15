"""The audit: it turns a dump into tables. Spark runs its stages, and the last stage commits all tables.

``audit.audit`` performs a run, step by step. A stage is a plain function that turns a share of work into files. Only
``audit``, ``stage``, ``export``, ``read.sources`` and ``host`` know Spark. See docs/architecture.md.
"""
