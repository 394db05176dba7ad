-- Makes the table of an empty scratch database: one row per operation, with the bounds of Sighting.
create table sightings (
    namespace           text    not null,
    operation_id        text    not null,
    provider            text    not null,
    seen_at_ns          integer not null,
    first_attempt_at_ns integer not null,
    sent_ns             integer not null,
    elapsed_ns          integer not null,
    attempts            integer not null,
    outcome             integer not null,
    word                integer not null,
    begun_at_ns         integer not null,
    rested_at_ns        integer not null,
    retention_s         real,
    send_deadline_ns    integer,
    primary key (namespace, operation_id)
) strict, without rowid
