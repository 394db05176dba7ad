-- Promises the state of the table of claims without a look into it: rows as statistics have them.
select pg_stat_get_live_tuples(c.oid), pg_stat_get_dead_tuples(c.oid),
       pg_total_relation_size(c.oid),
       coalesce('autovacuum_enabled=false' <> all (c.reloptions)
                and 'autovacuum_enabled=off' <> all (c.reloptions), true)
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = 'replayfloor' and c.relname = 'claims'
