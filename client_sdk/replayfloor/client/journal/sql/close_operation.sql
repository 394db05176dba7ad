-- Latches that the send deadline has passed: open becomes unknown_final, and stays it.
update operations
set last_seen_at_ns = max(last_seen_at_ns, :at_ns),
    state = case state when 'open' then 'unknown_final' else state end
where namespace = :namespace and operation_id = :operation_id
returning /* columns */;
