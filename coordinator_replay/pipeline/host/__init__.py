"""The environment of Spark: the session, Java, jars, and failures as a sentence."""
