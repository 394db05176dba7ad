-- Promises to say which migrations are applied, how far receipts have partitions made ahead, and
-- whether the index that refuses second claims stands.
select (select coalesce(array_agg(name order by name), '{}') from replayfloor.migrations),
       (select max(to_timestamp(substring(c.relname from '\d{8}_\d{4}$'), 'YYYYMMDD_HH24MI')
                   ::timestamp at time zone 'UTC')
        from pg_catalog.pg_inherits as i
        join pg_catalog.pg_class as c on c.oid = i.inhrelid
        where i.inhparent = to_regclass('replayfloor.receipts')) - clock_timestamp(),
       exists (select from pg_catalog.pg_index as x
               where x.indexrelid = to_regclass('replayfloor.claims_id')
                 and x.indrelid = to_regclass('replayfloor.claims')
                 and x.indisunique and x.indisvalid)
