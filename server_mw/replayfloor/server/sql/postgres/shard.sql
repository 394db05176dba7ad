-- Promises to say which of how many shards this database is (null: it was not told), and whether
-- the check stands that refuses the claims of others. One row.
select (select s.place from replayfloor.shard as s),
       (select s.shards from replayfloor.shard as s),
       exists (select from pg_catalog.pg_constraint as c
               where c.conrelid = to_regclass('replayfloor.claims')
                 and c.conname = 'claims_are_of_this_shard' and c.contype = 'c'
                 and c.convalidated)
