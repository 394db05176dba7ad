-- Promises: whatever a worker says of an event that it has taken counts if, and only if, the event
-- is still its own by the fence; each function returns whether it was.

-- The lease begins anew. Also one that ran out, unless another worker has taken the event.
create function replayfloor.inbox_renew_v1(p_id uuid, p_fence uuid, p_lease_ms integer)
returns boolean language plpgsql as $$
begin
    update replayfloor.inbox
    set lease_until = clock_timestamp() + p_lease_ms * interval '1 ms'
    where id = p_id and fence = p_fence;
    return found;
end
$$;

-- The event was applied, and is gone.
create function replayfloor.inbox_done_v1(p_id uuid, p_fence uuid)
returns boolean language plpgsql as $$
begin
    delete from replayfloor.inbox where id = p_id and fence = p_fence;
    return found;
end
$$;

-- The same, but where the event is another worker's it raises RF001, so that a COMMIT that was sent
-- along with it commits nothing.
create function replayfloor.inbox_done_or_fail_v1(p_id uuid, p_fence uuid)
returns boolean language plpgsql as $$
begin
    if not replayfloor.inbox_done_v1(p_id, p_fence) then
        raise exception 'replayfloor.inbox_done_or_fail_v1: the event is another worker''s by now'
            using errcode = 'RF001';
    end if;
    return true;
end
$$;

-- The event is due again after a while, or at once. An attempt that was cut short without any fault
-- of the event (the worker was told to stop) does not count.
create function replayfloor.inbox_later_v1(
    p_id uuid, p_fence uuid, p_after_ms bigint, p_error text, p_counts boolean
) returns boolean language plpgsql as $$
begin
    update replayfloor.inbox
    set fence = null, lease_until = null,
        due_at = clock_timestamp() + p_after_ms * interval '1 ms',
        attempts = attempts - case when p_counts then 0 else 1 end,
        last_error = case when p_counts then p_error else last_error end,
        last_at = clock_timestamp()
    where id = p_id and fence = p_fence;
    return found;
end
$$;

-- The event goes to the dead letters, and stays there until a person has decided.
create function replayfloor.inbox_bury_v1(p_id uuid, p_fence uuid, p_error text)
returns boolean language plpgsql as $$
begin
    update replayfloor.inbox
    set fence = null, lease_until = null, state = 'dead',
        last_error = p_error, last_at = clock_timestamp()
    where id = p_id and fence = p_fence;
    return found;
end
$$;
