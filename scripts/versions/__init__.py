"""The versions of stored rows: the files that each version covers, and a check that they fit the code."""
