-- Latches that the send deadline has passed: open becomes unknown_final, and stays it. Every lease
-- ends.
update operations
set last_seen_at_ns = max(last_seen_at_ns, :at_ns),
    elapsed_ns = max(elapsed_ns, :elapsed_ns),
    state = case state when 'open' then 'unknown_final' else state end,
    lease_owner = x'',
    lease_until_ns = 0
where namespace = :namespace and operation_id = :operation_id
returning /* columns */;
