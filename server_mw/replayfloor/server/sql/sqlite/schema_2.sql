-- Promises: a file of schema version 1 has version 2, with every claim and receipt that it had.
create table replayfloor_proofs (
    id      blob    not null primary key check (length(id) = 16),
    used_ms integer not null
) without rowid;

update replayfloor_schema set version = 2
