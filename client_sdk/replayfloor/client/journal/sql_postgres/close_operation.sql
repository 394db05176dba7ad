-- Latches, durably, that the send deadline has passed: open becomes unknown_final, and stays it.
-- Every lease ends.
update replayfloor_client.operations
set last_seen_at_ns = greatest(last_seen_at_ns, %(at_ns)s),
    elapsed_ns = greatest(elapsed_ns, %(elapsed_ns)s),
    state = case state when 'open' then 'unknown_final' else state end,
    lease_owner = '',
    lease_until_ns = 0
where namespace = %(namespace)s and operation_id = %(operation_id)s
  and replayfloor_client.durable_v1()
returning /* columns */;
