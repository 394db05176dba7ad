-- Promises what receipts and proofs take: rows (counted if `exact`, else the database's estimate),
-- dead rows, bytes of heap and of indexes, and the bytes of both where there is no row.
with parts as (
    select parent.name as parent, t.relid as oid, c.reltuples
    from (values ('receipts'), ('proofs')) as parent (name)
    cross join lateral pg_partition_tree(to_regclass('replayfloor.' || parent.name)) as t
    join pg_catalog.pg_class as c on c.oid = t.relid
    where t.isleaf and c.relkind = 'r'
    union all
    select 'receipts', c.oid, c.reltuples
    from pg_catalog.pg_class as c
    where c.oid = to_regclass('replayfloor.receipts') and c.relkind = 'r'
), counted as (
    select 'receipts' as parent, tableoid as oid, count(*) as n
    from replayfloor.receipts where %(exact)s group by tableoid
    union all
    select 'proofs', tableoid, count(*)
    from replayfloor.proofs where %(exact)s group by tableoid
), figures as (
    select distinct on (parts.oid) parts.parent,
           case when %(exact)s then coalesce(counted.n, 0)
                -- Whichever is known: one is of the last vacuum, the other is lost in a crash.
                else greatest(parts.reltuples, 0, pg_stat_get_live_tuples(parts.oid))::bigint
           end as n,
           pg_stat_get_dead_tuples(parts.oid) as dead,
           pg_table_size(parts.oid) as heap, pg_indexes_size(parts.oid) as indexes
    from parts left join counted on counted.oid = parts.oid
)
select parent, sum(n)::bigint, sum(dead)::bigint, sum(heap)::bigint, sum(indexes)::bigint,
       coalesce(sum(heap + indexes) filter (where n = 0), 0)::bigint
from figures
group by parent
order by parent desc
