-- Promises of each entry what finish_v2 promises of a call. Returns the fences that were obeyed,
-- null if there is none: what is not among them has lost its claim, and nothing was stored for it.
create function replayfloor.finish_batch_v1(
    p_ids uuid[], p_fences uuid[], p_fingerprints uuid[], p_statuses smallint[], p_responses bytea[]
) returns uuid[] language plpgsql as $$
declare
    v_fences uuid[];
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    -- Each entry is looked up by the index, whatever size the table had when this was planned.
    -- For this transaction only, which is this call.
    perform set_config('enable_seqscan', 'off', true),
            set_config('enable_hashjoin', 'off', true),
            set_config('enable_mergejoin', 'off', true);
    with gone as (
        delete from replayfloor.claims as c
        using unnest(p_ids, p_fences, p_fingerprints, p_statuses, p_responses)
            as e (id, fence, fingerprint, status, response)
        where c.id = e.id and c.fence = e.fence
        returning c.id, c.fence, c.claimed_at, e.fingerprint, e.status, e.response
    ), stored as (
        insert into replayfloor.receipts (id, fingerprint, finished_at, took_ms, status, response)
        select g.id, g.fingerprint, replayfloor.now_v1(),
               -- A clock that was set back must not make the receipt fail.
               greatest(0, least(2147483647,
                   extract(epoch from clock_timestamp() - g.claimed_at) * 1000))::integer,
               g.status, g.response
        from gone as g
    )
    select array_agg(g.fence) into v_fences from gone as g;
    return v_fences;
end
$$;
