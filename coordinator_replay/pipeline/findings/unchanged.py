"""Groups whose findings can't have changed: an audit keeps their findings and sums, and evaluates only other groups.

An audit keeps the findings of a group if all of this is true:

- The release, the thresholds and the retention are the same as in the last run, and so are the time ranges in which no
  record is missing.
- The files with the bucket's findings still exist. ``maintain`` may have merged them with files of other buckets.
- This run has read no commit of the group.
- The other evidence about the group is the same as in the last run.
- No finding of the group changes because the log now ends later than in the last run (see ``LogEnd``).

The table ``commit_totals`` has what the last run stored for this comparison.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.expiring import Retention
from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.rules import VERSION
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.analysis.rows import encode
from coordinator_replay.completeness.spans import ExactSpan
from coordinator_replay.pipeline.findings.evidence import (
    ENDANGERED,
    EVIDENCE,
    EXPIRED,
    OFFSETS,
    PENDING,
    STALLS,
    UNCOMMITTED,
)
from coordinator_replay.store.duckdb_connection import select
from coordinator_replay.version import __version__

CONDITIONS, EVALUATED = "conditions", "evaluated"
"""Values of ``what`` in rows of ``commit_totals`` that are no sums: the conditions of the run, and an evaluated group.

``sums`` in the row of a group has two fields: ``hash``, a hash of the evidence, and ``changes_at``, the end of the log
from which on the findings may be different."""

_COMPARED = (EVIDENCE, STALLS, ENDANGERED, UNCOMMITTED, OFFSETS, PENDING, EXPIRED)
"""Sources whose rows are compared with those of the last evaluation. Sums of commits are not compared: they change only
if the run adds up commits of the group."""


def conditions_text(limits: Thresholds, retention: Retention, horizon_ms: int, spans: Sequence[ExactSpan]) -> str:
    """Return the options and versions on which all findings of a bucket depend, as one text.

    If the text differs from the text of the last run, all groups of the bucket are evaluated again.

    Args:
        limits: the thresholds of findings.
        retention: the retention of offsets.
        horizon_ms: how far ahead to look for offsets that will expire, in milliseconds.
        spans: the time ranges in which no record is missing, for each log partition that lacks some records.
    """
    return encode(
        {
            "release": __version__,
            "version": VERSION,
            "limits": asdict(limits),
            "retention": [retention.ms, retention.is_known],
            "horizon_ms": horizon_ms,
            "spans": sorted(spans),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvaluation:
    """The evaluation of a bucket by the last run, as ``commit_totals`` has it.

    Attributes:
        conditions: the result of ``conditions_text``; None if no run has stored it.
        end_ms: the end of the log in the last run, in milliseconds.
        files: names of the files with the bucket's findings.
        groups: the evaluated groups, with the columns ``group_id`` and ``sums``.
    """

    conditions: str | None
    end_ms: int
    files: frozenset[str]
    groups: pa.Table

    def findings(self, stored: Sequence[str]) -> Sequence[str] | None:
        """Return the files with the bucket's findings that the last run wrote.

        Return None if the last run stored no names of files, or if one of the files no longer exists.

        Args:
            stored: URIs of the files with the findings of all buckets.
        """
        own = [uri for uri in stored if file_name(uri) in self.files]
        return own if self.conditions is not None and len(own) == len(self.files) else None


def last_evaluation(totals: pa.Table) -> LastEvaluation:
    """Return what the last run stored about its evaluation of a bucket.

    Args:
        totals: rows of ``commit_totals`` of the bucket, with the columns what, group_id and sums.
    """
    [row, *_] = totals.filter(pc.equal(totals.column("what"), CONDITIONS)).column("sums").to_pylist() or ["{}"]
    stored = orjson.loads(row)
    groups = totals.filter(pc.equal(totals.column("what"), EVALUATED)).select(["group_id", "sums"])
    return LastEvaluation(
        conditions=stored.get("conditions"),
        end_ms=stored.get("end", 0),
        files=frozenset(stored.get("files", ())),
        groups=groups,
    )


def file_name(uri: str) -> str:
    """Return the name of a file without its folder. The name is unique within the file's table."""
    return uri.rpartition("/")[2]


def conditions_row(conditions: str, end_ms: int, files: Iterable[str]) -> str:
    """Return the content of column ``sums`` in the row of ``commit_totals`` that is about a whole bucket.

    The next run reads this row to decide whether it can keep findings of the bucket.

    Args:
        conditions: options of the run and versions of rules on which findings depend, see ``conditions_text``.
        end_ms: the end of the log, in milliseconds.
        files: paths of the files with the bucket's findings.
    """
    return encode({"conditions": conditions, "end": end_ms, "files": sorted(map(file_name, files))})


def evaluated_row(evidence_hash: str, changes_at_ms: int | None) -> str:
    """Return the content of column ``sums`` in a group's row of ``commit_totals``.

    The next run reads this row to decide whether it can keep the findings of the group.

    Args:
        evidence_hash: the hash of the evidence about the group.
        changes_at_ms: the time in milliseconds at which the findings may change even if no record is added. None if
            there is no such time.
    """
    return encode({"hash": evidence_hash, "changes_at": changes_at_ms})


_HASHED = " UNION ALL ".join(
    f"SELECT group_id, CAST(hash('{name}', r) AS HUGEINT) AS hashed FROM {name} AS r"  # noqa: S608 - our own names
    for name in _COMPARED
    if name != EVIDENCE
)
_HASHES = f"""
WITH hashes AS (
    {_HASHED}
    UNION ALL SELECT group_id, hash('{EVIDENCE}', r) FROM {EVIDENCE} AS r WHERE tag <> {int(Evidence.STATE)}
)
SELECT group_id, CAST(sum(hashed) AS VARCHAR) AS hash FROM hashes GROUP BY group_id
"""  # noqa: S608 - our own names and numbers


def evidence_hashes(sources: Mapping[str, pa.Table]) -> pa.Table:
    """Return a hash of the evidence about each group, with the columns ``group_id`` and ``hash``.

    The hash does not depend on the order of rows. Rows about states of groups are left out.

    Args:
        sources: rows of evidence, by source.
    """
    return select(_HASHES, {}, **{name: sources[name] for name in _COMPARED})


_UNCHANGED = """
SELECT group_id FROM evaluated LEFT JOIN hashes USING (group_id)
WHERE sums->>'hash' = coalesce(hash, '') AND coalesce(TRY_CAST(sums->>'changes_at' AS BIGINT) > $end, true)
"""


def unchanged_groups(last: LastEvaluation, hashes: pa.Table, end_ms: int, changed: Iterable[str]) -> pa.Array:
    """Return the groups whose findings can't have changed since the last run.

    Call this only if ``conditions_text`` returns the same text as in the last run.

    Args:
        last: what the last run stored about its evaluation.
        hashes: hashes of the evidence, see ``evidence_hashes``.
        end_ms: the end of the log.
        changed: ids of groups to leave out in any case.
    """
    [found] = select(_UNCHANGED, {"end": end_ms}, evaluated=last.groups, hashes=hashes).columns
    unchanged = found.combine_chunks()
    to_evaluate = pa.array(sorted(set(changed)), unchanged.type)
    return unchanged.filter(pc.invert(pc.is_in(unchanged, value_set=to_evaluate)))
