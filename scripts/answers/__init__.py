"""Whether a change of how leaves what users read as it was: tables and answers of two commits, side by side.

``written`` makes the tables of a dump and asks every command about them, each answer a file; it runs in the tree of
either commit. ``compared`` says where the files of two trees differ, once renames are taken into account.
"""
