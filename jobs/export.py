"""The export job for ``spark-submit``: the options of ``coordinator-replay export``, on the cluster's session."""

from coordinator_replay.cli.export import export

if __name__ == "__main__":
    export(prog_name="export.py")
