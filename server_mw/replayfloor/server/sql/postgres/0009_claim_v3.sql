-- Promises: of any number of simultaneous calls for one id, exactly one is answered 'claimed', and
-- none is while the id has a receipt that finished less than the retention ago. What is older is
-- never replayed; whether it is taken for a new key is the caller's choice.
--
-- What claim_v2 says about the order of the statements holds here word for word: the insert comes
-- first, and the look at the receipts in a later statement, under READ COMMITTED.
--
-- p_takeover: see claim_v2. p_retention_ms: how long a receipt is live after it was finished, null
-- for ever. p_reuse says what becomes of a key without a live receipt: 'tell' takes it and says
-- whether it was used before, 'refuse' takes it unless it was, 'never' does not take it. p_proofs:
-- look for proofs too.
--
-- state: claimed | taken_over | in_flight | finished | orphaned | expired; age_ms is the rest of
-- the lease, negative once it ran out, or the rest of a finished one's retention; reused says of a
-- taken key that it was used before.
--
-- The receipt of a key that is used again is moved to the proofs: so an id has one receipt at most,
-- in whichever partition, and the key stays known as used if this execution comes to nothing.

create function replayfloor.claim_v3(
    p_id uuid, p_fingerprint uuid, p_fence uuid, p_lease_ms integer, p_takeover boolean,
    p_retention_ms bigint, p_reuse text, p_proofs boolean,
    out state text, out fingerprint uuid, out age_ms bigint, out response bytea,
    out reused boolean
) language plpgsql as $$
declare
    v_now timestamptz;
    v_present timestamptz;
    v_fence uuid;
    v_until timestamptz;
    v_finished_at timestamptz;
begin
    -- Also where a database or a role does not wait for commits: a claim or a receipt that is lost
    -- in a crash of the server is a second execution. Other settings are left as they are.
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'replayfloor.claim_v3 needs READ COMMITTED, not %',
            current_setting('transaction_isolation')
            using errcode = 'invalid_transaction_state';
    end if;
    reused := false;
    -- A claim can vanish between the insert that met it and the look at it. Each turn then meets
    -- a newer state; a key that changes hands this often within one call is not going to settle.
    for v_turn in 1..8 loop
        v_now := clock_timestamp();
        insert into replayfloor.claims as c (id, fingerprint, fence, claimed_at, lease_until)
        values (p_id, p_fingerprint, p_fence, v_now, v_now + p_lease_ms * interval '1 ms')
        on conflict (id) do nothing;
        if found then
            v_present := replayfloor.now_v1();
            select r.fingerprint, r.response, r.finished_at
            into fingerprint, response, v_finished_at
            from replayfloor.receipts as r
            -- A receipt cannot be from the future: this spares the partitions made ahead.
            where r.id = p_id and r.finished_at <= v_present + interval '1 hour';
            if not found then
                reused := p_proofs and exists (
                    select from replayfloor.proofs as p where p.id = p_id);
            elsif p_retention_ms is null
                or v_finished_at > v_present - p_retention_ms * interval '1 ms'
            then
                delete from replayfloor.claims as c where c.id = p_id and c.fence = p_fence;
                state := 'finished';
                age_ms := ceil(p_retention_ms
                    - extract(epoch from v_present - v_finished_at) * 1000);
                return;
            else
                reused := true;
            end if;

            if p_reuse = 'never' or (p_reuse = 'refuse' and reused) then
                delete from replayfloor.claims as c where c.id = p_id and c.fence = p_fence;
                state := 'expired';
                response := null;
                return;
            end if;
            if v_finished_at is not null then
                delete from replayfloor.receipts as r
                where r.id = p_id and r.finished_at = v_finished_at;
                insert into replayfloor.proofs (id, used_at) values (p_id, v_present)
                on conflict do nothing;
                response := null;
            end if;
            state := 'claimed';
            return;
        end if;

        select c.fingerprint, c.fence, c.lease_until into fingerprint, v_fence, v_until
        from replayfloor.claims as c where c.id = p_id;
        continue when not found;
        age_ms := ceil(extract(epoch from v_until - clock_timestamp()) * 1000);
        if v_fence = p_fence then
            state := 'claimed';
        elsif age_ms > 0 then
            state := 'in_flight';
            return;
        elsif not p_takeover or fingerprint <> p_fingerprint then
            state := 'orphaned';
            return;
        else
            v_now := clock_timestamp();
            update replayfloor.claims as c
            set fence = p_fence, lease_until = v_now + p_lease_ms * interval '1 ms'
            where c.id = p_id and c.fence = v_fence and c.lease_until <= v_now;
            continue when not found;
            state := 'taken_over';
        end if;
        reused := p_proofs and exists (select from replayfloor.proofs as p where p.id = p_id);
        return;
    end loop;
    raise exception 'replayfloor.claim_v3: the claim keeps changing hands'
        using errcode = 'serialization_failure';
end
$$;
