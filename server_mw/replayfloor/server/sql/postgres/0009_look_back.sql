-- Promises: what compares with the present asks one function for it, and a key can stay known as
-- used after its receipt is gone.

-- The present, in one place, so that a test can have another one. Leases do not ask it: they are
-- compared with the clock of this server alone.
create function replayfloor.now_v1() returns timestamptz language sql volatile
as $$ select clock_timestamp() $$;

-- That a key was used, after its receipt is gone. Several rows of one id do no harm.
create table replayfloor.proofs (
    id      uuid        not null,
    used_at timestamptz not null
) partition by range (used_at);

comment on table replayfloor.proofs is
    'One row per key that was used and whose receipt is gone. Kept for the audit retention.';

-- Promises: after the call, every moment from p_from to p_until lies in a partition of one month.
create function replayfloor.ensure_proofs_v1(p_from timestamptz, p_until timestamptz)
returns integer language plpgsql as $$
declare
    v_start timestamptz := date_trunc('month', p_from at time zone 'UTC') at time zone 'UTC';
    v_end timestamptz;
    v_name text;
    v_made integer := 0;
begin
    while v_start <= p_until loop
        v_end := ((v_start at time zone 'UTC') + interval '1 month') at time zone 'UTC';
        v_name := 'proofs_' || to_char(v_start at time zone 'UTC', 'YYYYMM');
        if to_regclass(format('replayfloor.%I', v_name)) is null then
            execute format(
                'create table replayfloor.%I partition of replayfloor.proofs'
                ' for values from (%L) to (%L)', v_name, v_start, v_end);
            execute format(
                'create unique index %I on replayfloor.%I (id)', v_name || '_id', v_name);
            v_made := v_made + 1;
        end if;
        v_start := v_end;
    end loop;
    return v_made;
end
$$;
