-- Promises: a claim for each id in flight, a receipt for each finished one, and nothing more.
create table claims (
    id bytea primary key, fingerprint bytea not null, fence bytea not null,
    claimed_at timestamptz not null, lease_until timestamptz not null
);
create table receipts (
    id bytea primary key, fingerprint bytea not null, finished_at timestamptz not null,
    status integer not null, response bytea not null
)
