-- Promises: after the call, every moment from p_from to p_until lies in a partition of p_width.
--
-- Boundaries are multiples of the width since 1970, so that two callers with the same width agree.
-- The width must not change while partitions of another width lie ahead: they would overlap, and
-- the call fails without having changed anything.

create function replayfloor.ensure_partitions_v1(
    p_from timestamptz, p_until timestamptz, p_width interval
) returns integer language plpgsql as $$
declare
    v_width_s bigint := extract(epoch from p_width);
    v_start timestamptz := to_timestamp(floor(extract(epoch from p_from) / v_width_s) * v_width_s);
    v_name text;
    v_made integer := 0;
begin
    while v_start <= p_until loop
        v_name := 'receipts_' || to_char(v_start at time zone 'UTC', 'YYYYMMDD_HH24MI');
        if to_regclass(format('replayfloor.%I', v_name)) is null then
            execute format(
                'create table replayfloor.%I partition of replayfloor.receipts'
                ' for values from (%L) to (%L)',
                v_name, v_start, v_start + make_interval(secs => v_width_s));
            execute format(
                'create unique index %I on replayfloor.%I (id)', v_name || '_id', v_name);
            v_made := v_made + 1;
        end if;
        v_start := v_start + make_interval(secs => v_width_s);
    end loop;
    return v_made;
end
$$;
