-- Promises: the claim goes and the receipt comes in one commit, and only for the claim's fence.
--
-- Returns whether it did. In the handler's own transaction, false means that the claim was lost
-- and everything has to be rolled back.

create function replayfloor.finish_v1(
    p_id uuid, p_fence uuid, p_fingerprint uuid, p_status smallint, p_response bytea
) returns boolean language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
begin
    -- Also where a database or a role does not wait for commits: a claim or a receipt that is lost
    -- in a crash of the server is a second execution. Other settings are left as they are.
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    with gone as (
        delete from replayfloor.claims where id = p_id and fence = p_fence returning claimed_at
    )
    insert into replayfloor.receipts (id, fingerprint, finished_at, took_ms, status, response)
    select p_id, p_fingerprint, v_now,
           -- A clock that was set back must not make the receipt fail.
           greatest(0, least(2147483647, extract(epoch from v_now - claimed_at) * 1000))::integer,
           p_status, p_response
    from gone;
    return found;
end
$$;
