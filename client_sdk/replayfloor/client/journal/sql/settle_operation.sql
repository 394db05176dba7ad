-- Keeps what somebody found out, and ends every lease; done stays done. Returns the row.
update operations
set last_seen_at_ns = max(last_seen_at_ns, :at_ns),
    state = case state when 'done' then state else 'settled' end,
    settlement = case state when 'done' then settlement else :settlement end,
    note = case state when 'done' then note else :note end,
    lease_owner = case state when 'done' then lease_owner else x'' end,
    lease_until_ns = case state when 'done' then lease_until_ns else 0 end
where namespace = :namespace and operation_id = :operation_id
returning /* columns */;
