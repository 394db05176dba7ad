-- Removes what is finished, was last seen before the moment and cannot be replayed any more, the
-- oldest first; what is open or finally unknown never. Returns one row for each that was removed.
-- Rows that somebody is just writing to are left for the next time: nobody waits for anybody.
with old as materialized (
    select namespace, operation_id
    from replayfloor_client.operations
    where state in ('done', 'settled')
      and last_seen_at_ns < %(finished_before_ns)s
      and send_deadline_ns < %(finished_before_ns)s
      and (cast(%(namespace)s as text) is null or namespace = %(namespace)s)
    order by last_seen_at_ns
    limit %(limit)s
    for update skip locked
)
delete from replayfloor_client.operations as o
using old
where o.namespace = old.namespace and o.operation_id = old.operation_id
returning o.operation_id;
