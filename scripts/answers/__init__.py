"""A comparison of the tables and answers of two commits: it shows whether a change alters what users read.

``written`` makes the tables of a dump, and writes the answer of every command into a file. It runs in the tree of each
commit. ``compared`` lists the files that differ between two trees, apart from renamed words and columns.
"""
