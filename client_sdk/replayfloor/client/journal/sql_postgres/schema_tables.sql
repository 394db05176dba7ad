-- Makes the empty schema a journal of version 1: one row per operation, and one operation per id
-- and one per key within a namespace, by the two unique indexes and nothing else.
--
-- Moments are ns since 1970 (UTC). `worst` is an Outcome: 0 not sent, 1 rejected, 2 in flight,
-- 3 unknown, 4 definitive. `lease_owner` is empty, and `lease_until_ns` 0, while nobody may send.
-- Texts are compared byte by byte, so that their order is that of the other journals. The partial
-- indexes are for looking at what is pending and for pruning: neither reads the whole table.
create table replayfloor_client.operations (
    namespace           text collate "C" not null,
    operation_id        text collate "C" not null,
    key                 text collate "C" not null,
    provider            text collate "C" not null,
    method              text             not null,
    origin              text             not null,
    path                text             not null,
    fingerprint         bytea            not null,
    first_attempt_at_ns bigint           not null,
    boot_id             text             not null,
    first_boot_ns       bigint           not null,
    elapsed_ns          bigint           not null,
    retention_s         double precision not null,
    send_deadline_ns    bigint           not null,
    attempts            bigint           not null,
    attempts_ended      bigint           not null,
    last_attempt_at_ns  bigint           not null,
    last_seen_at_ns     bigint           not null,
    worst               smallint         not null,
    state               text             not null,
    final_status        integer,
    last_evidence       text,
    lease_owner         bytea            not null,
    lease_until_ns      bigint           not null,
    response            bytea,
    settlement          text,
    note                text,
    constraint operations_place primary key (namespace, operation_id),
    constraint operations_key unique (namespace, key),
    constraint operations_worst check (worst between 0 and 4),
    constraint operations_state check (state in ('open', 'unknown_final', 'done', 'settled')),
    constraint operations_settlement check (settlement in ('executed', 'not_executed'))
);
create index operations_pending on replayfloor_client.operations (first_attempt_at_ns)
    where state in ('open', 'unknown_final');
create index operations_finished on replayfloor_client.operations (last_seen_at_ns)
    where state in ('done', 'settled');

comment on table replayfloor_client.operations is
    'One row per outbound operation: the write-ahead record of its key.';

create table replayfloor_client.journal_version (
    version    integer     not null,
    created_at timestamptz not null default clock_timestamp()
);
insert into replayfloor_client.journal_version (version) values (1);
