-- Makes an empty file a journal, in one transaction; does nothing to one that is a journal.
-- One row per operation; one operation per id and one per key within a namespace. Moments are ns
-- since 1970 (UTC). `worst` is an Outcome: 0 not sent, 1 rejected, 2 in flight, 3 unknown,
-- 4 definitive. `lease_owner` is empty, and `lease_until_ns` 0, while nobody may send. Strict, so
-- that a value of another type is refused, not stored. The application id spells "RPLF"; it and
-- the version are what the opening of the file looks at. The partial indexes are for looking at
-- what is pending and for pruning: neither reads the whole table.
begin immediate;
create table if not exists operations (
    namespace           text    not null,
    operation_id        text    not null,
    key                 text    not null,
    provider            text    not null,
    method              text    not null,
    origin              text    not null,
    path                text    not null,
    fingerprint         blob    not null,
    first_attempt_at_ns integer not null,
    boot_id             text    not null,
    first_boot_ns       integer not null,
    elapsed_ns          integer not null,
    retention_s         real    not null,
    send_deadline_ns    integer not null,
    attempts            integer not null,
    attempts_ended      integer not null,
    last_attempt_at_ns  integer not null,
    last_seen_at_ns     integer not null,
    worst               integer not null check (worst between 0 and 4),
    state               text    not null
        check (state in ('open', 'unknown_final', 'done', 'settled')),
    final_status        integer,
    last_evidence       text,
    lease_owner         blob    not null,
    lease_until_ns      integer not null,
    response            blob,
    settlement          text    check (settlement in ('executed', 'not_executed')),
    note                text,
    primary key (namespace, operation_id),
    unique (namespace, key)
) strict;
create index if not exists operations_pending
    on operations (first_attempt_at_ns) where state in ('open', 'unknown_final');
create index if not exists operations_finished
    on operations (last_seen_at_ns) where state in ('done', 'settled');
pragma application_id = 0x52504C46;
pragma user_version = 2;
commit;
