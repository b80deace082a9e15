"""Answers as a whole: the rows of a question, the notes that belong to them, and what they stand on."""
