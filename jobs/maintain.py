"""The upkeep job for ``spark-submit``: the options of ``coordinator-replay maintain``, on the cluster's session."""

from coordinator_replay.cli.maintain import maintain

if __name__ == "__main__":
    maintain(prog_name="maintain.py")
