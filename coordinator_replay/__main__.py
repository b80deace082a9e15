"""The entry point of ``coordinator-replay`` and of ``python -m coordinator_replay``.

Python first looks for modules in its working directory, which may be a dump that somebody sent. So this file removes
the working directory from the path. Only ``python -P -m`` also protects the imports that Python makes before it runs
this file.
"""

import os
import sys

if not sys.flags.safe_path and sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(os.getcwd()):  # noqa: PTH109
    del sys.path[0]


def start() -> None:
    """Run the program.

    Ctrl-C ends the program without a traceback, even during the first imports.
    """
    try:
        from coordinator_replay.cli.main import main
    except KeyboardInterrupt:
        sys.stderr.write("Error: interrupted\n")
        sys.exit(130)
    main(prog_name="coordinator-replay")


if __name__ == "__main__":
    start()
