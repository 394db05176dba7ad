-- Promises: claims and receipts exist, a second claim of an id is refused by an index, a receipt
-- always meets a partition, and nothing in receipts is ever updated.

create table replayfloor.claims (
    id          uuid        not null,
    fingerprint uuid        not null,
    fence       uuid        not null,
    claimed_at  timestamptz not null,
    lease_until timestamptz not null,
    constraint claims_lease_is_positive check (lease_until > claimed_at)
) with (
    -- Small and hot: rows live for milliseconds, so vacuum by count and not by share.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
create unique index claims_id on replayfloor.claims (id);

comment on table replayfloor.claims is
    'One row per key in flight or orphaned. The unique index refuses the second claim.';
comment on column replayfloor.claims.id is
    'First 128 bits of SHA-256 over namespace, principal and key; the raw key is not stored.';
comment on column replayfloor.claims.fence is
    'Names one execution; every later write of the claim has to bring it.';

-- Wide columns first, so that no padding is stored.
create table replayfloor.receipts (
    id          uuid        not null,
    fingerprint uuid        not null,
    finished_at timestamptz not null,
    took_ms     integer     not null,
    status      smallint    not null,
    response    bytea       not null,
    constraint receipts_status_is_http check (status between 100 and 999)
) partition by range (finished_at);

comment on table replayfloor.receipts is
    'One row per finished key. Insert only; retention drops partitions.';
comment on column replayfloor.receipts.response is
    'Versioned binary form of status, headers and body (replayfloor.core.receipt).';
