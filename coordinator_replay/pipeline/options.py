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

OFFSETS_VERSION = 7
"""Of the rules of derivation: what other ones made is derived again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryOptions:
    """Options of expiry.

    Attributes:
        as_of: the time that expiry is evaluated at; None for the end of the log.
        retention_ms: offsets.retention.minutes of the brokers; None to infer it, or else to take Kafka's default.
        horizon_ms: how far ahead to look.
        history_every_ms: keep the last commit of each such interval only; None for all.
    """

    as_of: datetime | None = None
    retention_ms: int | None = None
    horizon_ms: int = 3 * 86_400_000
    history_every_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of one audit run, named as on the command line.

    Attributes:
        follow: of which stream the inputs are complete batches, where a follower audits them, see ``ExportedDump``.
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
        """Return whether more than the dump is asked for: names of topics, logs of brokers, settings of expiry."""
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
    """Summary of a run at its end.

    Attributes:
        kinds: records that are new to the tables, by Kafka's name of their kind.
        quarantined: those of them that could not be decoded, by what was wrong with them.
        groups: groups that exist at the end of the log, by type and state.
        rebalances: all rebalances of the cluster that the tables hold.
        causes: how many of them have each cause.
        expired: offsets of the cluster that expired, are past retention, or expire within the horizon, by status.
        findings: what the tables now say that deserves a look, by severity.
        new_findings: those of them that no run had stored before the last one that read new records.
        new_quarantined: records that this last one could not decode.
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
