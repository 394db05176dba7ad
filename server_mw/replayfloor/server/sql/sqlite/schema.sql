-- Promises: claims and receipts exist, and a second claim of an id is refused by an index.
--
-- The names carry a prefix because the application's own tables live in the same file: only so
-- can a handler's writes and the receipt be one commit.
--
-- retention_ms and expires_ms are null where nothing expires: each namespace of a file has a
-- retention of its own, and no claim of one may delete the receipts of another.
create table replayfloor_claims (
    id           blob    not null primary key check (length(id) = 16),
    fingerprint  blob    not null check (length(fingerprint) = 16),
    fence        blob    not null check (length(fence) = 16),
    claimed_ms   integer not null,
    lease_ms     integer not null,
    retention_ms integer
) without rowid;

create table replayfloor_receipts (
    id           blob    not null primary key check (length(id) = 16),
    fingerprint  blob    not null check (length(fingerprint) = 16),
    finished_ms  integer not null,
    took_ms      integer not null,
    status       integer not null check (status between 100 and 999),
    response     blob    not null,
    expires_ms   integer
) without rowid;

create table replayfloor_proofs (
    id      blob    not null primary key check (length(id) = 16),
    used_ms integer not null
) without rowid;

-- What has expired is found without reading all.
create index replayfloor_receipts_finished on replayfloor_receipts (finished_ms);
create index replayfloor_receipts_expires on replayfloor_receipts (expires_ms);
create index replayfloor_proofs_used on replayfloor_proofs (used_ms);

create table replayfloor_schema (version integer not null);
insert into replayfloor_schema (version) values (3);
