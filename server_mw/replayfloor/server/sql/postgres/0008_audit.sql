-- Promises: what is done to a key by hand can be noted, with who did it and when.
--
-- Written before a key is settled by hand and in one commit with an eviction; never updated.

create table replayfloor.audit (
    noted_at      timestamptz not null default clock_timestamp(),
    by_whom       text        not null,
    database_user text        not null default session_user,
    action        text        not null,
    id            uuid        not null,
    detail        text        not null
);
create index audit_id on replayfloor.audit (id);

comment on table replayfloor.audit is
    'One row per thing that was done by hand. Insert only.';
comment on column replayfloor.audit.by_whom is
    'What the person, or their machine, said; database_user is what the server knows.';
