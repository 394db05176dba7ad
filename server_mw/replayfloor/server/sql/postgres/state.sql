-- Promises to say which migrations are applied, for how long from now receipts meet a partition
-- without a gap (null: not even now), whether the index that refuses second claims stands, whether
-- receipts are one table without partitions, and how wide the partition of this moment is.
with bounds as (
    select regexp_match(pg_get_expr(c.relpartbound, c.oid),
                        'FROM \(''([^'']+)''\) TO \(''([^'']+)''\)')::timestamptz[] as ends
    from pg_catalog.pg_inherits as i
    join pg_catalog.pg_class as c on c.oid = i.inhrelid
    where i.inhparent = to_regclass('replayfloor.receipts')
)
select (select coalesce(array_agg(name order by name), '{}') from replayfloor.migrations),
       (select min(b.ends[2]) - now()
        from bounds as b
        where b.ends[2] > now()
          and exists (select from bounds as n
                      where n.ends[1] <= now() and now() < n.ends[2])
          and not exists (select from bounds as n
                          where n.ends[1] <= b.ends[2] and b.ends[2] < n.ends[2])),
       exists (select from pg_catalog.pg_index as x
               where x.indexrelid = to_regclass('replayfloor.claims_id')
                 and x.indrelid = to_regclass('replayfloor.claims')
                 and x.indisunique and x.indisvalid),
       exists (select from pg_catalog.pg_class as c
               where c.oid = to_regclass('replayfloor.receipts') and c.relkind = 'r'),
       (select min(b.ends[2] - b.ends[1])
        from bounds as b where b.ends[1] <= now() and now() < b.ends[2])
