-- Promises: one row: transactions of this database, bytes and flushes of the write-ahead log of the
-- server, receipts, and the bytes that they take with their index.
select
    (select xact_commit from pg_stat_database where datname = current_database()),
    (select wal_bytes::bigint from pg_stat_wal),
    (select coalesce(sum(fsyncs), 0)::bigint from pg_stat_io where object = 'wal'),
    (select count(*) from replayfloor.receipts),
    (select sum(pg_total_relation_size(relid))::bigint
     from pg_partition_tree('replayfloor.receipts') where isleaf)
