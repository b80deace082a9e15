"""The nightly job for ``spark-submit``: the options of ``coordinator-replay audit``, on the cluster's session."""

from coordinator_replay.cli.compute import audit

if __name__ == "__main__":
    audit(prog_name="audit.py")
