"""Whole answers to questions: rows, notes and basis. The command line and the Python API show them."""
