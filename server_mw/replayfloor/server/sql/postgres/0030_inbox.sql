-- Promises: an event that was acknowledged stands here, once, until it was applied or a person gave
-- it up; and of the events of one subject that are applied in order, one at a time is in work.

create table replayfloor.inbox (
    seq          bigint      generated always as identity,
    received_at  timestamptz not null default clock_timestamp(),
    due_at       timestamptz not null default clock_timestamp(),
    occurred_at  timestamptz,
    lease_until  timestamptz,
    last_at      timestamptz,
    id           uuid        not null,
    fence        uuid,
    subject_id   uuid,
    attempts     integer     not null default 0,
    past_horizon boolean     not null,
    sealed       boolean     not null,
    taken_over   boolean     not null default false,
    state        text        not null default 'waiting',
    namespace    text        not null,
    source       text        not null,
    endpoint     text        not null,
    event_id     text        not null,
    subject      text,
    last_error   text        not null default '',
    request      bytea       not null,
    constraint inbox_id primary key (id),
    constraint inbox_state_is_known check (state in ('waiting', 'dead')),
    constraint inbox_fence_has_a_lease check ((fence is null) = (lease_until is null)),
    constraint inbox_dead_is_in_no_work check (state = 'waiting' or fence is null)
) with (
    -- A row is inserted, taken and deleted within moments, so most of the table is dead rows as
    -- soon as some thousand events have passed: vacuum by count and not by share, as for claims.
    -- Half of a page stays free, so that renewals, which touch no index, find room in it.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    -- Requests above 2 kB are stored beside the table, and go as fast as their rows.
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_cost_delay = 0
);

-- What a worker looks for, in the order in which it is handed out.
create index inbox_due on replayfloor.inbox (namespace, due_at, seq) where state = 'waiting';
-- What may have to wait for an earlier one.
create index inbox_order on replayfloor.inbox (subject_id, seq) where subject_id is not null;
-- Two workers that look at one subject at the same time may each find another event of it to be the
-- first: one that was inserted earlier can be committed later. This index refuses the second.
create unique index inbox_one_of_a_subject on replayfloor.inbox (subject_id)
    where fence is not null and subject_id is not null;

comment on table replayfloor.inbox is
    'One row per acknowledged event of a webhook that was not applied yet.';
comment on column replayfloor.inbox.id is
    'The id of the receipt by which the event was acknowledged.';
comment on column replayfloor.inbox.seq is
    'The order of arrival.';
comment on column replayfloor.inbox.fence is
    'Names one execution, as in claims; null if no worker has it, or had it when it died.';
comment on column replayfloor.inbox.taken_over is
    'Whether the worker that has it took it over from one whose lease had run out.';
comment on column replayfloor.inbox.subject_id is
    'SHA-256 of namespace, endpoint and subject, cut; null if order does not matter.';
comment on column replayfloor.inbox.last_error is
    'What went wrong last: a status, or the type of an exception; nothing of the event.';
comment on column replayfloor.inbox.request is
    'The request in a versioned binary form (replayfloor.server.webhooks.inbox), sealed or not.';

-- Promises: the event stands in the inbox once this transaction is committed. Returns whether it
-- is new there. If it is, and no other event has become due within the last second and still waits,
-- a worker that listens is woken by the same commit.
--
-- Transactions that notify are committed by Postgres one after the other, each waiting for the disk
-- (measured with 16 at once: 250 to 600 a second, and some 2,000 without). So the second of two
-- events is not announced while the first one waits: whoever takes that one looks for more
-- afterwards. An event that nobody was woken for in this way is found by the workers' next look.
create function replayfloor.inbox_put_v1(
    p_id uuid, p_namespace text, p_source text, p_endpoint text, p_event_id text,
    p_subject text, p_subject_id uuid, p_occurred_ms bigint, p_past_horizon boolean,
    p_request bytea, p_sealed boolean
) returns boolean language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
begin
    insert into replayfloor.inbox (
        id, namespace, source, endpoint, event_id, subject, subject_id, occurred_at,
        past_horizon, request, sealed)
    values (
        p_id, p_namespace, p_source, p_endpoint, p_event_id, p_subject, p_subject_id,
        timestamptz 'epoch' + p_occurred_ms * interval '1 ms', p_past_horizon, p_request, p_sealed)
    on conflict (id) do nothing;
    if not found then
        return false;
    end if;
    if not exists (
        select from replayfloor.inbox as i
        where i.namespace = p_namespace and i.state = 'waiting' and i.fence is null
          and i.due_at > v_now - interval '1 second' and i.due_at <= v_now and i.id <> p_id
    ) then
        perform replayfloor.inbox_wake_v1(p_namespace);
    end if;
    return true;
end
$$;

-- Wakes one worker of each process that listens, once this transaction is committed. The channel is
-- one for all namespaces, as a channel's name is short; each worker compares the text.
create function replayfloor.inbox_wake_v1(p_namespace text) returns void language sql
as $$ select pg_notify('replayfloor_inbox', left(p_namespace, 100)) $$;
