"""An audit: stages over files and buckets, run by Spark, committed once.

``audit.audit`` is the run, step by step. A stage is a plain function that turns a share of work into files. Only
``audit``, ``stage``, ``export``, ``read.sources`` and ``host`` know Spark. See docs/architecture.md.
"""
