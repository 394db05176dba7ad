-- Keeps, durably, what somebody found out, and ends every lease; done stays done. Returns the row.
update replayfloor_client.operations
set last_seen_at_ns = greatest(last_seen_at_ns, %(at_ns)s),
    state = case state when 'done' then state else 'settled' end,
    settlement = case state when 'done' then settlement else %(settlement)s end,
    note = case state when 'done' then note else %(note)s end,
    lease_owner = case state when 'done' then lease_owner else '' end,
    lease_until_ns = case state when 'done' then lease_until_ns else 0 end
where namespace = %(namespace)s and operation_id = %(operation_id)s
  and replayfloor_client.durable_v1()
returning /* columns */;
