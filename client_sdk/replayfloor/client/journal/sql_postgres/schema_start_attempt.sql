-- Takes the lease and counts one more attempt, durably, unless another's lease lasts or nothing may
-- be sent any more; returns the row in either case, and none if there is none.
-- What was done because it was refused is open again.
--
-- The row is locked first, and what is decided is decided on the locked row at one moment of this
-- server's clock: of simultaneous calls, each decides on what the one before it has left.
create function replayfloor_client.start_attempt_v1(
    p_namespace text, p_operation_id text, p_at_ns bigint, p_elapsed_ns bigint,
    p_lease_owner bytea, p_lease_ns bigint
) returns setof replayfloor_client.operations language plpgsql volatile as $$
declare
    v_now_ns bigint;
    v_reopened boolean;
    v_entry replayfloor_client.operations;
begin
    select o.* into v_entry
    from replayfloor_client.operations as o
    where o.namespace = p_namespace and o.operation_id = p_operation_id
    for update;
    if not found then
        return;
    end if;
    v_now_ns := replayfloor_client.clock_ns_v1();
    if v_entry.state in ('open', 'done')
        and (v_entry.lease_owner in ('', p_lease_owner) or v_entry.lease_until_ns <= v_now_ns)
    then
        perform replayfloor_client.durable_v1();
        v_reopened := v_entry.state = 'done' and v_entry.worst <= 1;
        update replayfloor_client.operations as o
        set attempts = o.attempts + 1,
            last_attempt_at_ns = greatest(o.last_attempt_at_ns, p_at_ns),
            last_seen_at_ns = greatest(o.last_seen_at_ns, p_at_ns),
            elapsed_ns = greatest(o.elapsed_ns, p_elapsed_ns),
            state = case when v_reopened then 'open' else o.state end,
            final_status = case when v_reopened then null else o.final_status end,
            response = case when v_reopened then null else o.response end,
            lease_owner = p_lease_owner,
            lease_until_ns = case when p_lease_owner = '' then 0 else v_now_ns + p_lease_ns end
        where o.namespace = p_namespace and o.operation_id = p_operation_id
        returning o.* into v_entry;
    end if;
    return next v_entry;
end
$$;
