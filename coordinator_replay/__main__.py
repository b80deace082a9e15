"""The program: ``coordinator-replay``, and the same by ``python -m coordinator_replay``.

Python looks for modules in the folder it is started in first, which may be a dump that somebody sent. It is taken off
the path here; what Python itself asks for before this file is run, only ``python -P -m`` keeps it from.
"""

import os
import sys

if not sys.flags.safe_path and sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(os.getcwd()):  # noqa: PTH109
    del sys.path[0]


def start() -> None:
    """Run the program; Ctrl-C ends it without a trace from the first import on."""
    try:
        from coordinator_replay.cli.main import main
    except KeyboardInterrupt:
        sys.stderr.write("Error: interrupted\n")
        sys.exit(130)
    main(prog_name="coordinator-replay")


if __name__ == "__main__":
    start()
