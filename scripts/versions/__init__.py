"""What versions of stored rows cover, and whether they fit the code."""
