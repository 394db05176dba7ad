-- Promises: a database that was told which of several shards it is takes no claim of a key that is
-- another one's, whoever asks. A database that was told nothing takes every key, as before.

create table replayfloor.shard (
    one    boolean not null primary key default true check (one),
    place  integer not null,
    shards integer not null,
    check (place between 1 and shards)
);

comment on table replayfloor.shard is
    'Which of how many shards this database is. Empty where receipts are in one database.';

-- Promises the first id of a place, from 1 to p_shards; null after the last one. Ids are hashes, so
-- that places are equally large. They are divided by their first 24 bits: see shard_places.py.
create function replayfloor.shard_begins_v1(p_place integer, p_shards integer) returns uuid
language sql immutable parallel safe
return case when p_place <= p_shards then
    rpad(lpad(to_hex(ceil((p_place - 1) * 16777216::numeric / p_shards)::bigint), 6, '0'),
         32, '0')::uuid
end;

-- Promises: from its commit on, only keys of this place are claimed here. With p_moved the caller
-- says that the rows of the other places are there already, in copies of this database: claims
-- among them are deleted here, so that each is settled in one place. Without it, a row of another
-- place is an error, and nothing changes: its key would be looked for elsewhere, and executed
-- again.
--
-- It is a check of the table and not of the functions, so that workers of any release, started with
-- any list of shards or with none, are refused. Nobody claims or renews while it runs.
create function replayfloor.place_shard_v1(
    p_place integer, p_shards integer, p_moved boolean default false
) returns void language plpgsql as $$
declare
    v_first uuid := replayfloor.shard_begins_v1(p_place, p_shards);
    v_after uuid := replayfloor.shard_begins_v1(p_place + 1, p_shards);
begin
    lock table replayfloor.claims in access exclusive mode;
    alter table replayfloor.claims drop constraint if exists claims_are_of_this_shard;
    if p_moved then
        delete from replayfloor.claims as c where c.id < v_first or c.id >= v_after;
    elsif exists (select from replayfloor.claims as c where c.id < v_first or c.id >= v_after)
       or exists (select from replayfloor.receipts as r where r.id < v_first or r.id >= v_after)
       or exists (select from replayfloor.proofs as p where p.id < v_first or p.id >= v_after) then
        raise exception 'replayfloor: rows here belong to other shards than % of %',
            p_place, p_shards
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Their keys would be executed again. See docs/scaling.md, "More shards".';
    end if;
    -- A null in place of the end of the last one is no reason to refuse. Constants, and not a look
    -- at the table of the place: this is evaluated for each claim.
    execute format(
        'alter table replayfloor.claims add constraint claims_are_of_this_shard'
        ' check (id >= %L::uuid and id < %L::uuid)', v_first, v_after);
    insert into replayfloor.shard as s (place, shards) values (p_place, p_shards)
    on conflict (one) do update set place = excluded.place, shards = excluded.shards;
end
$$;
