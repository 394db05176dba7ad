-- Promises: the key stays known as used after its receipt is gone.
insert into replayfloor_proofs (id, used_ms) values (:id, :now_ms)
on conflict (id) do update set used_ms = excluded.used_ms
