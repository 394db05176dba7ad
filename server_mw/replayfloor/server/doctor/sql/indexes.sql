-- Promises whether a valid unique index refuses the second claim of an id, and which tables of
-- receipts or proofs have no valid unique index on the id.
with tables as (
    select c.oid, c.relname::text as name
    from pg_catalog.pg_class as c
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    left join pg_catalog.pg_inherits as i on i.inhrelid = c.oid
    left join pg_catalog.pg_class as parent on parent.oid = i.inhparent
    where n.nspname = 'replayfloor' and c.relkind = 'r'
      and (c.relname = 'claims' or coalesce(parent.relname, c.relname) in ('receipts', 'proofs'))
), bare as (
    select t.name from tables as t
    where not exists (
        select from pg_catalog.pg_index as x
        join pg_catalog.pg_attribute as a on a.attrelid = t.oid and a.attname = 'id'
        where x.indrelid = t.oid and x.indisunique and x.indisvalid and x.indpred is null
          and x.indnkeyatts = 1 and x.indkey[0] = a.attnum)
)
select exists (select from tables where name = 'claims'),
       not exists (select from bare where name = 'claims'),
       coalesce((select array_agg(name order by name) from bare where name <> 'claims'), '{}')
