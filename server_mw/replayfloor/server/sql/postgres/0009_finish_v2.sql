-- Promises what finish_v1 promises; finished_at is the present of now_v1, which claim_v3 asks.
create function replayfloor.finish_v2(
    p_id uuid, p_fence uuid, p_fingerprint uuid, p_status smallint, p_response bytea
) returns boolean language plpgsql as $$
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    with gone as (
        delete from replayfloor.claims where id = p_id and fence = p_fence returning claimed_at
    )
    insert into replayfloor.receipts (id, fingerprint, finished_at, took_ms, status, response)
    select p_id, p_fingerprint, replayfloor.now_v1(),
           -- A clock that was set back must not make the receipt fail.
           greatest(0, least(
               2147483647, extract(epoch from clock_timestamp() - claimed_at) * 1000))::integer,
           p_status, p_response
    from gone;
    return found;
end
$$;
