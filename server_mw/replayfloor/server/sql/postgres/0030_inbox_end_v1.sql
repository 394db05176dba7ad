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

-- What was held by an event of a subject that is gone by now is due. Nothing for a null.
create function replayfloor.inbox_release_v1(p_subject_id uuid) returns void language plpgsql as $$
begin
    update replayfloor.inbox as i
    set due_at = clock_timestamp()
    where i.subject_id = p_subject_id and i.fence is null and i.attempts = 0
      and i.due_at > clock_timestamp()
      and i.seq = (
          select min(first.seq)
          from replayfloor.inbox as first where first.subject_id = p_subject_id);
end
$$;

-- The event was applied, and is gone.
create function replayfloor.inbox_done_v1(p_id uuid, p_fence uuid)
returns boolean language plpgsql as $$
declare
    v_subject_id uuid;
begin
    delete from replayfloor.inbox where id = p_id and fence = p_fence
    returning subject_id into v_subject_id;
    if not found then
        return false;
    end if;
    if v_subject_id is not null then
        perform replayfloor.inbox_release_v1(v_subject_id);
    end if;
    return true;
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

-- The event is gone without having been applied, and it is noted who wanted it and why. One in work
-- is left alone.
create function replayfloor.inbox_drop_v1(p_id uuid, p_by text, p_detail text)
returns boolean language plpgsql as $$
declare
    v_gone replayfloor.inbox;
begin
    delete from replayfloor.inbox
    where id = p_id and (fence is null or lease_until <= clock_timestamp())
    returning * into v_gone;
    if not found then
        return false;
    end if;
    insert into replayfloor.audit (by_whom, action, id, detail)
    values (p_by, 'inbox drop', p_id,
            concat_ws('; ', v_gone.source, v_gone.event_id, v_gone.attempts || ' attempts',
                      nullif(v_gone.last_error, ''), p_detail));
    perform replayfloor.inbox_release_v1(v_gone.subject_id);
    perform replayfloor.inbox_wake_v1(v_gone.namespace);
    return true;
end
$$;
