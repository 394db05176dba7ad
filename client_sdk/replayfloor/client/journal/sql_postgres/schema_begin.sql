-- Inserts the operation unless its id or its key is taken, durably; returns what stands, and
-- whether it stood before.
--
-- The insert decides, by the unique indexes: it waits for whoever is just inserting the same. The
-- look at what has refused it comes in a later statement, which sees what was committed meanwhile.
-- With a lease above 0 it begins now, by this server's clock.
create function replayfloor_client.begin_v1(
    p_entry replayfloor_client.operations, p_lease_ns bigint,
    out resumed boolean, out entry replayfloor_client.operations
) language plpgsql volatile as $$
begin
    perform replayfloor_client.durable_v1();
    if p_lease_ns > 0 then
        p_entry.lease_until_ns := replayfloor_client.clock_ns_v1() + p_lease_ns;
    end if;
    -- What has refused the insert can be pruned before the look at it. Each turn meets a newer
    -- state; an operation that comes and goes this often within one call is not going to settle.
    for v_turn in 1..8 loop
        insert into replayfloor_client.operations select p_entry.* on conflict do nothing;
        if found then
            resumed := false;
            entry := p_entry;
            return;
        end if;
        select o.* into entry
        from replayfloor_client.operations as o
        where o.namespace = p_entry.namespace
          and (o.operation_id = p_entry.operation_id or o.key = p_entry.key)
        order by o.operation_id = p_entry.operation_id desc
        limit 1;
        if found then
            resumed := true;
            return;
        end if;
    end loop;
    raise exception 'replayfloor_client.begin_v1: the operation keeps coming and going'
        using errcode = 'serialization_failure';
end
$$;
