"""The rules that find the cause of a removed offset, in SQL. The cause is the first case of DECISION that fits.

The module ``causes`` has the statement that uses DECISION.
"""

from coordinator_replay.analysis.expiring import ExpiryRule
from coordinator_replay.analysis.removal_facts import (
    CHECK_INTERVAL,
    DEFAULT_RETENTION,
    LONGEST_REBALANCE,
    NAMED_TIME,
    OR_NAMED_TIME,
    RETENTION,
    RemovalFact,
    evidence_sql,
    fact,
    offset_fact,
)

UNDETERMINED, PERHAPS_REBALANCING = "UNDETERMINED", "PERHAPS_REBALANCING"
"""Reasons why retention may have removed an offset although it seems to have spared it:

- PERHAPS_REBALANCING: the log does not show whether a classic group was rebalancing, as REBALANCING and JOINING need.
- UNDETERMINED: the commit has no time, or is past retention while the log does not prove the group's state.
"""

REBALANCING, JOINING, HELD, UPGRADED, LOADING = "REBALANCING", "JOINING", "HELD", "UPGRADED", "LOADING"
"""Bugs of brokers that remove offsets which should not expire. Each was verified in the classes of Kafka's releases:

- REBALANCING (KAFKA-13636): ``GroupMetadata.removeExpiredOffsets`` went by subscriptions even while the group was not
  Stable. Affected: 2.4.0 (the first release with subscriptions) to 2.8.1, 3.0.0 and 3.1.0.
- JOINING: the same bug, after a member joined an Empty group. Until the rebalance is over, no topic counts as
  subscribed, and retention counts from the commit instead of the time at which the group became Empty. The group is not
  Empty then, so the broker does not write a tombstone of the group as well.
- HELD: the same method spared pending commits, but not pending commits of transactions. Affected: every coordinator in
  Scala.
- UPGRADED (KAFKA-8069): ``GroupMetadataManager.readOffsetMessageValue`` of 2.1 took the -1 of version 1 for a time.
- LOADING: ``OffsetManager`` of 0.8.2 had no lock between its cleanup and loading; 0.9 has ``offsetExpireLock``.
"""

_MAY_BE_GROUP = f"""(coalesce(has_group_tombstone, true)
    OR rule IN ('{ExpiryRule.SIMPLE_GROUP}', '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}'))"""
"""SQL for whether DeleteGroups may have removed the offset. A coordinator written in Scala (before 4.0) writes no
tombstone of a group that only stores offsets: its generation is 0 (``GroupMetadataManager.cleanupGroupMetadata``)."""

_MAY_BE_RETENTION = "(all_maybe OR NOT is_sure)"
_IS_OPEN = f"({_MAY_BE_RETENTION} OR {_MAY_BE_GROUP})"

_SURE = "CASE WHEN $is_known AND all_proven THEN 'certain' ELSE 'likely' END"
_DELETED_SURE = f"CASE WHEN {_IS_OPEN} THEN 'likely' ELSE 'certain' END"

_OTHERWISE_DELETED = f"CASE WHEN {_MAY_BE_GROUP} THEN ['GROUP_DELETED', 'DELETED'] ELSE ['DELETED'] END"
_NOT_DELETED = f"""list_concat(CASE WHEN {_MAY_BE_RETENTION} THEN ['EXPIRED'] ELSE [] END,
    CASE WHEN {_MAY_BE_GROUP} THEN ['GROUP_DELETED'] ELSE [] END)"""
_NOT_GROUP = "CASE WHEN all_maybe THEN ['DELETED', 'EXPIRED'] ELSE ['DELETED'] END"
_EXPIRED_TOO = f"list_concat(['EXPIRED'], {_OTHERWISE_DELETED})"

_RETENTION = f"CASE WHEN $is_known THEN '{RETENTION}' ELSE '{DEFAULT_RETENTION}' END"
_IS_NAMED = f"coalesce(rule = '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}', false)"
_LIMIT = {
    "limit": f"CASE WHEN {_IS_NAMED} THEN '{NAMED_TIME}' ELSE {_RETENTION} END",
    "limit_ms": f"CASE WHEN {_IS_NAMED} THEN named_ms ELSE $retention END",
}
_LIMIT_OF_WRITE = {
    "limit": f"{_RETENTION} || CASE WHEN coalesce(any_named, false) THEN '{OR_NAMED_TIME}' ELSE '' END",
    "limit_ms": "$retention",
}
_CHECK = {"limit": f"'{CHECK_INTERVAL}'", "limit_ms": "$check"}

_GROUP_TOMBSTONE = fact(RemovalFact.GROUP_TOMBSTONE)
_ALL_PAST = fact(RemovalFact.ALL_PAST, **_LIMIT_OF_WRITE)
_SOME_NOT_PAST = fact(RemovalFact.SOME_NOT_PAST, **_LIMIT_OF_WRITE)
_SOME_NOT_PROVEN = fact(RemovalFact.SOME_NOT_PROVEN, **_LIMIT_OF_WRITE)
_OTHER_GROUPS = fact(RemovalFact.OTHER_GROUPS, count="prompt_groups - 1")
_PAST = offset_fact(RemovalFact.PAST, elapsed_ms="age_ms", **_LIMIT)
_NOT_PAST = offset_fact(RemovalFact.NOT_PAST, elapsed_ms="age_ms", **_LIMIT)
_NOT_PAST_NAMED_TIME = offset_fact(RemovalFact.NOT_PAST_NAMED_TIME, elapsed_ms="age_ms", **_LIMIT)
_KEPT_BY_MEMBERS = offset_fact(RemovalFact.KEPT_BY_MEMBERS)
_TRANSACTION_OPEN = offset_fact(RemovalFact.TRANSACTION_OPEN)
_SPARED = fact(RemovalFact.SPARED)
_RETENTION_UNKNOWN = evidence_sql([fact(RemovalFact.RETENTION_UNKNOWN)])
_NOTHING = "[]"


def _either(is_open: str, if_open: str, otherwise: str) -> str:
    return f"CASE WHEN {is_open} THEN {if_open} ELSE {otherwise} END"


_NOT_PROVEN = _either(
    f"coalesce(doubt = '{UNDETERMINED}', false)",
    evidence_sql([offset_fact(RemovalFact.NOT_PROVEN, **_LIMIT)]),
    evidence_sql([_SOME_NOT_PROVEN]),
)
_SOME_OTHER = _either("any_spared", _SOME_NOT_PAST, _SOME_NOT_PROVEN)
_DELETE_OR_TOPIC = _either(_IS_OPEN, fact(RemovalFact.LIKELY_DELETE_OR_TOPIC), fact(RemovalFact.DELETE_OR_TOPIC))
# Members that left a classic group in a join phase are not on record, and no longer keep DeleteOffsets away.
_TOPIC = _either(
    f"({_IS_OPEN} OR was_classic)",
    fact(RemovalFact.LIKELY_TOPIC, topic="topic"),
    fact(RemovalFact.TOPIC, topic="topic"),
)


def _without_group(*facts: str) -> str:
    """Return SQL for evidence with some facts.

    If no tombstone of the group was written together with the offset's tombstone, the evidence also says so.
    """
    return _either(
        _MAY_BE_GROUP,
        evidence_sql([*facts, _DELETE_OR_TOPIC]),
        evidence_sql([*facts, fact(RemovalFact.NO_GROUP_TOMBSTONE), _DELETE_OR_TOPIC]),
    )


_WHY_EARLY = f"""CASE
    WHEN is_old THEN {_without_group(fact(RemovalFact.WITH_OTHERS, **_LIMIT_OF_WRITE))}
    WHEN is_due AND is_protected THEN {evidence_sql([_PAST, _TRANSACTION_OPEN, _SPARED, _DELETE_OR_TOPIC])}
    WHEN is_due THEN {evidence_sql([_PAST, _KEPT_BY_MEMBERS, _TOPIC])}
    WHEN rule = '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}' THEN {_without_group(_NOT_PAST_NAMED_TIME)}
    ELSE {_without_group(_NOT_PAST)}
END"""
"""SQL for the evidence against retention, if some offset of the same operation was not past its retention."""

_PERHAPS_REBALANCING = fact(
    RemovalFact.PERHAPS_REBALANCING,
    elapsed_ms="until_rebalanced_ms",
    limit=f"'{LONGEST_REBALANCE}'",
    limit_ms="rebalance_ms",
)
_CHANGED = _either(
    "is_election_exact",
    fact(RemovalFact.ELECTED, log_partition="log_partition", elapsed_ms="elected_ms", count="elected_epoch"),
    fact(RemovalFact.FIRST_OF_EPOCH, log_partition="log_partition", elapsed_ms="elected_ms", count="elected_epoch"),
)
_SINCE_COMMIT = offset_fact(RemovalFact.PAST_SINCE_COMMIT, elapsed_ms="since_commit_ms", **_LIMIT)
_JUST_PAST = offset_fact(RemovalFact.JUST_PAST, elapsed_ms="age_ms", **_LIMIT)

_OF_FAULTS = {
    REBALANCING: ([_PAST, _KEPT_BY_MEMBERS], [_PERHAPS_REBALANCING], [fact(RemovalFact.KAFKA_13636)]),
    JOINING: ([_SINCE_COMMIT], [_PERHAPS_REBALANCING], [fact(RemovalFact.KAFKA_13636_SINCE_COMMIT)]),
    HELD: ([_JUST_PAST, _TRANSACTION_OPEN], [fact(RemovalFact.SCALA_COORDINATOR)]),
    UPGRADED: ([_NOT_PAST], [_CHANGED], [fact(RemovalFact.KAFKA_8069)]),
    LOADING: ([_NOT_PAST_NAMED_TIME], [_CHANGED], [fact(RemovalFact.OLD_CLEANUP)]),
    PERHAPS_REBALANCING: ([fact(RemovalFact.REBALANCING_UNKNOWN)],),
}
_FAULT_EVIDENCE = f"""CASE doubt
    {" ".join(f"WHEN '{doubt}' THEN {evidence_sql(*sentences)}" for doubt, sentences in _OF_FAULTS.items())}
    WHEN '{UNDETERMINED}' THEN {_NOT_PROVEN}
    ELSE {evidence_sql([_PAST, fact(RemovalFact.OTHERS_NOT_PAST)])}
END"""


def _with_doubts(evidence: str, retention: str) -> str:
    """Return SQL for the evidence of a cause, followed by evidence for other possible causes.

    - If retention may have removed the offset, evidence for retention follows.
    - If the group's tombstone may be missing from the dump, evidence for the deletion of the group follows.

    Args:
        evidence: SQL for the evidence of the cause.
        retention: SQL for the evidence for retention if the retention in use is not known.
    """
    past = evidence_sql([_ALL_PAST])
    doubt = f"CASE WHEN NOT is_sure THEN {retention} WHEN all_old THEN {past} ELSE {_FAULT_EVIDENCE} END"
    missing = evidence_sql([fact(RemovalFact.GROUP_TOMBSTONE_MISSING)])
    return f"""list_concat(list_concat({evidence}, CASE WHEN {_MAY_BE_RETENTION} THEN {doubt} ELSE [] END),
        CASE WHEN has_group_tombstone IS NULL THEN {missing} ELSE [] END)"""


def _cause(ended_by: str, confidence: str, evidence: str, alternatives: str) -> str:
    """Return SQL for a struct with the cause of an offset's removal.

    Args:
        ended_by: the cause.
        confidence: SQL for the confidence.
        evidence: SQL for the evidence.
        alternatives: SQL for a list of other causes.
    """
    return (
        f"{{'ended_by': '{ended_by}', 'ended_confidence': {confidence}, "
        f"'ended_alternatives': CAST({alternatives} AS VARCHAR[]), 'evidence': {evidence}}}"
    )


_LOGGED = fact(RemovalFact.LOGGED, text="sentence")
_TOPIC_DELETED = evidence_sql(
    [fact(RemovalFact.TOPIC_DELETED, topic="topic", elapsed_ms="deleted_ms")],
)
_SEVERAL_GROUPS = evidence_sql(
    [
        fact(RemovalFact.SEVERAL_GROUPS, topic="topic", count="young_groups"),
        fact(RemovalFact.LIKELY_TOPIC, topic="topic"),
    ]
)
_OF_GROUP = evidence_sql([_GROUP_TOMBSTONE], [_SOME_OTHER])
_PERHAPS_OF_GROUP = evidence_sql([_GROUP_TOMBSTONE], [_SOME_OTHER, fact(RemovalFact.RETENTION_UNKNOWN_FOR_ALL)])
_PROMPT = evidence_sql([_ALL_PAST, fact(RemovalFact.PROMPT, elapsed_ms="late_ms_of_write", **_CHECK)], [_OTHER_GROUPS])
_LATE = evidence_sql([_ALL_PAST, fact(RemovalFact.LATE, elapsed_ms="late_ms_of_write", **_CHECK)])

DECISION = f"""CASE
    WHEN tombstone_at IS NULL
        THEN {_cause("TOMBSTONE", "'possible'", evidence_sql([offset_fact(RemovalFact.NO_TIME)]), _EXPIRED_TOO)}
    WHEN removal = 'GROUPS' AND has_group_tombstone AND list_contains(names, group_id) THEN {
    _cause("GROUP_DELETED", "'certain'", evidence_sql([_LOGGED], [_GROUP_TOMBSTONE]), _NOTHING)
}
    WHEN removal = 'TOPICS' AND (list_contains(names, topic) OR list_contains(names, topic || '-' || partition)) THEN {
    _cause("DELETED", "'certain'", evidence_sql([_LOGGED]), _NOTHING)
}
    WHEN removal = 'OFFSETS' AND list_contains(names, group_id || '/' || topic || '-' || partition) THEN {
    _cause("DELETED", "'certain'", evidence_sql([_LOGGED]), _NOTHING)
}
    WHEN removal = 'CLEANUP' AND (all_old OR NOT $is_known) THEN {
    _cause("EXPIRED", "'certain'", evidence_sql([_LOGGED]), _NOTHING)
}
    WHEN any_unreadable
        THEN {_cause("TOMBSTONE", "'possible'", evidence_sql([fact(RemovalFact.UNREADABLE)]), _EXPIRED_TOO)}
    WHEN NOT all_old AND all_by_fault AND deleted_ms IS NULL AND NOT topic_went THEN {
    _cause("EXPIRED", "'possible'", _FAULT_EVIDENCE, _OTHERWISE_DELETED)
}
    WHEN NOT all_old AND has_group_tombstone AND is_sure THEN {
    _cause("GROUP_DELETED", "'likely'", _with_doubts(_OF_GROUP, _NOTHING), _NOT_GROUP)
}
    WHEN NOT all_old AND has_group_tombstone THEN {
    _cause("GROUP_DELETED", "'likely'", _PERHAPS_OF_GROUP, "['DELETED', 'EXPIRED']")
}
    WHEN deleted_ms IS NOT NULL THEN {
    _cause("DELETED", _DELETED_SURE, _with_doubts(_TOPIC_DELETED, _RETENTION_UNKNOWN), _NOT_DELETED)
}
    WHEN topic_went THEN {
    _cause("DELETED", "'likely'", _with_doubts(_SEVERAL_GROUPS, _RETENTION_UNKNOWN), _NOT_DELETED)
}
    WHEN NOT all_old AND all_maybe AND any_undetermined
        THEN {_cause("TOMBSTONE", "'possible'", _NOT_PROVEN, _EXPIRED_TOO)}
    WHEN NOT all_old THEN {_cause("DELETED", _DELETED_SURE, _with_doubts(_WHY_EARLY, _RETENTION_UNKNOWN), _NOT_DELETED)}
    WHEN with_others AND coalesce(is_prompt, false) THEN {_cause("EXPIRED", _SURE, _PROMPT, _NOTHING)}
    WHEN coalesce(is_prompt, false) OR with_others THEN {
    _cause(
        "EXPIRED",
        "CASE WHEN coalesce(is_prompt, false) THEN 'likely' ELSE 'possible' END",
        evidence_sql([_ALL_PAST]),
        _OTHERWISE_DELETED,
    )
}
    ELSE {_cause("TOMBSTONE", "'possible'", _LATE, _EXPIRED_TOO)}
END"""
"""SQL for the cause of a removed offset: the first case that fits."""
