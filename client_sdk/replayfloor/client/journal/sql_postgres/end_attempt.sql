-- Records, durably, what one attempt has taught: the worst outcome never decreases, done is never
-- undone. With done the caller's lease ends; a response and a retention that are null stay.
update replayfloor_client.operations
set attempts_ended = attempts_ended + 1,
    last_seen_at_ns = greatest(last_seen_at_ns, %(at_ns)s),
    elapsed_ns = greatest(elapsed_ns, %(elapsed_ns)s),
    worst = greatest(worst, cast(%(outcome)s as smallint)),
    state = case when %(done)s then 'done' else state end,
    final_status = case when %(done)s then cast(%(final_status)s as integer) else final_status end,
    last_evidence = %(evidence)s,
    response = coalesce(cast(%(response)s as bytea), response),
    retention_s = coalesce(cast(%(retention_s)s as double precision), retention_s),
    send_deadline_ns = case when cast(%(retention_s)s as double precision) is null
                            then send_deadline_ns else %(send_deadline_ns)s end,
    lease_owner = case when %(done)s and lease_owner = %(lease_owner)s
                       then '' else lease_owner end,
    lease_until_ns = case when %(done)s and lease_owner = %(lease_owner)s
                          then 0 else lease_until_ns end
where namespace = %(namespace)s and operation_id = %(operation_id)s
  and replayfloor_client.durable_v1()
returning /* columns */;
