-- Promises: what is done to a key by hand can be noted, with who did it and when.
create table if not exists replayfloor_audit (
    noted_ms  integer not null,
    by_whom   text    not null,
    action    text    not null,
    id        blob    not null check (length(id) = 16),
    detail    text    not null
)
