-- Every audit's account: records read are decoded, quarantined, control records, copies or known already, and nothing else.
SELECT started_at, status, records_read, records_decoded, records_quarantined, control_records, duplicates_dropped,
       already_audited, len(gaps) AS gaps,
       records_read - records_decoded - records_quarantined - control_records - duplicates_dropped - already_audited AS unaccounted,
       software_version, run_id
FROM audit_runs WHERE cluster = $cluster ORDER BY started_at DESC
