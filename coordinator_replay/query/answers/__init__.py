"""Whole answers: the rows of a question, their notes, and the basis of the answer."""
