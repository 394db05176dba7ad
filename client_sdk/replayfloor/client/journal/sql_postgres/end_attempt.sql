-- Records, durably, what one attempt has taught: the worst outcome never decreases, done is never
-- undone. With done the caller's lease ends; a response and a retention that are null stay.
-- Done is not believed while another attempt may have been executed and no answer is the result.
update replayfloor_client.operations
set attempts_ended = attempts_ended + 1,
    last_seen_at_ns = greatest(last_seen_at_ns, %(at_ns)s),
    elapsed_ns = greatest(elapsed_ns, %(elapsed_ns)s),
    worst = greatest(worst, cast(%(outcome)s as smallint)),
    (state, final_status, response) = (
        -- Of the row itself, and so of what others have written to it meanwhile.
        select case when settles then 'done' else state end,
               case when settles then cast(%(final_status)s as integer) else final_status end,
               case when settles
                    then coalesce(cast(%(response)s as bytea), response) else response end
        from (select %(done)s and (after = 4 or (after <= 1 and attempts <= attempts_ended + 1))
                     as settles
              from (select greatest(worst, cast(%(outcome)s as smallint)) as after) as known
        ) as told),
    last_evidence = %(evidence)s,
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
