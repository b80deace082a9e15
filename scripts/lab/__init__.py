"""The broker lab: real clients run scripts on a real broker, and the broker's log and answers are kept.

``lives`` has the scripts. ``life`` and ``member`` have the functions that scripts call. ``recording`` keeps the
results, in a folder in the form of the recorded samples, so that the same judges can read it. ``README.md`` describes
the folder.
"""
