"""The command line. A command parses its arguments, calls one function of another package, and prints the result."""
