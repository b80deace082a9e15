"""SQL statements that read what happened to groups in a time range, such as states, members and owners.

``{of_groups}`` in a statement stands for a condition on the groups (``Tables.rows_by_group``). The time range begins at
``$start`` and ends before ``$end``; null means no bound. Rows without any time are left out, because they can't be
drawn.
"""

from coordinator_replay.analysis.broker_logs.lines import BEGIN, LOADED
from coordinator_replay.query.broker_logs.join_phases import LOGGED_STATES
from coordinator_replay.query.group_moves import COUNTS, in_log_order
from coordinator_replay.query.group_rows import GROUP_ROWS
from coordinator_replay.query.groups import COMPLETE, LATER_ROWS

# A rebalance in progress that only a broker's log shows begins after the last record.
SPANS = f"""
    WITH unfinished AS (
        SELECT group_id, max(started_at) AS began_at FROM rebalances
        WHERE cluster = $cluster AND completed_offset IS NULL {{of_groups}} GROUP BY group_id
    )
    SELECT group_id, min(first), max(greatest(last, began_at)), min(log_partition), min(place), min(own_place)
    FROM {GROUP_ROWS} LEFT JOIN unfinished USING (group_id) GROUP BY 1 ORDER BY 1
"""  # noqa: S608 - put together from constants

_LOGGED_STATE = " ".join(f"WHEN '{event}' THEN '{state}'" for event, state in LOGGED_STATES.items())

# A classic group writes no record in a join phase, and none until its leader has assigned partitions. So these states
# come from its coordinator's log, within the rebalances of the table (see ``join_phases``). Epochs and members come
# from records.
STATES = f"""
    WITH own AS (
        SELECT DISTINCT group_id, log_partition AS own FROM group_timeline WHERE cluster = $cluster {{of_groups}}
    ), lines AS (
        SELECT group_id, logged_at, event, epoch FROM broker_log JOIN own USING (group_id)
        WHERE cluster = $cluster AND event IN {tuple(LOGGED_STATES)} {{of_groups}}
          AND coalesce(log_partition = own, true)
        UNION ALL SELECT own.group_id, logged_at, event, NULL FROM broker_log JOIN own ON log_partition = own
        WHERE cluster = $cluster AND event = '{LOADED}'
    ), begun AS (
        SELECT group_id, started_at,
               CASE WHEN completed_offset IS NULL THEN TIMESTAMPTZ '9999-12-31' ELSE completed_at END AS over_at
        FROM rebalances
        WHERE cluster = $cluster AND group_type = 'classic' AND started_at IS NOT NULL {{of_groups}}
    ), steps AS (
        SELECT group_id, max(log_timestamp) OVER (PARTITION BY group_id ORDER BY seq) AS seen, 0 AS step, seq,
               group_type, epoch, member_count, coalesce(is_state_exact, false) AS is_exact,
               CASE WHEN event = 'GROUP_DELETED' THEN 'Dead' ELSE to_state END AS recorded, NULL AS logged
        FROM group_timeline WHERE cluster = $cluster {{of_groups}}
        UNION ALL
        SELECT lines.group_id, logged_at, 1, 2 * epoch + CAST(event = '{BEGIN}' AS INTEGER),
               NULL, NULL, NULL, NULL, NULL, {{'over_at': over_at, 'state': CASE event {_LOGGED_STATE} END}}
        FROM lines ASOF JOIN begun ON lines.group_id = begun.group_id AND logged_at >= started_at
        WHERE logged_at < over_at
    ), known AS (
        SELECT group_id, seen, row_number() OVER so_far AS seq, last_value(logged IGNORE NULLS) OVER so_far AS phase,
               coalesce(last_value(group_type IGNORE NULLS) OVER so_far, 'classic') AS group_type,
               last_value(epoch IGNORE NULLS) OVER so_far AS epoch,
               last_value(member_count IGNORE NULLS) OVER so_far AS member_count,
               coalesce(last_value(is_exact IGNORE NULLS) OVER so_far, true) AS is_exact,
               last_value(recorded IGNORE NULLS) OVER so_far AS recorded
        FROM steps WINDOW so_far AS (PARTITION BY group_id ORDER BY seen NULLS FIRST, step, seq)
        QUALIFY coalesce(seen < $end, true)
    ), events AS (
        SELECT *, CASE WHEN seen < phase.over_at AND group_type = 'classic' THEN phase.state END AS logged,
               coalesce(logged, recorded) AS state, logged IS NOT NULL AS is_logged
        FROM known
    ), compared AS (
        SELECT *, (state IS DISTINCT FROM lag(state) OVER in_order
                   OR group_type IS DISTINCT FROM lag(group_type) OVER in_order
                   OR is_exact IS DISTINCT FROM lag(is_exact) OVER in_order
                   OR is_logged IS DISTINCT FROM lag(is_logged) OVER in_order) AS is_change
        FROM events WINDOW in_order AS (PARTITION BY group_id ORDER BY seq)
    ), numbered AS (
        SELECT *, sum(CAST(is_change AS INTEGER)) OVER (PARTITION BY group_id ORDER BY seq) AS band FROM compared
    ), bands AS (
        SELECT group_id, band, min(state) AS state, min(group_type) AS group_type,
               min(seen) AS since, min(epoch) AS first_epoch, max(epoch) AS last_epoch,
               min(member_count) AS fewest, max(member_count) AS most, bool_and(is_exact) AS is_exact,
               bool_and(is_logged) AS is_logged
        FROM numbered GROUP BY group_id, band
    )
    SELECT group_id, state, group_type, since, lead(since) OVER (PARTITION BY group_id ORDER BY band) AS until,
           first_epoch, last_epoch, fewest, most, is_exact, is_logged
    FROM bands
    QUALIFY (until IS NOT NULL OR lead(band) OVER (PARTITION BY group_id ORDER BY band) IS NULL)
        AND coalesce(until > $start, true)
    ORDER BY group_id, band
"""  # noqa: S608 - put together from constants

# A group without records of its own after a hole may still have offsets whose records are missing. So each row has the
# time from which the group counts as Dead, and the group's next record.
AFTER_HOLES = f"""
    WITH seen AS (
        SELECT group_id, event, to_state, max(log_timestamp) OVER (PARTITION BY group_id ORDER BY seq) AS since
        FROM group_timeline WHERE cluster = $cluster {{of_groups}}
    ), complete AS (
        SELECT DISTINCT group_id, since FROM seen WHERE event = '{COMPLETE}' AND to_state = 'Dead' AND since IS NOT NULL
    )
    SELECT complete.group_id AS of_group, since, min(seen) FILTER (place IS NOT NULL), min(place),
           min(place) FILTER (is_begin_open)
    FROM complete JOIN ({LATER_ROWS}) AS later ON later.group_id = complete.group_id
    WHERE seen > since AND coalesce(lost_at <= since, true)
    GROUP BY of_group, since ORDER BY of_group, since
"""  # noqa: S608 - put together from constants

_ASSIGNED = """array_to_string(list_transform({column}, lambda one:
    coalesce(one.topic, one.topic_id) || ':' || array_to_string(one.partitions, ',')), '; ')"""

MEMBERS = f"""
    SELECT group_id, member_id, instance_id, client_id, client_host, coalesce(is_client_inherited, false), group_type,
           member_state, member_epoch,
           coalesce(list_sum(list_transform(assigned, lambda one: len(one.partitions))), 0)
           + coalesce(list_sum(list_transform(pending_revocation, lambda one: len(one.partitions))), 0) AS partitions,
           {_ASSIGNED.format(column="assigned")} AS assigned,
           {_ASSIGNED.format(column="pending_revocation")} AS pending,
           epoch_ms(valid_from), epoch_ms(valid_to)
    FROM member_timeline
    WHERE cluster = $cluster {{of_groups}}
      AND (valid_to IS NOT NULL OR to_offset IS NULL)
      AND coalesce(valid_to > $start, true) AND coalesce(valid_from < $end, true)
    QUALIFY row_number() OVER (
        PARTITION BY group_id ORDER BY valid_from DESC NULLS LAST, from_offset DESC, member_id
    ) <= $most + 1
    ORDER BY group_id, valid_from DESC NULLS LAST, from_offset DESC, member_id
"""  # noqa: S608 - put together from constants

OWNERS = """
    SELECT group_id, coalesce(topic, topic_id, '?') AS name, partition, member_id, instance_id, epoch_ms(owned_from),
           epoch_ms(owned_to), released_by, unowned_ms,
           list_transform(unowned, lambda one: [epoch_ms(one.since), epoch_ms(one.until)]), coalesce(is_exact, false)
    FROM partition_ownership
    WHERE cluster = $cluster {of_groups}
      AND (owned_to IS NOT NULL OR to_offset IS NULL)
      AND coalesce(CASE WHEN len(unowned) > 0 THEN unowned[-1].until ELSE owned_to END >= $start, true)
      AND coalesce(owned_from < $end, true)
    QUALIFY row_number() OVER (PARTITION BY group_id ORDER BY owned_from DESC NULLS LAST, name, partition) <= $most + 1
    ORDER BY group_id, owned_from DESC NULLS LAST, name, partition
"""

LINE_COUNTS = """
    SELECT group_id, sum(commits), count(*), min(first), max(last) FROM (
        SELECT group_id, count(*) FILTER (committed_offset >= 0) AS commits, min(valid_from) AS first,
               max(coalesce(valid_to, valid_from)) AS last
        FROM offset_history
        WHERE cluster = $cluster {of_groups} AND coalesce(valid_to > $start, true) AND coalesce(valid_from < $end, true)
        GROUP BY group_id, topic, partition
    ) GROUP BY group_id
"""

# A line keeps the last commit of each time range, and every offset that was rewound or removed. ``$firsts`` and
# ``$widths`` are the beginning of each group's first range, and the length of its ranges. ``$starts`` and ``$ends`` are
# the bounds of each group's figures. A commit is the last of its range if the next commit came in another range. Each
# row has the times of both commits, so millions of commits need not be sorted or compared. A line ends at a negative
# offset, which is no offset, and where the topic may have been created again.
LINES = """
    WITH groups AS (
        SELECT unnest($groups) AS group_id, unnest($firsts) AS first_ms, unnest($widths) AS width,
               unnest($starts) AS start_ms, unnest($ends) AS end_ms
    ), inside AS (
        SELECT group_id, topic, partition, committed_offset, valid_to, first_ms, width, start_ms, end_ms,
               {place} AS place, epoch_ms(valid_from) AS since_ms, epoch_ms(valid_to) AS until_ms,
               CASE WHEN ended_by <> 'COMMIT' THEN ended_by END AS removed_by,
               CASE WHEN committed_offset < previous_offset THEN previous_offset END AS back_from,
               CASE WHEN committed_offset < 0 THEN replaced_offset END AS lost_offset,
               committed_offset < 0 OR (replaced_offset IS NOT NULL AND previous_offset IS NULL) AS is_new
        FROM offset_history JOIN groups USING (group_id)
        WHERE cluster = $cluster {of_groups} AND committed_offset IS NOT NULL
          AND coalesce(valid_to > $start, true) AND coalesce(valid_from < $end, true)
    ), kept AS (
        SELECT *, end_ms - start_ms AS length FROM inside
        WHERE (since_ms - first_ms) // width IS DISTINCT FROM (until_ms - first_ms) // width
           OR coalesce(valid_to >= $end, valid_to IS NULL) OR back_from IS NOT NULL OR removed_by IS NOT NULL
           OR is_new
    ), lines AS (
        SELECT group_id, topic, partition, list({
            'at': greatest(least(coalesce(since_ms - start_ms, 0), length), 0),
            'until': greatest(least(coalesce(until_ms - start_ms, length), length), 0),
            'committed_offset': committed_offset,
            'back_from': back_from,
            'lost_offset': lost_offset,
            'removed_by': CASE WHEN until_ms <= end_ms THEN removed_by END,
            'is_end': removed_by IS NOT NULL,
            'is_new': is_new
        } ORDER BY place) AS points
        FROM kept GROUP BY group_id, topic, partition
    ), ended AS (
        SELECT group_id, topic, partition, list_transform(points, lambda one, place: struct_insert(one, ended :=
            CASE WHEN one.is_end THEN one.until WHEN points[place + 1].is_new THEN points[place + 1].at END)) AS points
        FROM lines
    ), drawn AS (
        SELECT *, list_filter(points, lambda one: one.committed_offset >= 0) AS drawn FROM ended
    )
    SELECT group_id, topic, partition,
           list_transform(drawn, lambda one: one.at),
           list_transform(drawn, lambda one: one.committed_offset),
           list_transform(drawn, lambda one: one.ended),
           drawn[-1].until,
           list_filter(points, lambda one: one.back_from IS NOT NULL OR one.removed_by IS NOT NULL
               OR one.lost_offset IS NOT NULL)
    FROM drawn WHERE len(drawn) > 0 ORDER BY group_id, topic, partition
""".replace("{place}", in_log_order("offset_history"))

# This counts records. A row of offset_history may begin before the range, and may stand for several commits.
COMMIT_COUNTS = """
    SELECT group_id, count(*) FROM offset_commits AS records
    WHERE cluster = $cluster {of_groups} AND is_tombstone IS NOT TRUE AND {counts}
      AND coalesce(log_timestamp >= $start, true) AND coalesce(log_timestamp < $end, true)
    GROUP BY group_id
""".replace("{counts}", COUNTS)

# A rebalance's commit_pause_ms is the length of its pause. The pause goes from one commit of a partition to the next,
# or to the place where records begin to be missing.
PAUSES = """
    WITH paused AS (
        SELECT group_id, rebalance_id, commit_pause_ms, completed_at, coalesce(started_at, completed_at) AS began
        FROM rebalances WHERE cluster = $cluster {of_groups} AND commit_pause_ms IS NOT NULL
    ), commits AS (
        SELECT group_id, topic, partition, valid_from AS since, valid_to AS until FROM offset_history
        WHERE cluster = $cluster {of_groups} AND ended_by IN ('COMMIT', 'RECORDS_MISSING')
    )
    SELECT paused.group_id AS of_group, rebalance_id, first(topic ORDER BY topic, partition) AS of_topic,
           first(partition ORDER BY topic, partition), first(since ORDER BY topic, partition),
           first(until ORDER BY topic, partition)
    FROM paused JOIN commits ON commits.group_id = paused.group_id
     AND epoch_ms(until) - epoch_ms(since) = commit_pause_ms AND since <= completed_at AND until >= began
    GROUP BY paused.group_id, rebalance_id ORDER BY of_group, rebalance_id
"""
