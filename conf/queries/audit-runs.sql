-- All audit runs, with the number of records that each run read. These records are either decoded, quarantined, control records, duplicates, or already audited.
SELECT run_id, status, records_read, records_decoded,
       records_read - records_decoded - records_quarantined - control_records - duplicates_dropped - already_audited AS unaccounted,
       control_records, records_quarantined, duplicates_dropped, already_audited, len(gaps) AS gaps, started_at, software_version
FROM audit_runs WHERE cluster = $cluster ORDER BY started_at DESC, run_id
