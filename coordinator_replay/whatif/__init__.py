"""The old import path of ``simulation.what_if``, kept for one release."""
