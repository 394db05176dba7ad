-- Promises: the claim's lease begins anew, if it is still the fence's; returns whether it was.

create function replayfloor.renew_v1(p_id uuid, p_fence uuid, p_lease_ms integer) returns boolean
language plpgsql as $$
begin
    update replayfloor.claims
    set lease_until = clock_timestamp() + p_lease_ms * interval '1 ms'
    where id = p_id and fence = p_fence;
    return found;
end
$$;
