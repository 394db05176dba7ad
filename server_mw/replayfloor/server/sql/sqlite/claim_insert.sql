-- Promises: the key is this fence's if it had no claim; the primary key refuses a second one.
insert into replayfloor_claims (id, fingerprint, fence, claimed_ms, lease_ms,
                                retention_ms)
values (:id, :fingerprint, :fence, :now_ms, :now_ms + :lease_ms, :retention_ms)
on conflict (id) do nothing
