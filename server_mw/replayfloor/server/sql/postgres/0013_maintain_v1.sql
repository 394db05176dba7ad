-- Promises what docs/operating.md says of the maintenance: afterwards partitions are made ahead,
-- and nothing that is past its retention is left, or the row of replayfloor.maintenance says what.
--
-- Any number of sessions may call it at once, every few minutes: one of them does it, and only if
-- the last run is p_every_ms ago. Who holds the lock may decide that; it is the transaction's, so
-- that it works behind a pooler too, and the lock of a migration. p_outcome: done | overdue (the
-- row says what) | busy | not due.
--
-- It commits: call it outside of a transaction. A run that is killed is repeated by the next.
create procedure replayfloor.maintain_v1(
    p_retention_ms bigint, p_width_ms bigint, p_ahead_ms bigint, p_audit_ms bigint default null,
    p_by text default 'sql', p_every_ms bigint default 0, p_accept_shorter boolean default false,
    p_lock_ms integer default 50, p_tries integer default 40, inout p_outcome text default null
) language plpgsql as $$
declare
    c_lock constant bigint := 125780003414393; -- also that of `replayfloor migrate`
    c_batch constant integer := 1000;
    c_proofs_ahead constant interval := interval '62 days';
    v_clock timestamptz := clock_timestamp();
    v_present timestamptz := replayfloor.now_v1();
    v_before replayfloor.maintenance;
    v_names text[];
    v_name text;
    v_made integer := 0;
    v_dropped integer := 0;
    v_removed bigint := 0;
    v_proofs bigint := 0;
    v_batch bigint;
    v_done boolean;
    v_left text[] := '{}';
begin
    if not pg_try_advisory_xact_lock(c_lock) then
        p_outcome := 'busy';
        return;
    end if;
    select * into v_before from replayfloor.maintenance;
    if p_every_ms > 0 and v_present - v_before.ran_at
        between interval '0' and (p_every_ms - 1) * interval '1 ms'
    then
        p_outcome := 'not due';
        return;
    end if;
    perform replayfloor.keep_v1(p_retention_ms, p_width_ms, p_audit_ms, p_accept_shorter);
    update replayfloor.maintenance
    set ran_at = v_present, by_whom = p_by, outcome = 'running', detail = '';
    -- What waits to attach a partition holds up no request.
    perform set_config('lock_timeout', '10s', true);
    v_made := replayfloor.ensure_proofs_v2(v_present, v_present + c_proofs_ahead);
    if replayfloor.is_partitioned_v1() then
        v_made := v_made + replayfloor.ensure_partitions_v2(
            p_width_ms, v_present + p_ahead_ms * interval '1 ms');
    elsif p_audit_ms is not null then
        v_made := v_made + replayfloor.ensure_proofs_v2(
            coalesce((select min(finished_at) from replayfloor.receipts), v_present), v_present);
    end if;
    commit;

    if replayfloor.is_partitioned_v1() then
        v_names := array(
            select e.name from replayfloor.expired_partitions_v1('receipts', p_retention_ms) as e);
        if p_audit_ms is not null then
            perform replayfloor.ensure_proofs_v2(e.starts_at, e.ends_at)
            from replayfloor.expired_partitions_v1('receipts', p_retention_ms) as e;
        end if;
        foreach v_name in array v_names loop
            call replayfloor.expire_partition_v1(
                v_name, p_audit_ms is not null, p_lock_ms, p_tries, v_proofs, v_done);
            if not v_done then
                v_left := v_left || v_name;
                exit; -- what holds this lock most likely holds the others
            end if;
            v_dropped := v_dropped + 1;
        end loop;
    else
        loop
            v_batch := replayfloor.sweep_v1(p_retention_ms, p_audit_ms is not null, c_batch);
            v_removed := v_removed + v_batch;
            commit;
            exit when v_batch < c_batch; -- what expires meanwhile is the next run's
        end loop;
        v_proofs := case when p_audit_ms is null then 0 else v_removed end;
        if not replayfloor.unbound_plain_v1(p_lock_ms) then
            v_left := v_left || 'a conversion that was given up'::text;
        end if;
        commit;
    end if;

    v_names := array(
        select e.name from replayfloor.expired_partitions_v1(
            'proofs', coalesce(p_audit_ms, p_retention_ms)) as e);
    foreach v_name in array v_names loop
        call replayfloor.expire_partition_v1(
            v_name, false, p_lock_ms, p_tries, v_batch, v_done);
        if not v_done then
            v_left := v_left || v_name;
            exit;
        end if;
        v_dropped := v_dropped + 1;
    end loop;

    p_outcome := case when v_left = '{}' then 'done' else 'overdue' end;
    update replayfloor.maintenance
    set took_ms = extract(epoch from clock_timestamp() - v_clock) * 1000,
        succeeded_at = case when p_outcome = 'done' then v_present else succeeded_at end,
        outcome = p_outcome,
        detail = case when p_outcome = 'done' then '' else
            'not dropped, others hold locks: ' || array_to_string(v_left, ', ') end,
        made = v_made, dropped = v_dropped, removed = v_removed, proofs = v_proofs;
end
$$;

-- Notes what is kept for how long. A shorter retention than the one that is noted is refused: a
-- worker of an older release, or with another policy, may still promise the longer one.
create function replayfloor.keep_v1(
    p_retention_ms bigint, p_width_ms bigint, p_audit_ms bigint, p_accept_shorter boolean
) returns void language plpgsql as $$
declare
    v_noted replayfloor.maintenance;
    v_longest_ms double precision;
begin
    select * into v_noted from replayfloor.maintenance;
    -- Namespaces share the tables, so that the longest retention of them all counts.
    select max(p.retention_s) * 1000 into v_longest_ms from replayfloor.policies as p;
    if p_retention_ms < v_longest_ms and not p_accept_shorter then
        raise exception
            'replayfloor: a deployment keeps receipts for % s, and % s would be shorter',
            v_longest_ms / 1000.0, p_retention_ms / 1000.0
            using errcode = 'invalid_parameter_value',
                  hint = 'See `replayfloor retention status`; --accept-shorter overrides it';
    end if;
    if p_retention_ms < v_noted.retention_ms and not p_accept_shorter then
        raise exception 'replayfloor: receipts are kept for % s here, and % s would be shorter',
            v_noted.retention_ms / 1000.0, p_retention_ms / 1000.0
            using errcode = 'invalid_parameter_value',
                  hint = 'Say --accept-shorter if no worker promises the longer retention any more';
    end if;
    update replayfloor.maintenance
    set retention_ms = p_retention_ms, width_ms = p_width_ms, audit_ms = p_audit_ms;
end
$$;
