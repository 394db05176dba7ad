-- Counts one more attempt, unless the outcome is finally unknown; returns the row in either case.
update operations
set attempts = attempts + (state <> 'unknown_final'),
    last_attempt_at_ns =
        case state when 'unknown_final' then last_attempt_at_ns
                   else max(last_attempt_at_ns, :at_ns) end,
    last_seen_at_ns =
        case state when 'unknown_final' then last_seen_at_ns
                   else max(last_seen_at_ns, :at_ns) end
where namespace = :namespace and operation_id = :operation_id
returning /* columns */;
