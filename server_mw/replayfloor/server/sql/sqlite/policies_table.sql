-- Promises: the noted policies have their table, also in a file of an earlier release. It is made
-- by the first declaration: nothing else looks at it.
create table if not exists replayfloor_policies (
    namespace   text    not null primary key,
    digest      text    not null,
    retention_s real    not null check (retention_s > 0),
    text        text    not null,
    noted_ms    integer not null
) without rowid
