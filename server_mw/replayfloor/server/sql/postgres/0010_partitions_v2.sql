-- Promises: partitions follow each other without a gap and without an overlap, whatever width each
-- was made with, and none is ever made in a way that a request has to wait for.
--
-- There is no default partition: a row outside of all partitions is an error, at once and loud. In
-- a default partition it would be found by no one, and stand in the way of the partition that is
-- made for its time.

-- The partitions of a table of ours, in their order. Bounds that are not two moments are null.
create function replayfloor.partitions_v1(p_parent text)
returns table (name text, starts_at timestamptz, ends_at timestamptz)
language sql volatile set timezone = 'UTC' set datestyle = 'ISO' as $$
    select c.relname::text, b.ends[1], b.ends[2]
    from pg_catalog.pg_inherits as i
    join pg_catalog.pg_class as c on c.oid = i.inhrelid
    cross join lateral (
        select regexp_match(pg_get_expr(c.relpartbound, c.oid),
                            'FROM \(''([^'']+)''\) TO \(''([^'']+)''\)')::timestamptz[] as ends
    ) as b
    where i.inhparent = to_regclass(format('replayfloor.%I', p_parent))
      and not i.inhdetachpending
    order by 2
$$;

-- Returns the multiple of a width since 1970 that is not after a moment.
create function replayfloor.floor_v1(p_moment timestamptz, p_width_ms bigint)
returns timestamptz language sql immutable as $$
    select timestamptz '1970-01-01 00:00:00+00'
        + floor(extract(epoch from p_moment) * 1000 / p_width_ms) * p_width_ms * interval '1 ms'
$$;

-- Promises a partition of a table for these moments, and returns its name.
--
-- Attached and not created in place: attaching lets reads and writes of the table go on, while
-- `create table … partition of` would stop them all.
create function replayfloor.attach_partition_v1(
    p_parent text, p_from timestamptz, p_until timestamptz
) returns text language plpgsql as $$
declare
    v_name text := p_parent || '_' || to_char(p_from at time zone 'UTC', 'YYYYMMDD_HH24MI');
begin
    -- Somebody may have detached one of that name, to keep it.
    while to_regclass(format('replayfloor.%I', v_name)) is not null loop
        v_name := v_name || 'x';
    end loop;
    execute format(
        'create table replayfloor.%I (like replayfloor.%I'
        ' including defaults including constraints including storage)', v_name, p_parent);
    execute format('create unique index %I on replayfloor.%I (id)', v_name || '_id', v_name);
    execute format(
        'alter table replayfloor.%I attach partition replayfloor.%I for values from (%L) to (%L)',
        p_parent, v_name, p_from, p_until);
    return v_name;
end
$$;

-- Says which partitions of receipts lack, so that each moment from the present to p_until has one.
--
-- A new one begins where the last one ends, and ends at the next multiple of the width: so another
-- width takes effect after the partitions that are there already.
create function replayfloor.missing_partitions_v1(p_width_ms bigint, p_until timestamptz)
returns table (starts_at timestamptz, ends_at timestamptz) language plpgsql as $$
declare
    v_present timestamptz := replayfloor.now_v1();
    v_floor timestamptz := replayfloor.floor_v1(v_present, p_width_ms);
    v_first timestamptz;
    v_last timestamptz;
    v_ahead boolean;
begin
    if p_width_ms is null or p_width_ms < 1 then
        raise exception 'replayfloor: % ms is no width of a partition', p_width_ms
            using errcode = 'invalid_parameter_value';
    end if;
    select min(p.starts_at), max(p.ends_at), coalesce(max(p.starts_at) > v_present, false)
    into v_first, v_last, v_ahead
    from replayfloor.partitions_v1('receipts') as p;
    if v_last is null then
        -- One width back, for a clock that is set back a little.
        v_last := replayfloor.floor_v1(v_floor - p_width_ms * interval '1 ms', p_width_ms);
    elsif v_first > v_present then
        starts_at := v_floor;
        ends_at := v_first;
        return next;
    end if;
    return query
        select h.hole, h.next_at
        from (select p.ends_at as hole, lead(p.starts_at) over (order by p.starts_at) as next_at
              from replayfloor.partitions_v1('receipts') as p) as h
        where h.hole < h.next_at and h.next_at > v_present;
    -- A time that nobody made partitions for, and that is over, needs one however long it was.
    if v_last < v_floor and v_first is not null then
        starts_at := v_last;
        ends_at := v_floor;
        return next;
        v_last := v_floor;
    end if;
    -- And always the next one.
    while v_last <= p_until or not v_ahead loop
        starts_at := v_last;
        ends_at := replayfloor.floor_v1(v_last, p_width_ms) + p_width_ms * interval '1 ms';
        return next;
        v_ahead := v_ahead or starts_at > v_present;
        v_last := ends_at;
    end loop;
end
$$;

-- Promises: each moment from the present to p_until lies in a partition; returns how many it made.
create function replayfloor.ensure_partitions_v2(p_width_ms bigint, p_until timestamptz)
returns integer language plpgsql as $$
declare
    v_lacks record;
    v_made integer := 0;
begin
    for v_lacks in select * from replayfloor.missing_partitions_v1(p_width_ms, p_until) loop
        perform replayfloor.attach_partition_v1('receipts', v_lacks.starts_at, v_lacks.ends_at);
        v_made := v_made + 1;
    end loop;
    return v_made;
end
$$;

-- Promises: partitions ahead that have another width than this one, and no rows, are gone, so that
-- it takes effect after the current partition. In one transaction with the call that makes the new
-- ones; for a migration, as requests have to wait until its end.
create function replayfloor.redraw_partitions_v1(p_width_ms bigint)
returns integer language plpgsql as $$
declare
    v_width interval := p_width_ms * interval '1 ms';
    v_present timestamptz := replayfloor.now_v1();
    v_from timestamptz;
    v_ahead record;
    v_empty boolean;
    v_gone integer := 0;
begin
    select min(p.starts_at) into v_from
    from replayfloor.partitions_v1('receipts') as p
    where p.starts_at > v_present
      -- The first one after a change is narrower, as it ends at a multiple of the width.
      and p.ends_at <> replayfloor.floor_v1(p.starts_at, p_width_ms) + v_width;
    if v_from is null then
        return 0;
    end if;
    lock table only replayfloor.receipts in access exclusive mode;
    for v_ahead in
        select p.name from replayfloor.partitions_v1('receipts') as p
        where p.starts_at >= v_from order by p.starts_at desc
    loop
        execute format('select not exists (select from replayfloor.%I)', v_ahead.name)
            into v_empty;
        exit when not v_empty;
        execute format('drop table replayfloor.%I', v_ahead.name);
        v_gone := v_gone + 1;
    end loop;
    return v_gone;
end
$$;

-- Promises: each moment from p_from to p_until lies in a partition of proofs, of a month each;
-- returns how many it made.
create function replayfloor.ensure_proofs_v2(p_from timestamptz, p_until timestamptz)
returns integer language plpgsql as $$
declare
    v_start timestamptz := date_trunc('month', p_from at time zone 'UTC') at time zone 'UTC';
    v_end timestamptz;
    v_made integer := 0;
begin
    while v_start <= p_until loop
        v_end := ((v_start at time zone 'UTC') + interval '1 month') at time zone 'UTC';
        if not exists (
            select from replayfloor.partitions_v1('proofs') as p
            where p.starts_at < v_end and v_start < p.ends_at)
        then
            perform replayfloor.attach_partition_v1('proofs', v_start, v_end);
            v_made := v_made + 1;
        end if;
        v_start := v_end;
    end loop;
    return v_made;
end
$$;
