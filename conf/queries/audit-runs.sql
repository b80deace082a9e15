-- Every audit run: records read are decoded, quarantined, control records, duplicates or already audited, and nothing else.
SELECT started_at, status, records_read, records_decoded, records_quarantined, control_records, duplicates_dropped,
       already_audited, len(gaps) AS gaps,
       records_read - records_decoded - records_quarantined - control_records - duplicates_dropped - already_audited AS unaccounted,
       software_version, run_id
FROM audit_runs WHERE cluster = $cluster ORDER BY started_at DESC, run_id
