-- Keeps what somebody found out, and ends every lease; done stays done. Without force an operation
-- that a call has a lease of stays as it is. Returns the row. The one statement is the look and the
-- change: SQLite has one writer.
update operations
set last_seen_at_ns = case when held then last_seen_at_ns else max(last_seen_at_ns, :at_ns) end,
    state = case when stays then state else 'settled' end,
    settlement = case when stays then settlement else :settlement end,
    note = case when stays then note else :note end,
    lease_owner = case when stays then lease_owner else x'' end,
    lease_until_ns = case when stays then lease_until_ns else 0 end
from (
    select held, held or done as stays
    from (
        select state = 'done' as done,
               state <> 'done' and not :force
               and lease_owner <> x'' and lease_until_ns > :at_ns as held
        from operations
        where namespace = :namespace and operation_id = :operation_id))
where namespace = :namespace and operation_id = :operation_id
returning /* columns */;
