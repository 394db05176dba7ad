-- Promises: the schema and its list of applied migrations exist.
create schema if not exists replayfloor;
create table if not exists replayfloor.migrations (
    name       text        primary key,
    applied_at timestamptz not null default clock_timestamp()
);
