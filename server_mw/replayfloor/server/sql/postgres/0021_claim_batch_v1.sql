-- Promises of each entry what claim_v3 promises of a call, or changes nothing for it and says
-- 'alone'. One row comes back for each entry that was not simply taken.
--
-- An entry is its place in the arrays. No two have the same fence: it is what names an entry that
-- was taken. The caller sorts them by id, so that two batches wait for each other in one direction
-- only. What claim_v2 says about the order of insert and look holds here too: the insert is the
-- statement before the look, under READ COMMITTED.
--
-- state: in_flight | finished (see claim_v3) | alone: a claim whose lease ran out, a receipt that
-- has expired, a key with a proof, an entry that is asked for again. Such an entry is to be brought
-- to claim_v3 after this.

create function replayfloor.claim_batch_v1(
    p_ids uuid[], p_fingerprints uuid[], p_fences uuid[], p_leases_ms integer[],
    p_retentions_ms bigint[], p_proofs boolean
) returns table (place integer, state text, fingerprint uuid, age_ms bigint, response bytea)
language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_present timestamptz;
    v_met uuid[];
    v_ids uuid[];
    v_fences uuid[];
    v_undone uuid[];
    v_receipt record;
    v_claim record;
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'replayfloor.claim_batch_v1 needs READ COMMITTED, not %',
            current_setting('transaction_isolation')
            using errcode = 'invalid_transaction_state';
    end if;
    -- The plans are kept from a time when the tables may have been empty, and reading all of an
    -- empty table is cheapest. For this transaction only, which is this call.
    perform set_config('enable_seqscan', 'off', true);

    -- A claim that can be seen is not met by the insert. It may be one that a handler's own
    -- transaction is about to delete, and all entries would wait for that handler's commit.
    select array_agg(c.id) into v_met from replayfloor.claims as c where c.id = any (p_ids);

    with taken as (
        insert into replayfloor.claims as c (id, fingerprint, fence, claimed_at, lease_until)
        select e.id, e.fingerprint, e.fence, v_now, v_now + e.lease_ms * interval '1 ms'
        from unnest(p_ids, p_fingerprints, p_fences, p_leases_ms)
            as e (id, fingerprint, fence, lease_ms)
        where v_met is null or e.id <> all (v_met)
        on conflict (id) do nothing
        returning c.id, c.fence
    )
    select array_agg(t.id), array_agg(t.fence) into v_ids, v_fences from taken as t;

    if v_ids is not null then
        v_present := replayfloor.now_v1();
        for v_receipt in
            select r.id, r.fingerprint, r.response, r.finished_at
            from replayfloor.receipts as r
            -- A receipt cannot be from the future: this spares the partitions made ahead.
            where r.id = any (v_ids) and r.finished_at <= v_present + interval '1 hour'
        loop
            v_undone := v_undone || v_receipt.id;
            place := array_position(p_fences, v_fences[array_position(v_ids, v_receipt.id)]);
            age_ms := ceil(p_retentions_ms[place]
                - extract(epoch from v_present - v_receipt.finished_at) * 1000);
            if age_ms is null or age_ms > 0 then
                state := 'finished';
                fingerprint := v_receipt.fingerprint;
                response := v_receipt.response;
            else
                state := 'alone';
                fingerprint := null;
                response := null;
            end if;
            return next;
        end loop;
        fingerprint := null;
        response := null;
        age_ms := null;
        if p_proofs then
            for v_receipt in select p.id from replayfloor.proofs as p where p.id = any (v_ids) loop
                continue when v_receipt.id = any (v_undone);
                v_undone := v_undone || v_receipt.id;
                place := array_position(p_fences, v_fences[array_position(v_ids, v_receipt.id)]);
                state := 'alone';
                return next;
            end loop;
        end if;
        if v_undone is not null then
            delete from replayfloor.claims as c
            where c.id = any (v_undone) and c.fence = any (v_fences);
        end if;
    end if;

    if coalesce(cardinality(v_ids), 0) < cardinality(p_ids) then
        for place in select p from generate_subscripts(p_ids, 1) as p loop
            continue when p_fences[place] = any (v_fences);
            select c.fingerprint, c.fence, c.lease_until into v_claim
            from replayfloor.claims as c where c.id = p_ids[place];
            age_ms := ceil(extract(epoch from v_claim.lease_until - clock_timestamp()) * 1000);
            if found and v_claim.fence <> p_fences[place] and age_ms > 0 then
                state := 'in_flight';
                fingerprint := v_claim.fingerprint;
            else
                state := 'alone';
                fingerprint := null;
                age_ms := null;
            end if;
            return next;
        end loop;
    end if;
end
$$;
