-- Promises what keeps old row versions of this database from being removed: open transactions,
-- prepared ones, and slots of replicas that are gone; each with its age, or the bytes it keeps.
select 'transaction', a.pid::text || coalesce(' of ' || a.usename, ''),
       extract(epoch from clock_timestamp() - a.xact_start)::double precision, null::bigint,
       coalesce(a.state, '')
from pg_catalog.pg_stat_activity as a
where a.pid <> pg_backend_pid() and a.xact_start is not null
  and a.backend_type in ('client backend', 'walsender', 'logical replication worker')
  and (a.datname = current_database() or a.datname is null)
union all
select 'prepared', p.gid || ' of ' || p.owner,
       extract(epoch from clock_timestamp() - p.prepared)::double precision, null, 'prepared'
from pg_catalog.pg_prepared_xacts as p
where p.database = current_database()
union all
select 'slot', s.slot_name::text, null,
       case when pg_is_in_recovery() then null
            else pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn) end::bigint,
       coalesce(s.wal_status, '')
from pg_catalog.pg_replication_slots as s
where not s.active and s.restart_lsn is not null
order by 3 desc nulls last
