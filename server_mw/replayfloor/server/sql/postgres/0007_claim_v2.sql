-- Promises: of any number of simultaneous calls for one id, exactly one returns 'claimed', and
-- none does once the id has a receipt.
--
-- The order is what makes it true: first the insert, then, in a LATER statement, the look into
-- receipts. If a finishing transaction still holds the id, the insert waits at the unique index
-- until that transaction ended, and the later statement's snapshot then sees its receipt. With
-- the look first, or both in one statement, the look would be older than the finish and the key
-- would run twice. That is also why the isolation level is checked: under REPEATABLE READ every
-- statement has the first one's snapshot.
--
-- p_takeover lets an orphan with the same fingerprint pass to the caller. The lease is compared
-- with this server's clock, never with a caller's. Unlike with claim_v1, which workers of an older
-- release go on calling, claimed_at stays through a takeover: it tells how old the key is, and
-- took_ms of the receipt counts from there.
--
-- state: claimed | taken_over | in_flight | finished | orphaned; age_ms is the rest of the lease,
-- negative once it ran out.

create function replayfloor.claim_v2(
    p_id uuid, p_fingerprint uuid, p_fence uuid, p_lease_ms integer, p_takeover boolean,
    out state text, out fingerprint uuid, out age_ms bigint, out response bytea
) language plpgsql as $$
declare
    v_now timestamptz;
    v_fence uuid;
    v_until timestamptz;
begin
    -- Also where a database or a role does not wait for commits: a claim or a receipt that is lost
    -- in a crash of the server is a second execution. Other settings are left as they are.
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'replayfloor.claim_v2 needs READ COMMITTED, not %',
            current_setting('transaction_isolation')
            using errcode = 'invalid_transaction_state';
    end if;
    -- A claim can vanish between the insert that met it and the look at it. Each turn then meets
    -- a newer state; a key that changes hands this often within one call is not going to settle.
    for v_turn in 1..8 loop
        v_now := clock_timestamp();
        insert into replayfloor.claims as c (id, fingerprint, fence, claimed_at, lease_until)
        values (p_id, p_fingerprint, p_fence, v_now, v_now + p_lease_ms * interval '1 ms')
        on conflict (id) do nothing;
        if found then
            select r.fingerprint, r.response into fingerprint, response
            from replayfloor.receipts as r
            -- A receipt cannot be from the future: this spares the partitions made ahead.
            where r.id = p_id and r.finished_at <= v_now + interval '1 hour';
            if found then
                delete from replayfloor.claims as c where c.id = p_id and c.fence = p_fence;
                state := 'finished';
            else
                state := 'claimed';
            end if;
            return;
        end if;

        select c.fingerprint, c.fence, c.lease_until into fingerprint, v_fence, v_until
        from replayfloor.claims as c where c.id = p_id;
        continue when not found;
        age_ms := ceil(extract(epoch from v_until - clock_timestamp()) * 1000);
        if v_fence = p_fence then
            state := 'claimed';
            return;
        elsif age_ms > 0 then
            state := 'in_flight';
            return;
        elsif not p_takeover or fingerprint <> p_fingerprint then
            state := 'orphaned';
            return;
        end if;

        v_now := clock_timestamp();
        update replayfloor.claims as c
        set fence = p_fence, lease_until = v_now + p_lease_ms * interval '1 ms'
        where c.id = p_id and c.fence = v_fence and c.lease_until <= v_now;
        if found then
            state := 'taken_over';
            return;
        end if;
    end loop;
    raise exception 'replayfloor.claim_v2: the claim keeps changing hands'
        using errcode = 'serialization_failure';
end
$$;
