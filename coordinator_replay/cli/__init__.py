"""The command line: commands parse, call one function of another room, and print."""
