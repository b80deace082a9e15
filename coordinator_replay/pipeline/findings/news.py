"""New findings. A finding is new if it was first stored by the last run that read new records, or by a later run."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coordinator_replay.analysis.findings.evaluate import FINDINGS
from coordinator_replay.analysis.findings.evidence_rows import DatedFinding, FindingRow
from coordinator_replay.pipeline.ledger import Run
from coordinator_replay.store.scan import read_paths
from coordinator_replay.store.snapshot import TableFile
from coordinator_replay.store.writer import conform
from coordinator_replay.tables.definition import table

FOUND_IN_RUN = "found_in_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Facts that decide which findings are new.

    Attributes:
        run_id: the run that evaluates.
        since: the last run that read new records. A finding is new if it was first stored by this run or a later run.
        earlier: files of the findings that earlier runs have stored.
    """

    run_id: str
    since: str
    earlier: Sequence[str]

    def first_runs(self, files: Sequence[str] | None = None) -> dict[str, str | None]:
        """Return the id of the run that first stored each finding, by the id of the finding.

        The run is None if an old release, which did not store the run, stored the finding.

        Args:
            files: the files of findings to read; None for all files.
        """
        schema = table(FINDINGS).arrow_schema(["finding_id", FOUND_IN_RUN])
        runs: dict[str, str | None] = {}
        for batch in read_paths(self.earlier if files is None else files, schema.names):
            runs.update(zip(*(column.to_pylist() for column in conform(batch, schema).columns), strict=True))
        return runs

    def dated(self, findings: Iterable[FindingRow], first_runs: dict[str, str | None]) -> list[DatedFinding]:
        """Return findings, each with the run that first stored it."""
        return [{**finding, "found_in_run": first_runs.get(finding["finding_id"], self.run_id)} for finding in findings]

    def count(self, findings: Iterable[DatedFinding]) -> Counter[str]:
        """Return the number of new findings among some findings, by severity."""
        return Counter(finding["severity"] for finding in findings if (finding["found_in_run"] or "") >= self.since)

    def count_earlier(self) -> Counter[str]:
        """Return the number of new findings among the findings that earlier runs have stored, by severity."""
        schema = table(FINDINGS).arrow_schema(["severity", FOUND_IN_RUN])
        batches = (conform(batch, schema) for batch in read_paths(self.earlier, schema.names))
        return sum((self.count(batch.to_pylist()) for batch in batches), Counter[str]())


def news_of(stored: Iterable[TableFile], run: Run, earlier: Sequence[Run]) -> News:
    """Return the facts that decide which findings are new in this run.

    Args:
        stored: files of the findings that earlier runs have stored.
        run: the present run, after its records were counted.
        earlier: the finished runs, the newest first.
    """
    since = last_reading(run, earlier).run_id
    return News(run_id=run.run_id, since=since, earlier=[file.uri for file in stored])


def last_reading(run: Run, earlier: Sequence[Run]) -> Run:
    """Return the last run that read new records.

    This is the present run, or an earlier run if this run read nothing new.
    """
    return next((candidate for candidate in (run, *earlier) if candidate.has_new_records), run)
