"""Options of a run, and its summary."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from coordinator_replay.analysis.findings.rules import VERSION as FINDINGS_VERSION
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.log.dump_format import Format
from coordinator_replay.pipeline.ledger import Run

OFFSETS_VERSION = 12
"""Version of the rules by which offsets are derived; offsets of another version are derived again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryOptions:
    """Options that decide which offsets have expired, and how many commits the history keeps.

    Attributes:
        as_of: the time at which the ages of offsets are compared with the retention; None for the end of the log.
        retention_ms: offsets.retention.minutes of the brokers, in milliseconds. None to infer the retention, or to use
            Kafka's default if it can't be inferred.
        horizon_ms: the audit also looks for offsets that will expire at most this long after ``as_of``.
        history_every_ms: keep only the last commit of each time range of this length; None to keep all commits.
    """

    as_of: datetime | None = None
    retention_ms: int | None = None
    horizon_ms: int = 3 * 86_400_000
    history_every_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of one audit run, named as on the command line.

    Attributes:
        follow: id of the export's stream, if the audit follows an export (``--follow``); None for any other audit. See
            ``ExportedDump``.
        buckets: number of buckets of a new warehouse; None for the usual number.
    """

    inputs: Sequence[str]
    warehouse: str
    cluster: str = "default"
    format: Format | None = None
    include_deleted: bool = False
    database: str | None = None
    topics: str | None = None
    cluster_metadata: str | None = None
    broker_logs: Sequence[str] = ()
    broker_log_zone: str | None = None
    expiry: ExpiryOptions = field(default_factory=ExpiryOptions)
    records_only: bool = False
    full: bool = False
    follow: str | None = None
    buckets: int | None = None
    thresholds: Thresholds = DEFAULTS

    @property
    def is_explicit(self) -> bool:
        """Return whether the user gave names of topics, cluster metadata, brokers' logs, or options of ``expiry``."""
        has_files = self.topics or self.cluster_metadata or self.broker_logs
        return bool(has_files) or self.expiry != ExpiryOptions()

    def settings(self) -> dict[str, Any]:
        """Return the options for the ledger."""
        asked = asdict(self)
        expiry: dict[str, Any] = asked.pop("expiry")
        for name in ("inputs", "warehouse", "cluster"):
            del asked[name]
        written = {"format": self.format or "auto", "broker_logs": list(self.broker_logs)}
        as_of = self.expiry.as_of and self.expiry.as_of.isoformat()
        versions = {"offsets_version": OFFSETS_VERSION, "findings_version": FINDINGS_VERSION}
        return asked | expiry | written | versions | {"as_of": as_of}


@dataclass(slots=True)
class Summary:
    """A summary of a run, made at the run's end.

    Attributes:
        kinds: number of records that are new to the tables, by Kafka's name of their kind.
        quarantined: the number of these records that could not be decoded, by error class.
        groups: number of groups at the end of the log, by type and state.
        rebalances: number of the cluster's rebalances in the tables.
        causes: number of these rebalances, by cause.
        expired: number of offsets that expired, are past retention, or expire within the horizon, by status.
        findings: number of findings in the tables, by severity.
        new_findings: number of new findings, by severity. A finding is new if it was first stored by the last run that
            read new records, or by a later run.
        new_quarantined: number of records that could not be decoded in the last run that read new records.
    """

    run: Run
    kinds: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    groups: Counter[tuple[str, str]] = field(default_factory=Counter)
    rebalances: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    new_findings: Counter[str] = field(default_factory=Counter)
    new_quarantined: int = 0
