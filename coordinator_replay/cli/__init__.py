"""The command line. A command parses its arguments, calls one function of another room, and prints the result."""
