"""``python -m coordinator_replay``: the same program as ``coordinator-replay``."""

from coordinator_replay.cli.main import main

if __name__ == "__main__":
    main(prog_name="coordinator-replay")
