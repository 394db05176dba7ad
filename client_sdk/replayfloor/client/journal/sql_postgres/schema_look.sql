-- Says what there is by the name of the schema, with no right to anything in it: one row.
select n.oid is not null as present,
       c.relation is not null as versioned,
       coalesce(c.relations, 0) > 0 as filled,
       current_setting('server_encoding') as encoding
from (select) as nothing
left join pg_catalog.pg_namespace as n on n.nspname = 'replayfloor_client'
left join lateral (
    select max(relname) filter (where relname = 'journal_version') as relation,
           count(*) as relations
    from pg_catalog.pg_class
    where relnamespace = n.oid
) as c on true;
