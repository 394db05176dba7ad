-- Promises every partition of receipts and proofs, or the table that has none: its bounds (of a
-- table: when its oldest row is from), about how many rows it has, its bytes, and whether it has
-- bounds of its own.
with parts as (
    select parent.name as parent, c.oid, c.relname::text as name, c.reltuples,
           p.starts_at, p.ends_at, p.ends_at is not null as bounded
    from (values ('receipts'), ('proofs')) as parent (name)
    join pg_catalog.pg_inherits as i
      on i.inhparent = to_regclass(format('replayfloor.%I', parent.name))
    join pg_catalog.pg_class as c on c.oid = i.inhrelid
    left join replayfloor.partitions_v1(parent.name) as p on p.name = c.relname
    union all
    select 'receipts', c.oid, c.relname::text, c.reltuples,
           (select min(finished_at) from replayfloor.receipts), null, true
    from pg_catalog.pg_class as c
    where c.oid = to_regclass('replayfloor.receipts') and c.relkind = 'r'
)
select parts.parent, parts.name, parts.starts_at, parts.ends_at,
       -- Whichever is known: one is of the last vacuum, the other is lost in a crash.
       greatest(parts.reltuples, 0, pg_stat_get_live_tuples(parts.oid))::bigint,
       pg_total_relation_size(parts.oid), parts.bounded
from parts
order by parts.parent desc, parts.starts_at
