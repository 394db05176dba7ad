-- Returns what the clock of every lease shows: this server's own, in ns since 1970 (UTC). Machines
-- that share the journal need not agree on the time.
create function replayfloor_client.clock_ns_v1() returns bigint
language sql volatile as $$
    select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint) * 1000
$$;
