-- Promises: receipts whose partition is past the retention can be dropped without any request
-- waiting for longer than a few hundredths of a second, their ids kept as proofs if that is wanted.

-- What is kept for how long, and what the last run did: the one place where every worker, the
-- command line and a schedule in the database meet.
create table replayfloor.maintenance (
    one          boolean     primary key default true check (one),
    retention_ms bigint      check (retention_ms > 0),
    width_ms     bigint      check (width_ms > 0),
    audit_ms     bigint      check (audit_ms > retention_ms),
    ran_at       timestamptz,
    succeeded_at timestamptz,
    took_ms      bigint,
    by_whom      text        not null default '',
    outcome      text        not null default '',
    detail       text        not null default '',
    made         integer     not null default 0,
    dropped      integer     not null default 0,
    removed      bigint      not null default 0,
    proofs       bigint      not null default 0
);
insert into replayfloor.maintenance default values;

comment on table replayfloor.maintenance is
    'One row: the retention that is kept, and the last run.';
comment on column replayfloor.maintenance.outcome is
    'running | done | overdue (something could not be dropped) | failed';
comment on column replayfloor.maintenance.removed is
    'Receipts that the last run deleted one by one, from a table without partitions.';

-- The partitions of a table that hold only rows older than the retention, oldest first.
create function replayfloor.expired_partitions_v1(p_parent text, p_retention_ms bigint)
returns table (name text, starts_at timestamptz, ends_at timestamptz) language plpgsql as $$
declare
    v_before timestamptz := replayfloor.now_v1() - p_retention_ms * interval '1 ms';
begin
    return query
        select p.name, p.starts_at, p.ends_at
        from replayfloor.partitions_v1(p_parent) as p
        where p.ends_at <= v_before
        order by p.ends_at;
end
$$;

-- Says what a run would do: 'make' or 'drop', which table's partition, and its bounds; or 'delete'
-- from receipts without partitions, and between which moments these were finished.
create function replayfloor.plan_v1(
    p_retention_ms bigint, p_width_ms bigint, p_ahead_ms bigint, p_audit_ms bigint
) returns table (action text, partition_of text, starts_at timestamptz, ends_at timestamptz)
language plpgsql as $$
begin
    if replayfloor.is_partitioned_v1() then
        return query
            select 'make', 'receipts', m.starts_at, m.ends_at
            from replayfloor.missing_partitions_v1(
                p_width_ms, replayfloor.now_v1() + p_ahead_ms * interval '1 ms') as m;
    else
        return query
            select 'delete', 'receipts', min(r.finished_at), max(r.finished_at)
            from replayfloor.receipts as r
            where r.finished_at <= (
                select replayfloor.now_v1() - p_retention_ms * interval '1 ms')
            having count(*) > 0;
    end if;
    return query
        select 'drop', 'receipts', e.starts_at, e.ends_at
        from replayfloor.expired_partitions_v1('receipts', p_retention_ms) as e;
    return query
        select 'drop', 'proofs', e.starts_at, e.ends_at
        from replayfloor.expired_partitions_v1(
            'proofs', coalesce(p_audit_ms, p_retention_ms)) as e;
end
$$;

create function replayfloor.is_partitioned_v1() returns boolean language sql stable as $$
    select relkind = 'p' from pg_catalog.pg_class where oid = to_regclass('replayfloor.receipts')
$$;

-- Waits at most for p_lock_ms until no transaction holds uncommitted rows of a partition; says
-- whether it was so at some moment. What was begun later cannot write into a time that is over.
create function replayfloor.is_quiet_v1(p_name text, p_lock_ms integer) returns boolean
language plpgsql as $$
begin
    perform set_config('lock_timeout', p_lock_ms || 'ms', true);
    begin
        execute format('lock table only replayfloor.%I in share mode', p_name);
        raise exception 'quiet' using errcode = 'RF001';
    exception
        when sqlstate 'RF001' then return true; -- and the lock is given back
        when lock_not_available or deadlock_detected then return false;
    end;
end
$$;

-- Copies up to p_limit ids of a partition, those after p_after, to the proofs. Safe to repeat.
create function replayfloor.copy_ids_v1(
    p_name text, p_after uuid, p_limit integer, out last uuid, out copied bigint
) language plpgsql as $$
begin
    execute format(
        'with batch as ('
        '    select id, finished_at from replayfloor.%I'
        '    where $1 is null or id > $1 order by id limit $2'
        '), kept as ('
        '    insert into replayfloor.proofs (id, used_at) select id, finished_at from batch'
        '    on conflict do nothing'
        ') select (select id from batch order by id desc limit 1), (select count(*) from batch)',
        p_name)
    into last, copied using p_after, p_limit;
end
$$;

-- Drops a partition if the locks can be had within p_lock_ms each; says whether it did.
--
-- Whoever waits for a lock that stops everybody is waited for by everybody: so the wait is short,
-- and what is known to take long is not waited for at all, such as a vacuum of the partition.
create function replayfloor.try_drop_v1(p_name text, p_lock_ms integer) returns boolean
language plpgsql as $$
begin
    perform set_config('lock_timeout', p_lock_ms || 'ms', true);
    begin
        execute format(
            'lock table only replayfloor.%I in share update exclusive mode nowait', p_name);
        execute format('drop table replayfloor.%I', p_name);
        return true;
    exception
        when undefined_table then return true; -- somebody else has dropped it
        when lock_not_available or deadlock_detected then return false;
    end;
end
$$;

-- How long to wait before the n-th try: doubled each time up to a second, and never quite the
-- same, so that it does not keep meeting what happens at regular times.
create function replayfloor.pause_s_v1(p_try integer) returns double precision language sql
as $$ select least(1.0, 0.05 * 2 ^ least(p_try, 10)) * (0.5 + random()) $$;

-- Promises: the partition is gone, its ids (if p_audit) are in the proofs, and the last of them
-- went there in the transaction of the drop. p_done says whether it could be done. The longest
-- wait of any request is p_lock_ms for each of two locks. It commits; a run that is killed is
-- repeated by the next.
create procedure replayfloor.expire_partition_v1(
    p_name text, p_audit boolean, p_lock_ms integer, p_tries integer,
    inout p_proofs bigint, inout p_done boolean default false
) language plpgsql as $$
declare
    c_batch constant integer := 10000;
    v_after uuid;
    v_last uuid;
    v_copied bigint;
    v_quiet boolean := not p_audit;
begin
    p_done := false;
    for v_try in 1..p_tries loop
        if not v_quiet then
            v_quiet := replayfloor.is_quiet_v1(p_name, p_lock_ms);
        end if;
        if v_quiet and p_audit then
            loop
                select c.last, c.copied into v_last, v_copied
                from replayfloor.copy_ids_v1(p_name, v_after, c_batch) as c;
                exit when v_copied < c_batch;
                v_after := v_last;
                p_proofs := p_proofs + v_copied;
                commit;
            end loop;
        end if;
        if v_quiet then
            p_done := replayfloor.try_drop_v1(p_name, p_lock_ms);
        end if;
        commit;
        if p_done then
            p_proofs := p_proofs + coalesce(v_copied, 0);
            return;
        end if;
        perform pg_sleep(replayfloor.pause_s_v1(v_try));
    end loop;
end
$$;
