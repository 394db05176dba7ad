-- Takes the lease and counts one more attempt, unless another's lease lasts or nothing may be sent
-- any more; returns the row in either case. What was done because it was refused is open again. The
-- one statement is the compare-and-set: SQLite has one writer, and `granted` is read by it.
update operations
set attempts = attempts + granted,
    last_attempt_at_ns =
        case when granted then max(last_attempt_at_ns, :at_ns) else last_attempt_at_ns end,
    last_seen_at_ns = case when granted then max(last_seen_at_ns, :at_ns) else last_seen_at_ns end,
    elapsed_ns = case when granted then max(elapsed_ns, :elapsed_ns) else elapsed_ns end,
    state = case when reopened then 'open' else state end,
    final_status = case when reopened then null else final_status end,
    response = case when reopened then null else response end,
    lease_owner = case when granted then :lease_owner else lease_owner end,
    lease_until_ns =
        case when not granted then lease_until_ns
             when :lease_owner = x'' then 0
             else :at_ns + :lease_ns end
from (
    select granted, granted and refused as reopened
    from (
        select state in ('open', 'done')
               and (lease_owner in (x'', :lease_owner) or lease_until_ns <= :at_ns) as granted,
               state = 'done' and worst <= 1 as refused
        from operations
        where namespace = :namespace and operation_id = :operation_id))
where namespace = :namespace and operation_id = :operation_id
returning /* columns */;
