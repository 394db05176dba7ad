-- Promises what finish_v2 promises; for a claim that is not the fence's it raises RF001, so that a
-- COMMIT that was sent along with it commits nothing.
create function replayfloor.finish_or_fail_v1(
    p_id uuid, p_fence uuid, p_fingerprint uuid, p_status smallint, p_response bytea
) returns boolean language plpgsql as $$
begin
    if not replayfloor.finish_v2(p_id, p_fence, p_fingerprint, p_status, p_response) then
        raise exception 'replayfloor.finish_or_fail_v1: the claim is another execution''s by now'
            using errcode = 'RF001';
    end if;
    return true;
end
$$;
