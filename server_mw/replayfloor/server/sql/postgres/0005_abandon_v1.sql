-- Promises: the key is free again, if the claim is still the fence's; returns whether it was.

create function replayfloor.abandon_v1(p_id uuid, p_fence uuid) returns boolean
language plpgsql as $$
begin
    delete from replayfloor.claims where id = p_id and fence = p_fence;
    return found;
end
$$;
