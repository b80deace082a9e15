"""The environment of Spark: the session, Java and jars, and one-sentence errors for Spark's failures."""
