-- Promises: receipts may also be one table without partitions, and what is expired there is
-- deleted in batches, each a short transaction that waits for nobody.

-- Turns the empty, partitioned table of a new database into a plain one.
create function replayfloor.make_plain_v1() returns void language plpgsql as $$
begin
    if not replayfloor.is_partitioned_v1() then
        return;
    end if;
    lock table replayfloor.receipts in access exclusive mode;
    if exists (select from replayfloor.receipts) then
        raise exception 'replayfloor: receipts has rows, and cannot become a plain table'
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    create table replayfloor.receipts_plain (
        like replayfloor.receipts including defaults including constraints including storage
    ) with (
        -- Every row is deleted once, about as many at a time as are inserted.
        autovacuum_vacuum_scale_factor = 0.05,
        autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0
    );
    drop table replayfloor.receipts;
    alter table replayfloor.receipts_plain rename to receipts;
    create unique index receipts_id on replayfloor.receipts (id);
    create index receipts_finished_at on replayfloor.receipts (finished_at);
    comment on table replayfloor.receipts is
        'One row per finished key; retention deletes rows in batches.';
end
$$;

-- Promises: up to p_limit expired receipts are gone, and (p_audit) their ids are proofs, in one
-- commit; returns how many. What somebody else is at is left alone. Partitions of proofs for the
-- time of these receipts have to be there.
create function replayfloor.sweep_v1(p_retention_ms bigint, p_audit boolean, p_limit integer)
returns bigint language plpgsql as $$
declare
    v_before timestamptz := replayfloor.now_v1() - p_retention_ms * interval '1 ms';
    v_gone bigint;
begin
    with old as (
        select r.ctid from replayfloor.receipts as r
        where r.finished_at <= v_before
        order by r.finished_at
        limit p_limit
        for update skip locked
    ), gone as (
        delete from replayfloor.receipts as r
        where r.ctid = any (array(select ctid from old))
        returning r.id, r.finished_at
    ), kept as (
        insert into replayfloor.proofs (id, used_at)
        select id, finished_at from gone where p_audit
        on conflict do nothing
    )
    select count(*) into v_gone from gone;
    return v_gone;
end
$$;

-- The range of a plain table's own that becomes its bounds as a partition; see convert_v1.
create function replayfloor.converting_until_v1() returns timestamptz language sql stable as $$
    select (regexp_match(pg_get_constraintdef(c.oid), '< ''([^'']+)'''))[1]::timestamptz
    from pg_catalog.pg_constraint as c
    where c.conrelid = to_regclass('replayfloor.receipts') and c.conname = 'receipts_converting'
$$;

-- Promises: a plain table of receipts becomes the first partition of a partitioned one, with every
-- row that it has, and those that are inserted meanwhile. No row is copied or read by a statement
-- that anybody waits for.
--
-- First a constraint says that its rows end with the next partition but one, which new rows keep,
-- and old ones are checked for while requests go on. Then, in one transaction that changes nothing
-- but names, it is attached within those bounds. It commits; a run that was killed in between is
-- repeated, or undone by the maintenance before the constraint could refuse a row.
create procedure replayfloor.convert_v1(
    p_width_ms bigint, p_ahead_ms bigint, p_lock_ms integer default 50,
    p_tries integer default 40, inout p_done boolean default false
) language plpgsql as $$
declare
    v_until timestamptz;
begin
    p_done := replayfloor.is_partitioned_v1();
    if p_done then
        return;
    end if;
    for v_try in 1..p_tries loop
        v_until := replayfloor.bound_plain_v1(p_width_ms, p_lock_ms);
        commit;
        exit when v_until is not null;
        perform pg_sleep(replayfloor.pause_s_v1(v_try));
    end loop;
    if v_until is null then
        return;
    end if;
    alter table replayfloor.receipts validate constraint receipts_converting;
    commit;
    for v_try in 1..p_tries loop
        p_done := replayfloor.try_attach_plain_v1(p_width_ms, p_ahead_ms, p_lock_ms);
        commit;
        exit when p_done;
        perform pg_sleep(replayfloor.pause_s_v1(v_try));
    end loop;
end
$$;

-- Adds the constraint; returns its upper bound, null if the lock could not be had in time.
create function replayfloor.bound_plain_v1(p_width_ms bigint, p_lock_ms integer)
returns timestamptz language plpgsql as $$
declare
    v_width interval := p_width_ms * interval '1 ms';
    v_present timestamptz := replayfloor.now_v1();
    v_from timestamptz;
    v_latest timestamptz;
    v_until timestamptz := replayfloor.converting_until_v1();
begin
    if v_until > v_present + interval '1 hour' then
        return v_until;
    end if;
    perform set_config('lock_timeout', p_lock_ms || 'ms', true);
    -- One back: a moment before the first receipt, for a clock that is set back. And if it was,
    -- there are receipts of the future.
    select replayfloor.floor_v1(least(min(finished_at), v_present), p_width_ms) - v_width,
           greatest(max(finished_at), v_present)
    into v_from, v_latest from replayfloor.receipts;
    -- Not before the day after: there is time to go on, or to undo it.
    v_until := replayfloor.floor_v1(
        greatest(v_latest, v_latest + interval '1 day' - v_width), p_width_ms) + 2 * v_width;
    begin
        alter table replayfloor.receipts drop constraint if exists receipts_converting;
        execute format(
            'alter table replayfloor.receipts add constraint receipts_converting'
            ' check (finished_at >= %L::timestamptz and finished_at < %L::timestamptz) not valid',
            v_from, v_until);
        return v_until;
    exception when lock_not_available or deadlock_detected then
        return null;
    end;
end
$$;

-- Undoes what a conversion that was given up has left, if it could begin to refuse rows soon.
create function replayfloor.unbound_plain_v1(p_lock_ms integer) returns boolean
language plpgsql as $$
begin
    if replayfloor.is_partitioned_v1()
        or coalesce(replayfloor.converting_until_v1() > replayfloor.now_v1() + interval '12 hours',
                    true)
    then
        return true;
    end if;
    perform set_config('lock_timeout', p_lock_ms || 'ms', true);
    begin
        alter table replayfloor.receipts drop constraint receipts_converting;
        return true;
    exception when lock_not_available or deadlock_detected then
        return false;
    end;
end
$$;

-- Puts the plain table under a partitioned one of its name; says whether the locks could be had.
create function replayfloor.try_attach_plain_v1(
    p_width_ms bigint, p_ahead_ms bigint, p_lock_ms integer
) returns boolean language plpgsql as $$
declare
    v_bounds timestamptz[];
    v_name text;
begin
    perform set_config('lock_timeout', p_lock_ms || 'ms', true);
    begin
        lock table replayfloor.receipts in access exclusive mode;
        select regexp_match(pg_get_constraintdef(c.oid), '>= ''([^'']+)''.*< ''([^'']+)''')
        into v_bounds from pg_catalog.pg_constraint as c
        where c.conrelid = to_regclass('replayfloor.receipts')
          and c.conname = 'receipts_converting';
        v_name := 'receipts_' || to_char(v_bounds[1] at time zone 'UTC', 'YYYYMMDD_HH24MI');
        execute format('alter table replayfloor.receipts rename to %I', v_name);
        execute format('alter index replayfloor.receipts_id rename to %I', v_name || '_id');
        execute format('alter index replayfloor.receipts_finished_at rename to %I',
                       v_name || '_finished_at');
        execute format(
            'create table replayfloor.receipts (like replayfloor.%I'
            ' including defaults including constraints including storage including comments)'
            ' partition by range (finished_at)', v_name);
        -- The bounds are the partition's, and not those of what comes after it.
        alter table replayfloor.receipts drop constraint receipts_converting;
        comment on table replayfloor.receipts is
            'One row per finished key. Insert only; retention drops partitions.';
        execute format(
            'alter table replayfloor.receipts attach partition replayfloor.%I'
            ' for values from (%L) to (%L)', v_name, v_bounds[1], v_bounds[2]);
        execute format('alter table replayfloor.%I drop constraint receipts_converting', v_name);
        perform replayfloor.ensure_partitions_v2(
            p_width_ms, replayfloor.now_v1() + p_ahead_ms * interval '1 ms');
        return true;
    exception when lock_not_available or deadlock_detected then
        return false;
    end;
end
$$;
