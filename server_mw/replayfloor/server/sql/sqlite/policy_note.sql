-- Promises: the policy is the noted one of its namespace.
insert into replayfloor_policies (namespace, digest, retention_s, text, noted_ms)
values (:namespace, :digest, :retention_s, :text, :now_ms)
on conflict (namespace) do update
set digest = excluded.digest, retention_s = excluded.retention_s, text = excluded.text,
    noted_ms = excluded.noted_ms
