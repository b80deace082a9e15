"""What Spark runs on: the session, Java, the jars, names in a catalog, and failures as a sentence."""
